"""Drawings that the pictures of a reading need, in the style of `drawing`."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.plots import drawing
from regard.plots.drawing import COLOURS, INK

if TYPE_CHECKING:
    import matplotlib.figure

Array = NDArray[Any]
FATES = {
    "best": ("on the way to the result", COLOURS[2], "-"),
    "finished": ("finished, but with a lower score", COLOURS[0], "-"),
    "followed": ("followed further", INK, "-"),
    "dropped": ("dropped at once", COLOURS[1], ":"),
}


@drawing.style()
def maps(
    panels: Mapping[str, Array],
    columns: Sequence[str],
    rows: Sequence[str],
    title: str,
    xlabel: str,
    ylabel: str,
    *,
    weight: bool = False,
    value: str = "value",
) -> "matplotlib.figure.Figure":
    """Matrices side by side on one scale; an axis without names is numbered."""
    high, wide = next(iter(panels.values())).shape
    down, across = drawing.grid(len(panels), high, wide)
    most_wide, most_high = (14, 12) if columns or rows else (7, 5.5)
    cell = min(0.2, most_wide / (across * wide), most_high / (down * high))  # inches
    size = (across * max(cell * wide, 1.2) + 2.2, down * max(cell * high, 1.0) + 1.8)
    figure = drawing.figure(*size, title)
    most = max(float(np.abs(values).max(initial=0.0)) for values in panels.values()) or 1.0
    scale: dict[str, Any] = (
        {"cmap": "Blues", "vmin": 0, "vmax": 1}
        if weight
        else {"cmap": "PuOr_r", "vmin": -most, "vmax": most}
    )
    axes = drawing.panels(figure, len(panels), down, across)
    beside, below = ([drawing.text(label, 20) for label in side] for side in (rows, columns))
    for number, (ax, (name, values)) in enumerate(zip(axes, panels.items(), strict=True)):
        image = ax.imshow(values, aspect="auto", interpolation="nearest", **scale)
        ax.grid(False)
        ax.set_title(name)
        last = number >= len(panels) - across
        drawing.label_cells(ax.xaxis, below if last else None, cell, xlabel, 90)
        drawing.label_cells(ax.yaxis, beside if number % across == 0 else None, cell, ylabel, 0)
    label = "weight" if weight and value == "value" else value
    figure.colorbar(image, ax=axes, label=label)
    return figure


@drawing.style()
def curves(
    lines: Mapping[str, Sequence[float]],
    labels: Sequence[str],
    title: str,
    xlabel: str,
    ylabel: str,
    *,
    log: bool = False,
) -> "matplotlib.figure.Figure":
    """A line for each name over positions that have names."""
    from matplotlib.ticker import NullFormatter

    slot = min(max(0.2, 4.5 / len(labels)), 14 / len(labels))  # inches
    figure = drawing.figure(1.2 + slot * len(labels), 3.6, title)
    ax = figure.subplots()
    for number, (name, values) in enumerate(lines.items()):
        heights = np.array(values, float)
        if log:
            heights = np.where(heights > 0, heights, math.nan)
        marker = "o" if len(heights) == 1 else None
        places = np.arange(len(heights))
        drawing.line(ax, number, places, heights, marker=marker, label=drawing.text(name))
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda value, _: drawing.power(value))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        drawing.ticks(ax.yaxis)
    drawing.label_cells(ax.xaxis, [drawing.text(label, 20) for label in labels], slot, xlabel, 90)
    ax.set_ylabel(ylabel)
    if len(lines) > 1:
        figure.legend(loc="outside lower center", ncols=min(len(lines), 3))
    return figure


@drawing.style()
def cells(
    texts: Sequence[Sequence[str]],
    shares: Array,
    columns: Sequence[str],
    rows: Sequence[str],
    title: str,
    xlabel: str,
    ylabel: str,
    value: str,
) -> "matplotlib.figure.Figure":
    """A table of texts, each on the colour of its share from 0 to 1."""
    shown = [[drawing.text(text, 16) for text in row] for row in texts]
    wide = 0.35 + 0.075 * max(len(text) for row in shown for text in row)  # inches
    figure = drawing.figure(wide * len(columns) + 2.6, 0.22 * len(rows) + 1.2, title)
    ax = figure.subplots()
    image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.grid(False)
    for row, line in enumerate(shown):
        for column, text in enumerate(line):
            colour = "white" if shares[row, column] > 0.55 else INK
            ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
    ax.set_xticks(range(len(columns)), [drawing.text(name, 20) for name in columns])
    ax.set_yticks(range(len(rows)), [drawing.text(name, 20) for name in rows])
    ax.set(xlabel=xlabel, ylabel=ylabel)
    figure.colorbar(image, ax=ax, label=value, pad=0.01)
    return figure


@drawing.style()
def chances(
    names: Sequence[str], values: Sequence[float], alternatives: Sequence[str], title: str
) -> "matplotlib.figure.Figure":
    """The probability of each token, down the page, and beside it what else was likely."""
    figure = drawing.figure(8.5, 0.24 * len(names) + 1.1)
    ax = figure.subplots()
    places = range(len(names))
    ax.barh(places, values, color=COLOURS[0], height=0.7)
    for place, value, alternative in zip(places, values, alternatives, strict=True):
        ax.text(1.02, place, f"{value:.1%}", va="center", fontsize=7)
        ax.text(
            1.16, place, drawing.text(alternative, 90), va="center", fontsize=7, color="#555555"
        )
    ax.set_yticks(places, [drawing.text(name, 24) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 2.6)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
    ax.grid(False, axis="y")
    ax.set_xlabel("probability", loc="left")
    ax.text(1.16, -0.8, "nearest alternatives", fontsize=8, va="bottom")
    ax.set_title(drawing.text(title, 120), loc="left", pad=14)
    return figure


@drawing.style()
def links(
    panels: Mapping[str, Array],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    names: tuple[str, str],
) -> "matplotlib.figure.Figure":
    """Lines from what looks, on the left, to what is looked at; the stronger, the more. Several
    matrices stand side by side."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba_array

    count = max(len(rows), len(columns))
    figure = drawing.figure(3.4 * len(panels) + 0.2, 0.2 * count + 1.1, title)
    axes = drawing.panels(figure, len(panels), 1, len(panels))
    for ax, (name, weights) in zip(axes, panels.items(), strict=True):
        found = np.argwhere(weights >= 0.02)
        shares = weights[tuple(found.T)]
        ends = [[(0, row), (1, column)] for row, column in found]
        colours = to_rgba_array([COLOURS[0]] * len(shares), np.sqrt(shares).clip(max=1))
        ax.add_collection(LineCollection(ends, colors=colours, linewidths=2.5 * shares))
        for side, labels, where in ((0, rows, "right"), (1, columns, "left")):
            edge = -0.03 if side == 0 else 1.03
            for place, label in enumerate(labels):
                shown = drawing.text(label, 14)
                ax.text(edge, place, shown, ha=where, va="center", fontsize=7)
            ax.text(edge, -1.2, names[side], ha=where, va="center", fontsize=7, color="#555555")
        ax.set_xlim(-0.75, 1.75)
        ax.set_ylim(count - 0.4, -1.8)
        ax.axis("off")
        ax.set_title(name)
    return figure


@drawing.style()
def scatter(
    points: Sequence[Mapping[str, Any]], title: str, share: float
) -> "matplotlib.figure.Figure":
    """Tokens on two principal components; those of the text are filled."""
    figure = drawing.figure(7, 5)
    ax = figure.subplots()
    for own, name in ((False, "a near neighbour"), (True, "in the text")):
        chosen = [point for point in points if point["own"] == own]
        ax.scatter(
            [point["x"] for point in chosen],
            [point["y"] for point in chosen],
            s=26 if own else 14,
            facecolors=COLOURS[0] if own else "none",
            edgecolors=COLOURS[0] if own else "#777777",
            label=name,
            zorder=3 if own else 2,
        )
    for point, shift in _spots(points):
        ax.annotate(
            drawing.text(point["piece"], 16),
            (point["x"], point["y"]),
            shift,
            textcoords="offset points",
            fontsize=7,
            fontweight="bold" if point["own"] else "normal",
            color=INK if point["own"] else "#777777",
        )
    ax.set(xlabel="first principal component", ylabel="second principal component")
    ax.set_title(drawing.text(f"{title} ({share:.0%} of the variance)", 120), loc="left")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _spots(
    points: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], tuple[float, float]]]:
    """How far, in points, each name stands from its place: beside, above or below it, where it
    lies on no other. Names that find no room are left out, but for the text's own."""
    wide, high = 410.0, 290.0  # about what the axes of the map measure
    xs, ys = (np.array([point[axis] for point in points]) for axis in ("x", "y"))
    xs, ys = ((v - v.min()) / (np.ptp(v) or 1.0) for v in (xs, ys))
    taken = [
        (x * wide - 3, y * high - 3, x * wide + 3, y * high + 3)
        for x, y in zip(xs, ys, strict=True)
    ]
    for n in sorted(range(len(points)), key=lambda n: not points[n]["own"]):
        length = 4.4 * len(drawing.text(points[n]["piece"], 16))
        shifts = [(5.0, -2.5), (-5.0 - length, -2.5), (-length / 2, 5.0), (-length / 2, -10.0)]
        for shift in shifts:
            left, low = xs[n] * wide + shift[0], ys[n] * high + shift[1]
            box = (left, low, left + length, low + 7)
            if not any(
                box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken
            ):
                taken.append(box)
                yield points[n], shift
                break
        else:
            if points[n]["own"]:
                yield points[n], shifts[0]


@drawing.style()
def tree(nodes: Sequence[Mapping[str, Any]], title: str) -> "matplotlib.figure.Figure":
    """A column for each step, the best candidate on top, and lines from each to its parent."""
    from matplotlib.lines import Line2D

    steps = 1 + max(node["step"] for node in nodes)
    places: dict[int, tuple[int, int]] = {}
    for step in range(steps):
        here = [n for n, node in enumerate(nodes) if node["step"] == step]
        for row, n in enumerate(sorted(here, key=lambda n: -nodes[n]["total"])):
            places[n] = (step, row)
    rows = 1 + max(row for _, row in places.values())
    figure = drawing.figure(1.15 * steps + 0.4, 0.26 * rows + 1.2)
    ax = figure.subplots()
    for n, node in enumerate(nodes):
        x, y = places[n]
        _, colour, stroke = FATES["best" if node["best"] else node["fate"]]
        width = 1.8 if node["best"] else 0.7
        if node["parent"] >= 0:
            before = places[node["parent"]]
            line = [before[0] + 0.84, x], [before[1], y]
            ax.plot(*line, color=colour, lw=width, ls=stroke, zorder=1)
        box = {"edgecolor": colour, "facecolor": "white", "linewidth": width, "linestyle": stroke}
        text = f"{drawing.text(node['piece'], 9):<9} {node['score']:5.2f}"
        ax.text(
            x, y, text, va="center", fontsize=6, family="monospace",
            bbox={"boxstyle": "round,pad=0.3", **box},
        )  # fmt: skip
    for step in range(steps):
        ax.text(step, -0.9, f"step {step}", fontsize=7, color="#555555")
    ax.set_xlim(-0.1, steps)
    ax.set_ylim(rows - 0.4, -1.4)
    ax.axis("off")
    ax.set_title(drawing.text(title, 120), loc="left")
    handles = [Line2D([], [], color=c, ls=s, lw=1.5) for _, c, s in FATES.values()]
    names = [name for name, _, _ in FATES.values()]
    figure.legend(handles, names, loc="outside lower left", ncols=4)
    return figure
