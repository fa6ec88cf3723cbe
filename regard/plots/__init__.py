"""Pictures of a training, of attention, of scores: PNG or SVG by the name's ending.

Every picture has two functions: `x_figure(…)` draws it, `x(…, path)` writes it.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat, cast

import numpy as np
import numpy.typing as npt

from regard.errors import UserError
from regard.metrics import labels
from regard.plots import drawing
from regard.plots.drawing import COLOURS, HATCHES, INK, STROKES

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.axis
    import matplotlib.figure

MOST = 48
"""Panels of a figure."""
PLACES = {"update", "tokens", "epoch", "index", "seconds", "cpu_seconds", "time"}
"""Numbers of a record that say where and when: no curves."""

Curve = tuple[list[int], list[float]]


def curves(records: Sequence[Mapping[str, Any]], path: Path | str) -> None:
    """A run's training curves, from its metrics: see `curves_figure`."""
    drawing.save(lambda: curves_figure(records), path)


@drawing.style()
def curves_figure(records: Sequence[Mapping[str, Any]]) -> "matplotlib.figure.Figure":
    """One panel per quantity, over the updates; training and validation share a panel.

    A record is {"kind": "train" or "validation", "update": n, "tokens": targets seen so far,
    quantity: number, …}. Where a resumed run repeats an update, the later record counts.
    """
    from matplotlib.figure import Figure

    panels = dict(islice(_panels(records).items(), MOST))
    if not panels:
        raise UserError("no curve to draw: no record has an update and a number")
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(0.4 + 3.7 * columns, 0.8 + 2.3 * rows), layout="constrained")
    cast(Any, figure.get_layout_engine()).set(w_pad=0.1, h_pad=0.06)
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    kinds = list(dict.fromkeys(kind for lines in panels.values() for kind in lines))
    handles = {}
    for ax, (quantity, lines) in zip(axes, panels.items(), strict=False):
        for kind, (updates, values) in lines.items():
            marker = "o" if kind != "train" or len(updates) == 1 else None
            colour = COLOURS[kinds.index(kind) % len(COLOURS)]
            [handles[kind]] = ax.plot(
                updates, values, color=colour, marker=marker, markersize=3, linewidth=1.3
            )
        ax.set_ylabel(drawing.name(quantity))
    last = max(n for lines in panels.values() for updates, _ in lines.values() for n in updates)
    for number, ax in enumerate(axes):
        ax.set_xlim(0, 1.02 * max(last, 1))
        drawing.ticks(ax.xaxis, integer=True)
        drawing.ticks(ax.yaxis)
        if number + columns >= len(panels):
            ax.set_xlabel("updates")
        if number >= len(panels):
            ax.remove()
    _token_axes(list(axes[: min(columns, len(panels))]), records)
    names = [drawing.name(kind) for kind in handles]
    figure.legend(handles.values(), names, loc="outside upper center", ncols=len(names))
    return figure


def _panels(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Curve]]:
    """{quantity: {kind: (updates, values)}}: loss, what validation measures, the rest."""
    points: dict[str, dict[str, dict[int, float]]] = {}
    for record in records:
        for quantity, value in record.items():
            if "update" in record and quantity not in PLACES and _is_number(value):
                lines = points.setdefault(quantity, {})
                line = lines.setdefault(str(record.get("kind", "train")), {})
                line[int(record["update"])] = float(value) if math.isfinite(value) else math.nan

    def order(quantity: str) -> int:
        late = ("learning_rate", "tokens_per_second")
        if quantity in late:
            return 3 + late.index(quantity)
        return 0 if quantity == "loss" else 1 if points[quantity].keys() - {"train"} else 2

    return {
        quantity: {
            kind: (sorted(line), [line[update] for update in sorted(line)])
            for kind, line in points[quantity].items()
        }
        for quantity in sorted(points, key=order)
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _token_axes(
    axes: Sequence["matplotlib.axes.Axes"], records: Sequence[Mapping[str, Any]]
) -> None:
    """A second axis on top that counts targets, if the records do."""
    seen = {0: 0}
    for record in records:
        if "update" in record and _is_number(record.get("tokens")):
            seen[int(record["update"])] = record["tokens"]
    updates = np.array(sorted(seen), dtype=float)
    tokens = np.array([seen[update] for update in sorted(seen)], dtype=float)
    if len(updates) < 2 or (np.diff(tokens) <= 0).any():
        return
    # Straight on beyond both ends, as far as margins and zooming may go.
    updates, tokens = (np.array([-9 * x[-1], *x, 10 * x[-1]]) for x in (updates, tokens))

    def forward(update: Any) -> Any:
        return np.interp(update, updates, tokens)

    def backward(token: Any) -> Any:
        return np.interp(token, tokens, updates)

    for ax in axes:
        top = ax.secondary_xaxis("top", functions=(forward, backward))
        top.set_xlabel("targets")
        drawing.ticks(top.xaxis)


def attention(
    weights: npt.ArrayLike,
    source: Sequence[str],
    target: Sequence[str],
    path: Path | str,
    title: str = "",
    panel: str = "head",
) -> None:
    """Where every target position looks: see `attention_figure`."""
    drawing.save(lambda: attention_figure(weights, source, target, title, panel), path)


@drawing.style()
def attention_figure(
    weights: npt.ArrayLike,
    source: Sequence[str],
    target: Sequence[str],
    title: str = "",
    panel: str = "head",
) -> "matplotlib.figure.Figure":
    """Weights (T, S), or (H, T, S) with a panel per head (or layer), on one scale from 0 to 1.

    The source runs along the top, the target down the side; values that are not finite are grey.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    heads = np.ma.masked_invalid(np.asarray(weights, dtype=float))
    heads = heads[None] if heads.ndim == 2 else heads  # (H, T, S)
    shape = (len(target), len(source))
    if heads.ndim != 3 or heads.shape[1:] != shape or not heads.size:
        raise ValueError(f"weights {np.shape(weights)} for (target, source) labels {shape}")
    rows, columns = drawing.grid(*heads.shape)
    cell = min(0.2, 15 / (columns * len(source)), 15 / (rows * len(target)))  # inches
    above, beside = ([drawing.text(token) for token in side] for side in (source, target))
    wide, high = max(cell * len(source), 0.6), max(cell * len(target), 0.3)
    figure = Figure(
        figsize=(
            1.5 + 0.07 * max(map(len, beside)) + columns * (wide + 0.1),
            0.7 + 0.07 * max(map(len, above)) + rows * (high + 0.3),
        ),
        layout="constrained",
    )
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    colours = colormaps["Blues"].with_extremes(bad="#BBBBBB")
    for number, (ax, head) in enumerate(zip(axes, heads, strict=False)):
        image = ax.imshow(
            head, cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        _label_tokens(ax.xaxis, above if number < columns else None, cell, "source", 90)
        _label_tokens(ax.yaxis, beside if number % columns == 0 else None, cell, "target", 0)
        ax.xaxis.tick_top()
        ax.xaxis.set_label_position("top")
        ax.grid(False)
        ax.spines[:].set_visible(True)
        if len(heads) > 1:
            name = f"{panel} {number + 1}"
            ax.text(0.5, -0.05 / high, name, va="top", ha="center", transform=ax.transAxes)
    for ax in axes[len(heads) :]:
        ax.remove()
    panels = list(axes[: len(heads)])
    bar = figure.colorbar(image, ax=panels, label="attention weight", aspect=30, pad=0.02)
    bar.outline.set_visible(False)
    if title:
        figure.suptitle(drawing.text(title, 120))
    return figure


def confusion(pairs: Sequence[tuple[str, str]], names: Sequence[str], path: Path) -> None:
    """Which labels are taken for which, of pairs (said, true). A run that is only to be read can
    still be scored: where nothing can be written, nothing is drawn."""
    with suppress(OSError):
        matrix(labels.confusion(pairs, names), names, path)


def matrix(counts: npt.ArrayLike, names: Sequence[str], path: Path | str, title: str = "") -> None:
    """Which labels are taken for which: see `matrix_figure`."""
    drawing.save(lambda: matrix_figure(counts, names, title), path)


@drawing.style()
def matrix_figure(
    counts: npt.ArrayLike, names: Sequence[str], title: str = ""
) -> "matplotlib.figure.Figure":
    """A confusion matrix (C, C): a row for each true label, a column for each predicted one.

    The colour is the share of the row; the numbers are the counts, where there is room for them.
    """
    from matplotlib.figure import Figure

    table = np.asarray(counts)
    if table.shape != (len(names), len(names)) or not table.size:
        raise ValueError(f"counts {table.shape} for {len(names)} labels")
    totals = table.sum(1, keepdims=True)
    shares = np.divide(table, totals, out=np.zeros(table.shape), where=totals > 0)
    cell = min(0.5, max(0.13, 9 / len(names)), 30 / len(names))  # inches
    labels = [drawing.text(name) for name in names]
    side, margin = cell * len(names), 0.07 * max(map(len, labels))
    figure = Figure(figsize=(2.1 + margin + side, 1.0 + margin + side), layout="constrained")
    ax = figure.subplots()
    image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    _label_tokens(ax.xaxis, labels, cell, "predicted", 90)
    _label_tokens(ax.yaxis, labels, cell, "true", 0)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.grid(False)
    ax.spines[:].set_visible(True)
    if cell >= 0.3:
        for row, column in np.argwhere(table):
            colour = "white" if shares[row, column] > 0.5 else INK
            text = f"{table[row, column]:,}"
            ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
    bar = figure.colorbar(image, ax=ax, label="share of the true label", aspect=30, pad=0.02)
    bar.outline.set_visible(False)
    if title:
        figure.suptitle(drawing.text(title, 120))
    return figure


def _label_tokens(
    axis: "matplotlib.axis.Axis", tokens: Sequence[str] | None, cell: float, name: str, angle: int
) -> None:
    """A label per token; every second, third, … where the cells are too small for all."""
    if tokens is None:
        axis.set_ticks([])
        return
    places = range(0, len(tokens), math.ceil(0.13 / cell))
    axis.set_ticks(places, [tokens[place] for place in places], rotation=angle)
    axis.set_tick_params(length=0)
    axis.set_label_text(name)


def bars(
    groups: Mapping[str, Mapping[str, SupportsFloat]],
    path: Path | str,
    title: str,
    xlabel: str,
    ylabel: str,
    errors: Mapping[str, Mapping[str, SupportsFloat]] | None = None,
) -> None:
    """A number per category for several runs: see `bars_figure`."""
    drawing.save(lambda: bars_figure(groups, title, xlabel, ylabel, errors), path)


@drawing.style()
def bars_figure(
    groups: Mapping[str, Mapping[str, SupportsFloat]],
    title: str,
    xlabel: str,
    ylabel: str,
    errors: Mapping[str, Mapping[str, SupportsFloat]] | None = None,
) -> "matplotlib.figure.Figure":
    """{run: {category: value}}: a colour per run, side by side in every category.

    `errors` has the same form and holds the half of each interval; either may have gaps.
    """
    from matplotlib.figure import Figure

    categories = list(dict.fromkeys(name for values in groups.values() for name in values))
    if not categories:
        raise UserError(f"no bar to draw in {title!r}: there are no values")
    slot = min(max(0.34 * len(groups) + 0.2, 4.5 / len(categories)), 14 / len(categories))
    figure = Figure(figsize=(1 + slot * len(categories), 3.4), layout="constrained")
    ax = figure.subplots()
    width = 0.84 / len(groups)
    handles = []
    for number, (run, values) in enumerate(groups.items()):
        places = np.arange(len(categories)) + (number - (len(groups) - 1) / 2) * width
        halves = _column((errors or {}).get(run, {}), categories)
        drawn = ax.bar(
            places,
            _column(values, categories),
            0.94 * width,
            color=COLOURS[number % len(COLOURS)],
            hatch=HATCHES[number // len(COLOURS) % len(HATCHES)],
            edgecolor="white",
            linewidth=0,
            yerr=None if np.isnan(halves).all() else np.nan_to_num(halves),
            error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": INK},
        )
        handles.append(drawn[0])
        if slot * width > 0.28:  # inches: room for four figures
            ax.bar_label(drawn, fmt=_four_figures, fontsize=7, padding=1)
    labels = [drawing.text(name) for name in categories]
    crowded = 0.075 * max(map(len, labels)) > 0.95 * slot
    slanted: dict[str, Any] = (
        {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    )
    ax.set_xticks(range(len(labels)), labels, **slanted)
    ax.tick_params(axis="x", length=0)
    ax.grid(False, axis="x")
    ax.margins(y=0.1)
    ax.set(xlabel=drawing.text(xlabel, 80), ylabel=drawing.text(ylabel, 80))
    ax.set_title(drawing.text(title, 120), loc="left")
    if len(groups) > 1:
        names = [drawing.text(run) for run in groups]
        figure.legend(handles, names, loc="outside right upper")
    return figure


def lines(
    groups: Mapping[str, Sequence[SupportsFloat]],
    path: Path | str,
    title: str,
    xlabel: str,
    ylabel: str,
    log: bool = False,
) -> None:
    """A number per place 1, 2, … for several runs: see `lines_figure`."""
    drawing.save(lambda: lines_figure(groups, title, xlabel, ylabel, log), path)


@drawing.style()
def lines_figure(
    groups: Mapping[str, Sequence[SupportsFloat]],
    title: str,
    xlabel: str,
    ylabel: str,
    log: bool = False,
) -> "matplotlib.figure.Figure":
    """{run: values}: a line per run over 1, 2, …; `log` for powers of ten, which leave out ≤ 0."""
    from matplotlib.figure import Figure

    if not any(len(values) for values in groups.values()):
        raise UserError(f"no line to draw in {title!r}: there are no values")
    figure = Figure(figsize=(5.5, 3.4), layout="constrained")
    ax = figure.subplots()
    handles = []
    for number, values in enumerate(groups.values()):
        heights = np.array([float(value) for value in values])
        handles += ax.plot(
            np.arange(1, len(heights) + 1),
            np.where(heights > 0, heights, math.nan) if log else heights,
            color=COLOURS[number % len(COLOURS)],
            linestyle=STROKES[number // len(COLOURS) % len(STROKES)],
            linewidth=1.3,
            marker="o" if len(heights) == 1 else None,
        )
    drawing.ticks(ax.xaxis, integer=True)
    drawing.ticks(ax.yaxis)
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda value, _: drawing.power(value))
    ax.set(xlabel=drawing.text(xlabel, 80), ylabel=drawing.text(ylabel, 80))
    ax.set_title(drawing.text(title, 120), loc="left")
    if len(groups) > 1:
        names = [drawing.text(run) for run in groups]
        figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))
    return figure


def _column(values: Mapping[str, SupportsFloat], names: Sequence[str]) -> npt.NDArray[np.float64]:
    return np.array([float(values.get(name, math.nan)) for name in names])


def _four_figures(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
