"""How near a converted model is to its original: measured on a few sentences, once per processor.

Both are given the outputs that the original finds, and asked how probable each token of them is.
(Two outputs that differ have probabilities that cannot be compared.) Beside that counts how often
both find the same.
"""

import hashlib
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from regard.data.tokenizers import Tokenizer
from regard.decoding.translation import collate
from regard.errors import UserError
from regard.interop.conversion import FORBIDDEN, computable, library
from regard.model import Model
from regard.recipe import checked
from regard.recipe.parts import Part
from regard.tasks.translate import Task
from regard.train.device import processor

if TYPE_CHECKING:
    from regard.interop.ctranslate2 import Engine

SAMPLES = 16
"""Sentences on which a converted model is compared with the original."""
LIMIT = 0.05
"""How much log-probability of the original's outputs may be lost, per token: their perplexity is
then 5 % higher. Numbers of 8 bits cost trained models less than a tenth of it."""
INT8 = {"int8", "int8_float32"}
"""On a processor these are the same."""
NAME = "nearness.json"
"""In an engine's folder: what was measured, by the processor's features."""
SETTINGS = (
    "CT2_FORCE_CPU_ISA", "CT2_USE_MKL", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR",
)  # fmt: skip
"""Variables of the environment that make a processor compute as another one would."""


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """What a converted model makes of a few sentences, beside what the original does."""

    sentences: int
    basis: Literal["validation", "random"]
    """Where they come from: random tokens stand in where the validation part is not there."""
    equal: float
    """The fraction of sentences whose output is the same."""
    difference: float
    """max |log p − log p′| over the tokens of the original's outputs."""
    loss: float
    """The mean of log p − log p′ over these: what is lost per token, in nats."""
    score: float
    """The largest difference between the scores of both's own outputs: none, if both compute with
    the same numbers."""
    computed: str
    """The numbers that it was computed with on this processor."""
    processor: str

    @property
    def far(self) -> bool:
        """Whether it is too far from the original to be used in its place."""
        return not self.loss <= LIMIT  # neither is what is no number

    def __str__(self) -> str:
        kind = "sentences of the validation part" if self.basis == "validation" else "random inputs"
        same = f"{round(self.equal * self.sentences)} of {self.sentences} {kind}"
        return (
            f"the same output as the original for {same}; log-probabilities of the original's "
            f"outputs differ by at most {self.difference:.2g} per token, on average by "
            f"{0.0 - self.loss:+.1g}{self._advice()}"
        )

    def instead(self, quantization: str) -> str:
        """Which numbers took the place of those that it was written in; empty if none did."""
        same = quantization == self.computed or {quantization, self.computed} == INT8
        return "" if same else f"this processor computes {self.computed} instead of {quantization}"

    def _advice(self) -> str:
        there = {"float32", *computable()} - {self.computed}
        better = " or ".join(name for name in ("float32", "int16") if name in there)
        return f": too far on this processor, use {better} instead" if self.far else ""


def measure(task: Task, model: Model, engine: "Engine", search: Part) -> Nearness:
    """Compare an engine with the original and our own search."""
    write = replace(task.translator, choices=None)  # CTranslate2 writes any text
    sources, basis = samples(task)
    rows = [task.source.row(tokens) for tokens in sources]
    request = write.request(model, rows, [[] for _ in rows], list(range(len(rows))))
    found = write.search(model, rows, request, search)
    ours = [best[0] for best in found]
    theirs = [best[0] for best in engine.find(sources, request, search, log_probs=False)]
    outputs = [h.tokens for h in ours]
    lost = [
        before - after
        for h, original, other in zip(
            ours, forced(model, sources, outputs), engine.score(sources, outputs), strict=True
        )
        for before, after in list(zip(original, other, strict=True))[: len(h.tokens) + h.finished]
    ]
    pairs = list(zip(ours, theirs, strict=True))
    return Nearness(
        sentences=len(pairs),
        basis=basis,
        equal=sum(a.tokens == b.tokens for a, b in pairs) / len(pairs),
        difference=float(np.abs(lost).max()),
        loss=float(np.mean(lost)),
        score=max(abs(a.score - b.score) for a, b in pairs),
        computed=engine.computed,
        processor=processor(),
    )


def forced(
    model: Model, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """log p of each target's tokens and of its end; what is forbidden takes no probability."""
    training = model.training
    model.eval()
    with torch.inference_mode():
        batch = collate(sources, targets).to(model.device)
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        logits = model.head.logits(hidden).float()
        logits[..., list(FORBIDDEN)] = -torch.inf
        chosen = logits.log_softmax(-1).gather(-1, batch["target_out"][..., None])[..., 0].cpu()
    model.train(training)
    return [row[: len(target) + 1].tolist() for row, target in zip(chosen, targets, strict=True)]


def samples(task: Task) -> tuple[list[list[int]], Literal["validation", "random"]]:
    """Sentences of the validation part, or tokens at random where the data is not there."""
    longest = task.config.data.max_length
    try:
        lines = [line for line in task.references("validation")[0] if line.strip()]
    except UserError:
        lines = []
    if found := [row[:longest] for row in task.source.tokenizer.encode(lines[:SAMPLES]) if row]:
        return found, "validation"
    chance, symbols = np.random.default_rng(1), len(task.source.tokenizer)
    lengths = (min(n + 1, longest) for n in range(SAMPLES))
    return [chance.integers(Tokenizer.unknown + 1, symbols, n).tolist() for n in lengths], "random"


# Kept beside an engine


def features() -> str:
    """Changes with whatever decides how this processor computes."""
    known: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    basis = [
        platform.machine(),
        torch.backends.cpu.get_cpu_capability(),
        sorted(map(str, known.items())),
        library().__version__,
        computable(),
        [os.environ.get(name, "") for name in SETTINGS],
    ]
    return hashlib.sha256(json.dumps(basis).encode()).hexdigest()[:16]


def kept(folder: Path) -> Nearness | None:
    """What was measured in this folder on a processor like this one."""
    try:
        return _checked(_measured(folder)[features()])
    except (KeyError, ValueError):  # not measured, or not what was written
        return None


def _checked(value: Any) -> Nearness:
    """What a file says, as if somebody had forged it; ValueError if nobody could measure it."""
    table = checked.keys(value, NAME, {field.name for field in fields(Nearness)})
    if table["basis"] not in ("validation", "random"):
        raise ValueError("the basis is none")
    if table["computed"] not in ("float32", *computable()):
        raise ValueError("this processor does not compute with these numbers")
    checked.whole(table["sentences"], "sentences", 1, SAMPLES)
    checked.text(table["processor"], "processor")
    for name, low in (("equal", 0.0), ("difference", 0.0), ("loss", -math.inf), ("score", 0.0)):
        checked.number(table[name], name, low)
    if table["equal"] > 1:
        raise ValueError("more than all sentences")
    return Nearness(**table)


def keep(found: Nearness, folder: Path) -> None:
    """Write it beside the engine; where that cannot be, it is measured again the next time."""
    table = _measured(folder) | {features(): asdict(found)}
    writing = folder / f".{NAME}-{os.getpid()}"
    with suppress(OSError):
        try:
            writing.write_text(json.dumps(table, indent=1), encoding="utf-8", newline="\n")
            writing.replace(folder / NAME)
        finally:
            writing.unlink(missing_ok=True)


def _measured(folder: Path) -> dict[str, Any]:
    try:
        return checked.read(folder / NAME)
    except (OSError, ValueError):
        return {}
