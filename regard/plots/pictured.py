"""Pictures with what a model made of them: attention over a picture, and what belongs to which."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from regard.plots import drawing

if TYPE_CHECKING:
    import matplotlib.figure

Array = npt.NDArray[Any]
ACROSS, SIDE = 6, 1.7
"""Panels beside each other; inches of one."""


@drawing.style()
def attended(
    picture: Array, words: Sequence[str], weights: npt.NDArray[np.floating], title: str
) -> "matplotlib.figure.Figure":
    """A picture (H, W, C), and for each word the weights (rows, columns) of its places, of (N,
    rows, columns): where it was looked at, the picture is as it is, elsewhere it is dark."""
    across = min(ACROSS, len(words) + 1)
    down = math.ceil((len(words) + 1) / across)
    figure = drawing.figure(SIDE * across, SIDE * down + 0.6, title)
    axes = drawing.panels(figure, len(words) + 1, down, across)
    height, width = picture.shape[:2]
    shown = picture[..., 0] if picture.shape[2] == 1 else picture
    for ax, name, seen in zip(axes, ["", *words], [None, *weights], strict=True):
        ax.imshow(shown, cmap="gray", vmin=0, vmax=255, extent=(0, width, height, 0))
        if seen is not None:
            share = 0.85 * (1 - seen / max(float(seen.max()), 1e-12))
            ax.imshow(
                np.zeros_like(share), cmap="gray", vmin=0, vmax=1, alpha=share,
                extent=(0, width, height, 0), interpolation="bilinear",
            )  # fmt: skip
        ax.set_title(drawing.text(name, 24))
        ax.set_xticks([])
        ax.set_yticks([])
        ax.grid(False)
    return figure


@drawing.style()
def similarities(
    pictures: Sequence[Array], texts: Sequence[str], values: npt.NDArray[np.floating], title: str
) -> "matplotlib.figure.Figure":
    """How much alike pictures (down) and texts (across) are, (N, M) from −1 to 1."""
    cell = 0.5
    longest = 0.07 * max(len(drawing.text(text)) for text in texts)
    wide, high = cell * len(texts), cell * len(pictures)
    figure = drawing.figure(wide + 2.2, high + longest + 1.0, title)
    ax = figure.subplots()
    most = float(np.abs(values).max(initial=1e-12))
    image = ax.imshow(values, cmap="PuOr_r", vmin=-most, vmax=most, aspect="equal")
    ax.grid(False)
    ax.set_yticks([])
    ax.xaxis.tick_top()
    ax.set_xticks(range(len(texts)), [drawing.text(text) for text in texts], rotation=90)
    for n, picture in enumerate(pictures):
        inset = ax.inset_axes((-1.15, n - 0.45, 0.6, 0.9), transform=ax.transData)
        inset.imshow(picture[..., 0] if picture.shape[2] == 1 else picture, cmap="gray")
        inset.set_axis_off()
    figure.colorbar(image, ax=ax, label="cosine", shrink=0.8)
    return figure
