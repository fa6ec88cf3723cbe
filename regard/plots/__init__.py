"""Pictures of a training, of attention, of labels; `drawing.save` writes them."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from regard.errors import UserError
from regard.metrics import labels
from regard.plots import drawing
from regard.plots.drawing import INK

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

MOST = 48
"""Panels of a figure."""
PLACES = {"update", "tokens", "epoch", "index", "seconds", "cpu_seconds", "time"}
"""Numbers of a record that say where and when: no curves."""

Array = npt.NDArray[np.floating]
Curve = tuple[list[int], list[float]]


@drawing.style()
def curves(records: Sequence[Mapping[str, Any]]) -> "matplotlib.figure.Figure":
    """One panel per quantity, over the updates; training and validation share a panel.

    A record is {"kind": "train" or "validation", "update": n, "tokens": targets seen so far,
    quantity: number, …}. Where a resumed run repeats an update, the later record counts.
    """
    panels = dict(islice(_panels(records).items(), MOST))
    if not panels:
        raise UserError("no curve to draw: no record has an update and a number")
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    figure = drawing.figure(0.4 + 3.7 * columns, 0.8 + 2.3 * rows)
    cast(Any, figure.get_layout_engine()).set(w_pad=0.1, h_pad=0.06)
    axes = drawing.panels(figure, len(panels), rows, columns)
    kinds = list(dict.fromkeys(kind for lines in panels.values() for kind in lines))
    handles = {}
    for ax, (quantity, lines) in zip(axes, panels.items(), strict=True):
        for kind, (updates, values) in lines.items():
            marker = "o" if kind != "train" or len(updates) == 1 else None
            number, mark = kinds.index(kind), {"marker": marker, "markersize": 3}
            handles[kind] = drawing.line(ax, number, updates, values, **mark)
        ax.set_ylabel(drawing.name(quantity))
    last = max(n for lines in panels.values() for updates, _ in lines.values() for n in updates)
    for number, ax in enumerate(axes):
        ax.set_xlim(0, 1.02 * max(last, 1))
        drawing.ticks(ax.xaxis, integer=True)
        drawing.ticks(ax.yaxis)
        if number + columns >= len(panels):
            ax.set_xlabel("updates")
    _token_axes(axes[:columns], records)
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


@drawing.style()
def attention(
    weights: Array, source: Sequence[str], target: Sequence[str], title: str
) -> "matplotlib.figure.Figure":
    """Weights (N, T, S): a panel for each of N layers, on one scale from 0 to 1.

    The source runs along the top, the target down the side.
    """
    rows, columns = drawing.grid(*weights.shape)
    cell = min(0.2, 15 / (columns * len(source)), 15 / (rows * len(target)))  # inches
    above, beside = ([drawing.text(token) for token in side] for side in (source, target))
    wide, high = max(cell * len(source), 0.6), max(cell * len(target), 0.3)
    figure = drawing.figure(
        1.5 + 0.07 * max(map(len, beside)) + columns * (wide + 0.1),
        0.7 + 0.07 * max(map(len, above)) + rows * (high + 0.3),
        title,
    )
    panels = drawing.panels(figure, len(weights), rows, columns)
    for number, (ax, layer) in enumerate(zip(panels, weights, strict=True)):
        image = _heat(ax, layer, aspect="auto")
        drawing.label_cells(ax.xaxis, above if number < columns else None, cell, "source", 90)
        drawing.label_cells(ax.yaxis, beside if number % columns == 0 else None, cell, "target", 0)
        if len(weights) > 1:
            name = f"layer {number + 1}"
            ax.text(0.5, -0.05 / high, name, va="top", ha="center", transform=ax.transAxes)
    _scale(figure, image, panels, "attention weight")
    return figure


def confusion(pairs: Sequence[tuple[str, str]], names: Sequence[str], path: Path) -> None:
    """Which labels are taken for which, of pairs (said, true). A run that is only to be read can
    still be scored: where nothing can be written, nothing is drawn."""
    with suppress(OSError):
        drawing.save(matrix(labels.confusion(pairs, names), names), path)


@drawing.style()
def matrix(counts: npt.ArrayLike, names: Sequence[str]) -> "matplotlib.figure.Figure":
    """A confusion matrix (C, C): a row for each true label, a column for each predicted one.

    The colour is the share of the row; the numbers are the counts, where there is room for them.
    """
    table = np.asarray(counts)
    totals = table.sum(1, keepdims=True)
    shares = np.divide(table, totals, out=np.zeros(table.shape), where=totals > 0)
    cell = min(0.5, max(0.13, 9 / len(names)), 30 / len(names))  # inches
    labels = [drawing.text(name) for name in names]
    side, margin = cell * len(names), 0.07 * max(map(len, labels))
    figure = drawing.figure(2.1 + margin + side, 1.0 + margin + side)
    ax = figure.subplots()
    image = _heat(ax, shares)
    drawing.label_cells(ax.xaxis, labels, cell, "predicted", 90)
    drawing.label_cells(ax.yaxis, labels, cell, "true", 0)
    if cell >= 0.3:
        for row, column in np.argwhere(table):
            colour = "white" if shares[row, column] > 0.5 else INK
            text = f"{table[row, column]:,}"
            ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
    _scale(figure, image, [ax], "share of the true label")
    return figure


def _heat(ax: "matplotlib.axes.Axes", shares: Array, **options: Any) -> Any:
    """Numbers from 0 to 1 as colours; the names of the columns stand above them."""
    ax.tick_params(length=0)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.grid(False)
    ax.spines[:].set_visible(True)
    return ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", **options)


def _scale(figure: Any, image: Any, panels: Sequence[Any], label: str) -> None:
    bar = figure.colorbar(image, ax=panels, label=label, aspect=30, pad=0.02)
    bar.outline.set_visible(False)
