"""The views of a report as pictures for a paper: PNG or SVG, one file for each."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard import plots
from regard.inspect.report import Report

if TYPE_CHECKING:
    import matplotlib.figure

Writer = Callable[[Path], None]
Picture = tuple[str, Writer]
"""Its name, and what writes it."""


def write(folder: Path, suffix: str, report: Report) -> list[Path]:
    """All pictures of a report; each run, checkpoint and text has a folder if there are several."""
    written = []
    for first, run in enumerate(report.runs):
        for second, frame in enumerate(run["frames"]):
            for third, reading in enumerate(frame["readings"]):
                place = folder
                for name, count in (
                    (f"run-{first}", len(report.runs)),
                    (f"checkpoint-{second}", len(run["frames"])),
                    (f"text-{third}", len(report.texts)),
                ):
                    place = place / name if count > 1 else place
                for name, draw in _pictures(report, reading):
                    draw(path := place / f"{name}.{suffix}")
                    written.append(path)
    return written


def _pictures(report: Report, reading: dict[str, Any]) -> Iterator[Picture]:
    array = report.blocks.array
    for view in reading.get("attention", []):
        kind, sides = view["kind"], (reading[view["columns"]], reading[view["rows"]])
        for layer, reference in enumerate(view["layers"]):
            asks = "to say" if view["rows"] == "said" else "looks"
            drawn = _heads(array(reference), *sides, f"{kind} attention, layer {layer}", asks)
            yield f"attention-{kind}-layer-{layer}", drawn
    if found := reading.get("alignment"):
        about = ("Mean of all cross-attention", "input", "output")
        sides = (found["source"], found["said"])
        yield "alignment", _map(array(found["weights"]), *sides, *about, weight=True)
    chances = {f"{n} {row['piece']}": row["p"] for n, row in enumerate(reading["tokens"]["rows"])}
    yield "tokens", _bars(chances, "Probability of each symbol", "symbol", "probability")
    if found := reading.get("attribution"):
        about = ("Contribution to the log-probability", "read", "said")
        sides = ([*reading["source"], *reading["read"]], reading["said"])
        yield "attribution", _map(array(found["values"]), *sides, *about)
    for view in reading.get("states", []):
        if view["values"] is not None:
            title = f"{view['layer']}: {view['quantity']}"
            name = re.sub(r"\W+", "-", title)
            values = array(view["values"]).T
            yield (
                f"states-{name}",
                _map(values, reading[view["side"]], [], title, "position", "unit"),
            )
    for number, view in enumerate(reading.get("positions", [])):
        drawn = _map(array(view["values"]), [], [], view["title"], "dimension", "position")
        yield f"positions-{number}", drawn


def _bars(values: dict[str, float], title: str, xlabel: str, ylabel: str) -> Writer:
    return lambda path: plots.bars({"": values}, path, title, xlabel, ylabel)


def _heads(
    weights: NDArray[Any], columns: Sequence[str], rows: Sequence[str], title: str, asks: str
) -> Writer:
    panels = {f"head {n}": head for n, head in enumerate(weights)}
    return _maps(panels, columns, rows, title, "is looked at", asks, weight=True)


def _map(
    values: NDArray[Any],
    columns: Sequence[str],
    rows: Sequence[str],
    title: str,
    xlabel: str,
    ylabel: str,
    *,
    weight: bool = False,
) -> Writer:
    return _maps({"": values}, columns, rows, title, xlabel, ylabel, weight=weight)


def _maps(
    panels: dict[str, NDArray[Any]],
    columns: Sequence[str],
    rows: Sequence[str],
    title: str,
    xlabel: str,
    ylabel: str,
    *,
    weight: bool,
) -> Writer:
    """Matrices side by side on one scale; an axis without names is numbered."""
    return lambda path: plots._save(
        lambda: _figure(panels, columns, rows, title, xlabel, ylabel, weight), path
    )


@plots._style()
def _figure(
    panels: dict[str, NDArray[Any]],
    columns: Sequence[str],
    rows: Sequence[str],
    title: str,
    xlabel: str,
    ylabel: str,
    weight: bool,
) -> "matplotlib.figure.Figure":
    from matplotlib.figure import Figure

    high, wide = next(iter(panels.values())).shape
    down, across = plots._grid(len(panels), high, wide)
    cell = min(0.2, 14 / (across * wide), 12 / (down * high))  # inches
    size = (across * max(cell * wide, 1.2) + 2.2, down * max(cell * high, 1.0) + 1.8)
    figure = Figure(figsize=size, layout="constrained")
    most = max(float(np.abs(values).max(initial=0.0)) for values in panels.values()) or 1.0
    scale: dict[str, Any] = (
        {"cmap": "Blues", "vmin": 0, "vmax": 1}
        if weight
        else {"cmap": "PuOr_r", "vmin": -most, "vmax": most}
    )
    axes = figure.subplots(down, across, squeeze=False).flatten()
    for ax in axes[len(panels) :]:
        ax.remove()
    for number, (ax, (name, values)) in enumerate(zip(axes, panels.items(), strict=False)):
        image = ax.imshow(values, aspect="auto", interpolation="nearest", **scale)
        ax.grid(False)
        ax.set_title(name)
        _name(ax.xaxis, columns if number >= len(panels) - across else None, cell, xlabel, 90)
        _name(ax.yaxis, rows if number % across == 0 else None, cell, ylabel, 0)
    figure.colorbar(image, ax=list(axes[: len(panels)]), label="weight" if weight else "value")
    figure.suptitle(plots._text(title, 120))
    return figure


def _name(axis: Any, labels: Sequence[str] | None, cell: float, name: str, angle: int) -> None:
    if labels is None:
        axis.set_ticks([])
        return
    if labels:
        places = range(0, len(labels), math.ceil(0.13 / cell))
        axis.set_ticks(places, [plots._text(labels[n], 20) for n in places], rotation=angle)
    axis.set_label_text(name)
