"""A picture of a sweep: a panel for each key, with the score of every trial over its value."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.plots import drawing

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


class Point(NamedTuple):
    """A trial."""

    values: Mapping[str, Any]
    score: float
    pruned: bool


@drawing.style()
def sweep(
    points: Sequence[Point], logs: Mapping[str, bool], metric: str, best: int | None
) -> "matplotlib.figure.Figure":
    """`logs` says of each key whether its axis is logarithmic; `best` is the number of a point."""
    columns = min(len(logs), 3)
    rows = math.ceil(len(logs) / columns)
    figure = drawing.figure(0.6 + 3.4 * columns, 0.6 + 2.6 * rows)
    axes = drawing.panels(figure, len(logs), rows, columns)
    for ax, (key, log) in zip(axes, logs.items(), strict=True):
        _panel(ax, points, key, log, best)
        ax.set(xlabel=drawing.text(key), ylabel=drawing.name(metric))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _panel(
    ax: "matplotlib.axes.Axes", points: Sequence[Point], key: str, log: bool, best: int | None
) -> None:
    names = sorted({p.values[key] for p in points if isinstance(p.values[key], str)})
    places = [names.index(p.values[key]) if names else p.values[key] for p in points]
    for number, (label, marker, pruned) in enumerate(
        [("finished", "o", False), ("pruned, last score", "x", True)]
    ):
        chosen = [n for n, point in enumerate(points) if point.pruned == pruned]
        if chosen:
            x, y = [places[n] for n in chosen], [points[n].score for n in chosen]
            ax.scatter(x, y, s=22, marker=marker, color=drawing.COLOURS[number], label=label)
    if best is not None:
        ax.scatter(
            places[best], points[best].score, s=110, marker="o", facecolors="none",
            edgecolors=drawing.COLOURS[2], linewidths=1.6, label="best",
        )  # fmt: skip
    if names:
        ax.set_xticks(range(len(names)), [drawing.text(name, 20) for name in names])
        ax.margins(x=0.3)
    elif log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: drawing.power(value))
        ax.xaxis.set_minor_formatter(lambda value, _: "")
    else:
        drawing.ticks(ax.xaxis, integer=all(isinstance(place, int) for place in places))
    drawing.ticks(ax.yaxis)
