"""A picture of several runs side by side: how they learnt, how good they are, at which length."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from regard.errors import UserError
from regard.metrics import Score
from regard.plots import Curve, drawing
from regard.plots.drawing import INK

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Curves = Mapping[str, Mapping[str, Curve]]
"""{figure: {run: (targets, values)}}"""
Bars = Mapping[str, Mapping[str, Mapping[str, Score]]]
"""{label of the axis: {run: {category: score}}}"""
Reaches = Mapping[str, Sequence[float]]
"""{run: norm of a gradient 0, 1, 2 … tokens back}"""


@drawing.style()
def comparison(
    runs: Sequence[str], curves: Curves, bars: Bars, reaches: Reaches | None = None
) -> "matplotlib.figure.Figure":
    """A panel per figure with every run's learning curve, one per kind of bars, and one for how
    far back gradients reach, if that is known.

    A run has one colour everywhere. Whiskers are the scores' intervals, where they have any.
    """
    from matplotlib.patches import Patch

    count = len(curves) + len(bars) + bool(reaches)
    if not count:
        raise UserError("no picture to draw: the runs have neither curves nor scores")
    columns = {1: 1, 2: 2, 4: 2}.get(count, 3)
    rows = math.ceil(count / columns)
    figure = drawing.figure(0.4 + 4.0 * columns, 0.8 + 2.6 * rows)
    cast(Any, figure.get_layout_engine()).set(w_pad=0.1, h_pad=0.08)
    axes = drawing.panels(figure, count, rows, columns)
    for ax, (quantity, lines) in zip(axes, curves.items(), strict=False):
        _draw_curves(ax, runs, quantity, lines)
    for ax, (label, groups) in zip(axes[len(curves) :], bars.items(), strict=False):
        _draw_bars(ax, runs, label, groups)
    if reaches:
        _draw_reaches(axes[count - 1], runs, reaches)
    looks = [drawing.look(number) for number in range(len(runs))]
    figure.legend(
        [Patch(facecolor=colour, hatch=hatch, edgecolor="white") for colour, _, hatch in looks],
        [drawing.text(run) for run in runs],
        loc="outside upper center",
        ncols=min(len(runs), columns),
    )
    return figure


def _draw_curves(
    ax: "matplotlib.axes.Axes", runs: Sequence[str], quantity: str, lines: Mapping[str, Curve]
) -> None:
    for number, run in enumerate(runs):
        if run in lines:
            marker = "o" if len(lines[run][0]) < 50 else None
            drawing.line(ax, number, *lines[run], marker=marker, markersize=3)
    drawing.ticks(ax.xaxis)
    drawing.ticks(ax.yaxis)
    ax.set(xlabel="targets", ylabel=drawing.name(quantity))


def _draw_reaches(ax: "matplotlib.axes.Axes", runs: Sequence[str], reaches: Reaches) -> None:
    for number, run in enumerate(runs):
        if run in reaches:
            norms = np.array(reaches[run], float)
            left = np.where(norms > 0, norms / norms[0], np.nan)  # 0 has no place on the axis
            drawing.line(ax, number, np.arange(len(left)), left)
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda value, _: drawing.power(value))
    ax.set(xlabel="tokens back", ylabel="part of the gradient that is left")


def _draw_bars(
    ax: "matplotlib.axes.Axes",
    runs: Sequence[str],
    label: str,
    groups: Mapping[str, Mapping[str, Score]],
) -> None:
    categories = list(dict.fromkeys(name for scores in groups.values() for name in scores))
    width = 0.84 / len(runs)
    for number, run in enumerate(runs):
        found = [groups.get(run, {}).get(name) for name in categories]
        values = np.array([math.nan if score is None else score.value for score in found])
        places = np.arange(len(categories)) + (number - (len(runs) - 1) / 2) * width
        colour, _, hatch = drawing.look(number)
        ax.bar(
            places,
            values,
            0.94 * width,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
            yerr=np.array([_whiskers(score) for score in found]).T,
            error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": INK},
        )
    ax.set_xticks(range(len(categories)), [drawing.text(name, 20) for name in categories])
    ax.tick_params(axis="x", length=0)
    ax.grid(False, axis="x")
    ax.margins(y=0.1)
    title, _, unit = label.partition(", by ")
    ax.set(xlabel=drawing.text(unit), ylabel=drawing.name(title))


def _whiskers(score: Score | None) -> tuple[float, float]:
    """How far the interval goes below and above the score, which need not lie inside it."""
    if score is None or score.low is None or score.high is None:
        return 0.0, 0.0
    return max(0.0, score.value - score.low), max(0.0, score.high - score.value)
