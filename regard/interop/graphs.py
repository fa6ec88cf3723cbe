"""What a model computes, as graphs: one for labels, tags or numbers, two for what is written.

    labels    tokens (B, S) ↦ probabilities (B, L)
    tags      tokens (B, S) ↦ scores of every tag at every token (B, S, L); or numbers (B, S, 1)
    numbers   past (B, S, C) in the unit of the file ↦ mean and deviation of what follows (B, T, C)
    reader    tokens (B, S) ↦ memory (B, S, D), and the decoder's first state, if it hands one on
    writer    tokens (B, T), memory, state ↦ scores of the next token, and the state after it

Token 0 is padding. A decoder that hands on its state reads one token at a time; any other reads the
whole of what was written so far, and `places` says after which of its tokens the next is asked for.
Where words are read by their characters, too, these are a second input (B, S, C), 0 after the last.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.data.tokenizers import Tokenizer
from regard.decoding.forecasts import Forecaster
from regard.interop.onnx import Graph
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
    """Of several labels each is a question of its own."""

    def __init__(self, model: Model, name: str, *, spelt: bool, several: bool) -> None:
        super().__init__(model, name, spelt=spelt)
        self.several = several
        self.outputs = {"probabilities": {0: "rows"}, "logits": {0: "rows"}}

    def forward(self, tokens: Tensor, characters: Tensor | None = None) -> tuple[Tensor, Tensor]:
        head: Any = self.model.head
        logits = head.logits(head.pool(self.memory(tokens, characters)))
        return torch.sigmoid(logits) if self.several else logits.softmax(-1), logits


class Tags(Reading):
    """The first token of a word stands for it; a field of neighbouring tags is decoded apart."""

    def __init__(self, model: Model, name: str, *, spelt: bool) -> None:
        super().__init__(model, name, spelt=spelt)
        self.outputs = {"scores": {0: "rows", 1: "length"}}

    def forward(self, tokens: Tensor, characters: Tensor | None = None) -> Tensor:
        return self.model.head.logits(self.memory(tokens, characters).states)


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
