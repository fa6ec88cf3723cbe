"""How the cost of a step grows with length, batch, vocabulary and layers; writes a picture."""

import argparse
import math
import time
from pathlib import Path
from typing import Any

import torch

from regard.layers.allocator import keep_pages
from regard.model import build
from regard.plots import drawing
from regard.recipe import config
from regard.train import device, loop
from regard.train.job import make
from regard.train.progress import Progress
from regard.types import Batch, Position, Sizes

USUAL = {"length": 32, "rows": 32, "vocabulary": 8000, "layers": 2}
VALUES = {
    "length": (8, 16, 32, 64, 128, 256, 512),
    "rows": (4, 8, 16, 32, 64, 128, 256),
    "vocabulary": (1000, 2000, 4000, 8000, 16000, 32000, 64000),
    "layers": (1, 2, 4, 8, 16),
}
DECODERS = ("transformer", "rnn")
DIM = 128
Curves = dict[str, dict[str, dict[int, float]]]
"""Seconds by what changes, by decoder, by value."""


def scaling(options: argparse.Namespace) -> dict[str, Any]:
    """Language models of width 128: one size changes, the others stay as they usually are."""
    keep_pages()
    torch.set_num_threads(options.threads)
    curves: Curves = {}
    for what, values in VALUES.items():
        chosen = values[::2] if options.quick else values
        print(f"\n{what:>12}" + "".join(f"{kind:>16}" for kind in DECODERS) + "   processor ms")
        curves[what] = {kind: {} for kind in DECODERS}
        for value in chosen:
            for kind in DECODERS:
                seconds = step_seconds(kind, **USUAL | {what: value})
                curves[what][kind][value] = seconds
            found = (curves[what][kind][value] for kind in DECODERS)
            print(f"{value:12,}" + "".join(f"{1000 * seconds:16.1f}" for seconds in found))
    exponents = {
        what: {kind: round(exponent(points), 2) for kind, points in kinds.items()}
        for what, kinds in curves.items()
    }
    print("\nbetween its last two values, time grows with the power")
    for what, kinds in exponents.items():
        print(f"{what:>12}" + "".join(f"{kinds[kind]:16.2f}" for kind in DECODERS))
    path = Path(options.to) / "scaling.svg"
    draw(curves, path)
    print(f"\n{path}")
    return {"unit": "processor seconds", "ratio": {}, "figures": curves, "exponents": exponents}


def exponent(points: dict[int, float]) -> float:
    """p in time ∝ sizeᵖ, between the two largest sizes."""
    (x1, y1), (x2, y2) = list(points.items())[-2:]
    return math.log(y2 / y1) / math.log(x2 / x1)


class Same:
    """One batch of random tokens, again and again."""

    def __init__(self, rows: int, length: int, vocabulary: int) -> None:
        symbols = torch.randint(4, vocabulary, (2, rows, length))
        mask = torch.ones(rows, length, dtype=torch.bool)
        self._tensors = {"target_in": symbols[0], "target_out": symbols[1], "target_mask": mask}

    def at(self, position: Position, rows: slice = slice(None)) -> Batch:
        tensors = {name: tensor[rows] for name, tensor in self._tensors.items()}
        mask = tensors["target_mask"]
        return Batch(tensors=tensors, ids=tuple(range(len(mask))), targets=mask.numel())

    def after(self, position: Position) -> Position:
        return Position(0, position.index + 1)


def step_seconds(kind: str, *, length: int, rows: int, vocabulary: int, layers: int) -> float:
    """Processor time of an update, the least of several."""
    torch.manual_seed(1)
    table = {
        "task": "language_model",
        "unit": "line",
        "data": {"train": ["unused"]},
        "model": {"dim": DIM, "decoder": {"kind": kind, "layers": layers}},
        "train": {
            "device": "cpu",
            "threads": torch.get_num_threads(),
            "optimizer": {"learning_rate": 1e-4},
        },
    }
    recipe = config.recipe(table)
    settings = device.settle(recipe.train)
    fields = {"target": {"tokens": vocabulary, "outputs": vocabulary}}
    model = build(recipe.model, Sizes(fields, writes="target"))

    def loss(model: Any, batch: Batch, carry: Any) -> Any:
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        return model.head.loss(hidden, batch["target_out"], batch["target_mask"]), None

    batches = Same(rows, length, vocabulary)
    job = make(model, loss, batches, settings, seed=1, dim=DIM)
    state = loop.begin(job, Progress())
    seen: list[float] = []
    while len(seen) < 3 or (sum(seen) < 0.5 and len(seen) < 20):
        start = time.process_time()
        loop.step(job, state)
        seen.append(time.process_time() - start)
    return min(seen)


def draw(curves: Curves, path: Path) -> None:
    """Four small pictures side by side, both axes logarithmic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.save(figure_of(curves), path)


@drawing.style()
def figure_of(curves: Curves) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.2), layout="constrained")
    places = figure.subplots(1, len(curves), sharey=True)
    for axes, (what, kinds) in zip(places, curves.items(), strict=True):
        for colour, (kind, points) in zip(drawing.COLOURS, kinds.items(), strict=False):
            milliseconds = [1000 * seconds for seconds in points.values()]
            label = "LSTM" if kind == "rnn" else "Transformer"
            axes.loglog(list(points), milliseconds, marker="o", color=colour, label=label)
        sizes = list(points)[::2]
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.set_xlabel(what)
        axes.minorticks_off()
    times = (10, 30, 100, 300, 1000, 3000)
    places[0].set_yticks(times, [f"{milliseconds:,}" for milliseconds in times])
    places[0].set_ylabel("processor ms of an update")
    places[0].legend()
    return figure
