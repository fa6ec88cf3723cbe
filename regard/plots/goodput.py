"""A picture of goodput over the number of nodes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from regard.plots import drawing

if TYPE_CHECKING:
    import matplotlib.figure


@drawing.style()
def goodput(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
) -> "matplotlib.figure.Figure":
    """A line for each way to choose the interval between checkpoints: {name: (nodes, goodput)}."""
    figure = drawing.figure(5.2, 3.4)
    ax = figure.subplots()
    for number, (name, (nodes, values)) in enumerate(curves.items()):
        last = number == len(curves) - 1  # what was not simulated, dashed
        options = {} if last else {"marker": "o", "markersize": 3}
        place = number + last * len(drawing.COLOURS)
        drawing.line(ax, place, nodes, values, label=drawing.text(name), **options)
    least = min(min(values) for _, values in curves.values())
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda value, _: drawing.short(value))
    ax.set(xlabel="nodes", ylabel="useful part of the time", ylim=(max(0.0, least - 0.1), 1.0))
    ax.legend(loc="lower left")
    return figure
