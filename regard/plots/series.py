"""Pictures of forecasts, in the style of `drawing`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.plots import drawing
from regard.plots.drawing import COLOURS, INK

if TYPE_CHECKING:
    import matplotlib.figure

Values = NDArray[np.floating]
MOST = 12
"""Variables that a picture has room for."""


@drawing.style()
def forecast(
    names: Sequence[str],
    past: Values,
    future: Values | None,
    mean: Values,
    low: Values,
    high: Values,
    *,
    title: str,
) -> "matplotlib.figure.Figure":
    """A panel for each variable: the past (S, C), then the expected values (T, C) in their
    interval, and what came, if that is known. Of a long past only its end is shown."""
    if not len(names) or not len(mean):
        raise UserError("no forecast to draw: there are no values")
    count, steps = min(len(names), MOST), len(mean)
    columns = 1 if count == 1 else 2
    rows = -(-count // columns)
    figure = drawing.figure(4.6 * columns, 1.9 * rows + 0.6, title)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
    shown = past[-3 * steps :]
    before, after = np.arange(-len(shown) + 1, 1), np.arange(1, steps + 1)
    for ax, name, n in zip(axes.flat, names, range(count), strict=False):
        ink: dict[str, Any] = {"color": INK, "linewidth": 0.9}
        pale: dict[str, Any] = {"color": COLOURS[4], "alpha": 0.35, "linewidth": 0}
        ax.plot(before, shown[:, n], label="past", **ink)
        if future is not None:
            ax.plot(after, future[:, n], label="what came", linestyle=":", **ink)
        ax.plot(after, mean[:, n], label="forecast", color=COLOURS[0], linewidth=1.3)
        ax.fill_between(after, low[:, n], high[:, n], label="interval", **pale)
        ax.axvline(0.5, color=INK, linewidth=0.6, linestyle="--")
        ax.set_title(drawing.text(name), loc="left")
        drawing.ticks(ax.xaxis, integer=True)
        drawing.ticks(ax.yaxis)
    for ax in list(axes.flat)[count:]:
        ax.set_visible(False)
    for ax in list(axes.flat)[max(0, count - columns) : count]:  # the lowest of each column
        ax.tick_params(labelbottom=True)
        ax.set_xlabel("steps from the last known value")
    legend = axes.flat[0].get_legend_handles_labels()
    figure.legend(*legend, loc="outside lower center", ncols=4)
    return figure
