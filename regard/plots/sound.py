"""A spectrogram, with what was heard where it was heard."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from regard.plots import drawing

if TYPE_CHECKING:
    import matplotlib.figure

WIDE, HIGH = 12.0, 3.6
"""Inches."""


@drawing.style()
def spectrogram(
    frames: npt.NDArray[np.floating],
    hop: float,
    tokens: Sequence[str],
    times: Sequence[tuple[float, float]],
    title: str,
) -> "matplotlib.figure.Figure":
    """Frames (T, M), one every `hop` seconds, low bands below; above them each token over the
    times that it was placed at."""
    figure = drawing.figure(WIDE, HIGH, title)
    above, ax = figure.subplots(2, 1, sharex=True, height_ratios=[1, 5])
    end = len(frames) * hop
    ax.imshow(
        frames.T, origin="lower", aspect="auto", cmap="magma",
        extent=(0, end, 0, frames.shape[1]), interpolation="nearest",
    )  # fmt: skip
    ax.set_xlabel("seconds")
    ax.set_ylabel("mel band")
    for token, (first, last) in zip(tokens, times, strict=False):
        above.axvspan(first, last, alpha=0.25, linewidth=0)
        above.text((first + last) / 2, 0.5, drawing.text(token, 12), ha="center", va="center")
        ax.axvline(first, color="white", linewidth=0.5, alpha=0.6)
    above.set_ylim(0, 1)
    above.set_yticks([])
    above.set_xlim(0, end)
    return figure
