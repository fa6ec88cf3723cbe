"""What each attention head does, over many sentences, and what it costs to be without it.

    survey(Run(folder)).heads        a Head for every head of every attention

Of self-attention: how much of the weight, on average, falls on the position itself, its neighbours
and both ends. Of the output's look at the input: how often the place with the largest weight is the
translation, by a dictionary that knows nothing of the model. Of both: by how much the true outputs
become less likely when the head is switched off.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.dictionary import Dictionary
from regard.errors import UserError
from regard.inspect.capture import capture
from regard.inspect.intervene import WithoutHead, attentions, intervene, probed
from regard.inspect.reading import Reading
from regard.inspect.views import read
from regard.model import Model
from regard.recipe.parts import Part
from regard.recipe.values import Count, check
from regard.runs import Run
from regard.tasks import Continues, Task

SURE = 0.5
"""A token counts as the translation of another if the dictionary finds it likelier than this."""
NEAR = {"previous": -1, "itself": 0, "next": 1}


@dataclass(frozen=True)
class Head:
    """Means over all positions of all sentences."""

    kind: str
    """encoder, decoder or cross."""
    layer: int
    head: int
    weights: dict[str, float] = field(default_factory=dict)
    """Share of the weight on: the previous position, itself, the next, the first, the last."""
    spread: float = 0.0
    """exp of the entropy: over how many places the weight is spread."""
    says: float | None = None
    """How often it looks most at the word whose translation is to be said."""
    reads: float | None = None
    """How often it looks most at the word whose translation has just been read."""
    cost: float = 0.0
    """By how much the mean −log p of the true outputs rises without it."""

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.{self.head}"


@dataclass(frozen=True)
class Survey:
    """All heads of a model, in its order."""

    heads: list[Head]
    sentences: int
    symbols: int
    """Outputs whose probability was compared."""
    nll: float
    """−log p of an output, on average, with all heads."""
    links: int = 0
    """Output tokens whose translation the dictionary is sure of."""
    diagonal: float | None = None
    """How often the word at the same share of the sentence is the translation: no skill at all."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> tuple[list[str], list[list[str]], list[str]]:
        """Names of columns, a row for each head, and notes: shares in %, the cost in nats."""
        shares = [*NEAR, "first", "last", "says", "reads"]
        rows = []
        for head in self.heads:
            found = head.weights | {"says": head.says, "reads": head.reads}
            values = [found.get(name) for name in shares]
            cells = ["" if v is None else f"{100 * v:.1f}" for v in values]
            rows.append([str(head), *cells, f"{head.spread:.1f}", f"{head.cost:+.4f}"])
        notes = [
            f"{self.sentences:,} sentences, {self.symbols:,} output tokens, mean −log p "
            f"{self.nll:.4f}; the cost is its rise without the head.",
            "previous … last: share of the weight (%) that falls there; spread: over how many "
            "places it is spread.",
        ]
        if self.diagonal is not None:
            notes.append(
                "says, reads: how often (%) the input word with the largest weight is the "
                f"translation of what is to be said, of what was just read, among {self.links:,} "
                f"known translations; the word at the same share of the sentence: "
                f"{100 * self.diagonal:.1f}."
            )
        return ["head", *shares, "spread", "cost"], rows, notes

    def best(self, measure: Callable[[Head], float | None]) -> Head:
        """The head with the largest measure, of those that have one."""
        found = {n: v for n, head in enumerate(self.heads) if (v := measure(head)) is not None}
        if not found:
            raise UserError("no head has this measure")
        return self.heads[max(found, key=lambda n: found[n])]


def survey(
    run: Run,
    *,
    part: str = "validation",
    sentences: int = 200,
    checkpoint: str = "final",
    device: str = "cpu",
    model: Model | None = None,
) -> Survey:
    """Look at the first sentences of a part of the run's data. The model is the checkpoint's, if
    none is given."""
    check("sentences", sentences, Count)
    task, model = run.task, model or run.model(checkpoint, device)
    if not attentions(model):
        raise UserError(f"{run.folder}: this model has no attention heads")
    sides = examples(task, part, sentences)
    dictionary = _dictionary(task) if ("cross", 0) in attentions(model) else None
    counts = _Counts(dictionary, task.fields["target"].tokenizer.end if dictionary else -1)
    for row in zip(*sides, strict=True):
        text, target = (row[0], row[-1]) if len(row) > 1 else ("", row[0])
        counts.add(model, read(run, task, model, text, Part("none", None), target=target))
    nll, symbols = likelihood(task, model, sides)
    heads = []
    for head in counts.heads():
        with intervene(model, WithoutHead(head.kind, head.layer, head.head)):
            cost = likelihood(task, model, sides)[0] - nll
        heads.append(replace(head, cost=cost))
    return Survey(heads, len(sides[0]), symbols, nll, counts.links, counts.diagonal())


def examples(task: Any, part: str, count: int) -> tuple[list[str], ...]:
    """The first examples of a part, a list for each side; of a running text, its first lines."""
    sides = task.references(part)
    if isinstance(task, Continues) and len(sides) == 1:
        lines = [line for text in sides[0] for line in text.split("\n")]
        sides = ([line for line in lines if line.strip()],)
    chosen = [row for row in zip(*sides, strict=True) if all(side.strip() for side in row)][:count]
    if not chosen:
        raise UserError(f"the {part} part is empty")
    return tuple(list(side) for side in zip(*chosen, strict=True))


def likelihood(task: Task, model: Model, sides: Sequence[Sequence[str]]) -> tuple[float, int]:
    """The mean of −log p over the outputs that are given, and their number."""
    found = list(task.score(model, *sides))
    count = sum(len(row["log_probs"]) for row in found)
    if not count:
        raise UserError("there is nothing to score: not one output is known")
    return -math.fsum(row["log_prob"] or 0.0 for row in found) / count, count


def _dictionary(task: Any) -> Dictionary:
    sources, targets = task.references("train")
    left, right = (task.fields[side].tokenizer for side in ("source", "target"))
    return Dictionary.learn(left.encode(sources), right.encode(targets))


class _Counts:
    """Sums over sentences, for each attention (kind, layer) with H heads."""

    def __init__(self, dictionary: Dictionary | None, end: int) -> None:
        self._dictionary, self._end = dictionary, end
        self._sums: dict[tuple[str, int], dict[str, tuple[NDArray[Any], int]]] = {}
        self.links, self._diagonal = 0, 0

    def add(self, model: Model, reading: Reading) -> None:
        with torch.no_grad(), capture(model) as seen:
            reading.measured(model)
        links = self._links(reading)
        self.links += len(links)
        words = len(reading.source_words)
        self._diagonal += sum(
            word == min(words - 1, round(place * words / len(reading.said)))
            for place, word in links
        )
        for kind, layer in attentions(model):
            weights = seen[f"{probed(kind, layer)}.weights"][0].cpu().double().numpy()
            sums = self._sums.setdefault((kind, layer), {})
            for what, (total, count) in _measures(weights, kind, reading, links).items():
                before = sums.get(what, (np.zeros(len(weights)), 0))
                sums[what] = (before[0] + total, before[1] + count)

    def _links(self, reading: Reading) -> list[tuple[int, int]]:
        """(place of an output token, its input word), where the dictionary is sure."""
        if self._dictionary is None:
            return []
        source = reading.batch["source"][0].tolist()
        word = [n for n, (a, b) in enumerate(reading.source_words) for _ in range(a, b)]
        places = [n for n, symbol in enumerate(reading.symbols) if symbol != self._end]
        found, share = self._dictionary.links(source[:-1], [reading.symbols[n] for n in places])
        linked = zip(places, found.tolist(), share.tolist(), strict=True)
        return [(place, word[to]) for place, to, sure in linked if to >= 0 and sure > SURE]

    def heads(self) -> list[Head]:
        found = []
        for (kind, layer), sums in self._sums.items():
            means = {what: total / max(1, count) for what, (total, count) in sums.items()}
            for head in range(len(means["spread"])):
                values = {what: float(mean[head]) for what, mean in means.items()}
                others = {k: values.pop(k) for k in ("spread", "says", "reads") if k in values}
                found.append(Head(kind, layer, head, values, **others))
        return found

    def diagonal(self) -> float | None:
        return self._diagonal / self.links if self.links else None


def _measures(
    weights: NDArray[Any], kind: str, reading: Reading, links: list[tuple[int, int]]
) -> dict[str, tuple[NDArray[Any], int]]:
    """Sums (H) over the positions of weights (H, T, S), and how many they are."""
    rows = weights.shape[1]
    entropy = -(weights * np.log(weights.clip(min=1e-12))).sum(-1)
    found = {
        "spread": (np.exp(entropy).sum(1), rows),
        "first": (weights[..., 0].sum(1), rows),
        "last": (weights[..., -1].sum(1), rows),
    }
    if kind != "cross":
        near = {what: np.diagonal(weights, step, 1, 2) for what, step in NEAR.items()}
        return found | {what: (w.sum(1), w.shape[1]) for what, w in near.items()}
    by_word = np.stack([weights[..., a:b].sum(-1) for a, b in reading.source_words], -1)
    best = by_word.argmax(-1)  # (H, T)
    # At row t the token t − 1 has just been read and token t is to be said.
    for what, shift in (("says", 0), ("reads", 1)):
        there = [(place + shift, word) for place, word in links if place + shift < rows]
        right = sum((best[:, row] == word for row, word in there), np.zeros(len(weights)))
        found[what] = (right, len(there))
    return found
