"""What a model computes, as graphs: one for labels, tags or numbers, two for what is written.

    labels    tokens (B, S) ↦ probabilities of all labels (B, L), and which are chosen
    tags      tokens (S), words (S) ↦ the best tag of each word (W), or its number; scores (W, L)
    numbers   past (B, S, C) in the unit of the file ↦ mean and deviation of what follows (B, T, C)
    reader    tokens (B, S) ↦ memory (B, S, D), and the decoder's first state, if it hands one on
    writer    tokens (B, T), memory, state ↦ scores of the next token, and the state after it

Token 0 is padding; `words` are the numbers of the words that tokens belong to. A decoder that hands
on its state reads one token at a time; any other reads the whole of what was written so far, and
`places` says after which of its tokens the next is asked for.
Where words are read by their characters, too, these are an input (B, S, C), 0 after the last.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.data.tokenizers import Tokenizer
from regard.decoding.forecasts import Forecaster
from regard.interop.onnx import Graph
from regard.layers.crf import looped
from regard.model import Model
from regard.types import Batch, Sequence

ROWS, LONG, LETTERS = 3, 7, 5
"""Of the example: few rows, for which the plain kernels are taken."""


def batch_of(name: str, tokens: Tensor, characters: Tensor | None = None) -> Batch:
    """Tokens as an input reads them; what is padding, they say themselves."""
    tensors = {name: tokens, f"{name}_mask": tokens != Tokenizer.pad}
    if characters is not None:
        tensors[f"{name}_characters"] = characters
    return Batch(tensors=tensors, ids=(), targets=0)


def example() -> Tensor:
    """Texts of unlike lengths, of tokens that every vocabulary has."""
    tokens = torch.full((ROWS, LONG), Tokenizer.unknown)
    tokens[0, LONG - 2 :] = Tokenizer.pad
    tokens[1, LONG - 1 :] = Tokenizer.pad
    return tokens


class Reading(Graph):
    """A graph that reads tokens."""

    def __init__(self, model: Model, name: str, *, spelt: bool = False) -> None:
        super().__init__()
        self.model, self.name = model, name
        self.inputs = {"tokens": example()}
        self.axes = {"tokens": {0: "rows", 1: "length"}}
        if spelt:
            letters = torch.arange(LETTERS) <= torch.arange(LONG)[:, None] % LETTERS  # (S, C)
            real = (self.inputs["tokens"] != Tokenizer.pad)[..., None]
            self.inputs["characters"] = torch.where(letters & real, Tokenizer.unknown, 0)
            self.axes["characters"] = {0: "rows", 1: "length", 2: "letters"}

    def memory(self, tokens: Tensor, characters: Tensor | None = None) -> Sequence:
        memory = self.model.encode(batch_of(self.name, tokens, characters))
        assert memory is not None
        return memory


class Labels(Reading):
    """Of several labels each is a question of its own. A text without tokens has none."""

    def __init__(self, model: Model, name: str, *, spelt: bool, several: bool) -> None:
        super().__init__(model, name, spelt=spelt)
        self.several = several
        self.outputs = {each: {0: "rows"} for each in ("probabilities", "chosen", "logits")}

    def forward(self, tokens: Tensor, characters: Tensor | None = None) -> tuple[Tensor, ...]:
        head: Any = self.model.head
        logits = head.logits(head.pool(self.memory(tokens, characters)))
        names = torch.arange(logits.shape[1])
        chosen = logits > 0 if self.several else names == logits.argmax(1, keepdim=True)
        there = (tokens > Tokenizer.end).any(1, keepdim=True)
        return logits.sigmoid() if self.several else logits.softmax(-1), chosen & there, logits


class Tags(Reading):
    """The first token of a word stands for it. A sentence that is too long is read in parts, each
    of whole words, side by side."""

    def __init__(self, model: Model, name: str, *, spelt: bool, longest: int, scale: Any) -> None:
        """`scale` has mean and deviation of numbers; None for tags."""
        super().__init__(model, name, spelt=spelt)
        self.longest, self.scale = longest, scale
        tokens, *letters = (each[0] for each in self.inputs.values())  # with padding at the end
        words = torch.arange(LONG) // (1 if spelt else 2)
        self.inputs = {"tokens": tokens, "words": words}
        self.axes = {each: {0: "length"} for each in self.inputs}
        if spelt:
            self.inputs["characters"], self.axes["characters"] = letters[0], {0: "length"}
            self.axes["characters"][1] = "letters"
        self.outputs = {"best": {0: "words"}, "scores": {0: "words"}}

    def forward(
        self, tokens: Tensor, words: Tensor, characters: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        first = _starts(words)  # (W)
        ends = torch.cat([first[1:], torch.arange(words.shape[0])[-1:] + 1])
        part = parts(ends - first, self.longest)  # (W)
        of_token = part[words]  # (S)
        place = _inside(of_token)
        table = _table(of_token, place, tokens)[:, : self.longest]
        if characters is not None:
            characters = _table(of_token, place, characters)[:, : self.longest]
        states = self.memory(table, characters).states[part, place[first]]  # (W, D)
        scores = self.model.head.logits(states).float()
        return self._best(scores, part), scores

    def _best(self, scores: Tensor, part: Tensor) -> Tensor:
        crf: Any = getattr(self.model.head, "crf", None)
        if self.scale is not None:
            numbers: Tensor = self.scale.mean + self.scale.deviation * scores[:, 0].double()
            return numbers
        if crf is None:
            return scores.argmax(1)
        place = _inside(part)
        mask = _table(part, place, torch.ones_like(part)) > 0
        found: Tensor = crf.decode(_table(part, place, scores), mask)
        return found.reshape(mask.shape)[part, place]  # whose rank a loop does not tell


def _starts(numbers: Tensor) -> Tensor:
    """Where each of the numbers 0, 0, 1, 1, 1, 2, … comes first."""
    new = numbers[1:] != numbers[:-1]
    return torch.cat([torch.ones_like(numbers[:1]).bool(), new]).nonzero()[:, 0]


def _inside(numbers: Tensor) -> Tensor:
    """How far it is from there."""
    return torch.arange(numbers.shape[0]) - _starts(numbers)[numbers]


def _table(row: Tensor, column: Tensor, values: Tensor) -> Tensor:
    """Values in the cells of a table, as wide as they are many; 0 elsewhere."""
    shape = (_starts(row).shape[0], *values.shape)
    return values.new_zeros(shape).index_put((row, column), values)


@looped
def parts(sizes: Tensor, longest: int) -> Tensor:
    """The part of a sentence that each word is in: a word that does not fit begins the next."""
    part, full = torch.zeros_like(sizes[:1]), torch.zeros_like(sizes[:1])
    found = sizes[:0]
    for n in range(sizes.shape[0]):
        size = sizes[n : n + 1]
        over = (full > 0) & (full + size > longest)
        part = part + over.long()
        full = torch.where(over, size, full + size)
        found = torch.cat([found, part])
    return found


class Numbers(Graph):
    """The next block of a series."""

    centre: Tensor
    spread: Tensor

    def __init__(self, by: Forecaster, centre: Any, spread: Any) -> None:
        super().__init__()
        self.model, self.by = by.model, by
        self.register_buffer("centre", torch.as_tensor(centre, dtype=torch.float64))
        self.register_buffer("spread", torch.as_tensor(spread, dtype=torch.float64))
        steps = torch.linspace(-1, 1, ROWS * by.window.look_back, dtype=torch.float64)
        self.axes = {"past": {0: "rows"}}
        self.outputs = {"mean": {0: "rows"}, "deviation": {0: "rows"}}
        self.inputs = {"past": steps.view(ROWS, -1, 1) * self.spread + self.centre}

    def forward(self, past: Tensor) -> tuple[Tensor, Tensor]:
        mean, deviation = self.by.block(((past - self.centre) / self.spread).float())
        return mean.double() * self.spread + self.centre, deviation.double() * self.spread


class Reader(Reading):
    """What a decoder begins with."""

    def __init__(self, model: Model, name: str) -> None:
        super().__init__(model, name)
        self.outputs = {"memory": {0: "rows", 1: "length"}}
        self.outputs |= {each: {0: "rows"} for each in first_state(model, name)}

    def forward(self, tokens: Tensor) -> tuple[Tensor, ...]:
        memory, decoder = self.memory(tokens), self.model.decoder
        assert decoder is not None
        return memory.states, *decoder.carry(decoder.start(memory, tokens.shape[0])).values()


class Writer(Graph):
    """A decoder and its head."""

    def __init__(self, model: Model, name: str = "") -> None:
        super().__init__()
        self.model = model
        state = first_state(model, name)
        self.names, self.state = list(state), _carried(model, name)
        tokens = torch.full((ROWS, 1 if state else LONG), Tokenizer.unknown)
        self.inputs = {"tokens": tokens}
        self.axes = {"tokens": {0: "rows"} if state else {0: "rows", 1: "written"}}
        if not state:
            self.inputs["places"] = torch.tensor([LONG - 2, LONG - 1])
            self.axes["places"] = {0: "asked"}
        if name:
            source = example()
            with torch.no_grad():
                memory = model.encode(batch_of(name, source))
            assert memory is not None
            self.inputs |= {"source": source, "memory": memory.states}
            self.axes |= {each: {0: "rows", 1: "length"} for each in ("source", "memory")}
        self.reads = list(self.inputs)
        self.inputs |= state
        self.axes |= {each: {0: "rows"} for each in state}
        self.outputs = {"scores": {0: "rows", 1: "asked"}, **_after(self.names)}

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(self.inputs, tensors, strict=True))
        decoder = self.model.decoder
        assert decoder is not None
        memory = None
        if "memory" in given:
            memory = Sequence(given["memory"], given["source"] != Tokenizer.pad)
        state = decoder.start(memory, ROWS)  # only the names of a state are taken from it
        if self.names:
            carry = dict(zip(self.state, (given[name] for name in self.names), strict=True))
            state = decoder.resume(state, carry)
        hidden, state = self.model.decode(given["tokens"], state)
        if not self.names:
            hidden = hidden.index_select(1, given["places"])
        return self.model.head.logits(hidden), *decoder.carry(state).values()


def _carried(model: Model, name: str) -> dict[str, Tensor]:
    """What a decoder that has read nothing but the memory hands on, by its own names."""
    decoder = model.decoder
    assert decoder is not None
    with torch.no_grad():
        memory = model.encode(batch_of(name, example())) if name else None
        return decoder.carry(decoder.start(memory, ROWS))


def first_state(model: Model, name: str) -> dict[str, Tensor]:
    """The same by names that may stand in a graph."""
    return {key.replace(".", "_"): each for key, each in _carried(model, name).items()}


def _after(names: list[str]) -> Mapping[str, dict[int, str]]:
    return {f"next_{name}": {0: "rows"} for name in names}
