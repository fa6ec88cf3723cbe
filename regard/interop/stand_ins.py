"""Models whose numbers come from exported graphs: a task uses them as if they were its own.

So what an export says is compared with the original, and scored, by the task's own code.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.decoding.forecasts import Forecaster
from regard.interop.onnx import Session
from regard.model import Model
from regard.types import Batch, Sequence

Arrays = Mapping[str, NDArray[Any]]


class StandIn(Model):
    """The parts that take the place of a model's; it has a parameter, so that it has a device."""

    def __init__(self, input: Any, decoder: Any, head: Any) -> None:
        super().__init__(None, None, None, None)
        self.__dict__ |= {"input": input, "decoder": decoder, "head": head}
        self.nothing = nn.Parameter(torch.zeros(()), requires_grad=False)


def _tokens(batch: Batch, name: str) -> dict[str, NDArray[Any]]:
    """What a graph reads of a batch. (A session takes what it knows of it.)"""
    given = {"tokens": batch[name].numpy()}
    if f"{name}_characters" in batch.tensors:
        given["characters"] = batch[f"{name}_characters"].numpy()
    return given


@dataclass(frozen=True)
class _Labels:
    """An input that gives the logits of labels as the state of a text."""

    session: Session
    name: str

    def __call__(self, batch: Batch) -> Sequence:
        states = torch.from_numpy(self.session(_tokens(batch, self.name))["logits"])
        return Sequence(states[:, None], torch.ones(len(states), 1, dtype=torch.bool))


class Given(nn.Module):
    """A head that is given logits already."""

    predicts = "tokens"

    def pool(self, sequence: Sequence) -> Tensor:
        return sequence.states[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden


def labels(session: Session, name: str) -> Model:
    return StandIn(_Labels(session, name), None, Given())


@dataclass(frozen=True)
class _Tags:
    """An input that gives scores of tags as the states of the first tokens of words, one sentence
    after the other."""

    session: Session
    name: str
    size: int

    def __call__(self, batch: Batch) -> Sequence:
        tokens, mask = batch[self.name], batch[f"{self.name}_mask"]
        states = torch.zeros(*tokens.shape, self.size)
        pairs = zip(batch[f"{self.name}_first"], batch[f"{self.name}_word_mask"], strict=True)
        for n, (first, real) in enumerate(pairs):
            read = _tokens(batch, self.name).items()
            given = {key: each[n][mask[n].numpy()] for key, each in read}
            words = np.zeros(len(given["tokens"]), np.int64)
            words[first[real][1:].numpy()] = 1
            scores = self.session({**given, "words": words.cumsum()})["scores"]
            states[n, first[real]] = torch.from_numpy(scores)
        return Sequence(states, mask)


def tags(session: Session, name: str, model: Model) -> Model:
    """The field of neighbouring tags is that of the original."""
    head: Any = copy.deepcopy(model.head)
    size, head.project = head.project.out_features, nn.Identity()
    return StandIn(_Tags(session, name, size), None, head.eval())


@dataclass(frozen=True)
class Forecasts(Forecaster):
    """Forecasts by a graph; what it gives in the unit of the file is standardised again."""

    session: Any = None
    centre: Any = None
    spread: Any = None

    def block(self, past: Tensor) -> tuple[Tensor, Tensor]:
        found = self.session({"past": past.double().numpy() * self.spread + self.centre})
        mean, deviation = (found["mean"] - self.centre) / self.spread, found["deviation"]
        return tuple(torch.from_numpy(x).float() for x in (mean, deviation / self.spread))  # type: ignore[return-value]


# What is written


def written(writer: Session, reader: Session | None, name: str) -> Model:
    """A decoder and its head; with a reader, what it reads, too."""
    return StandIn(None if reader is None else _Source(name), _Decoder(writer, reader), Given())


@dataclass(frozen=True)
class _Source:
    """An input that hands the tokens themselves to the decoder."""

    name: str

    def __call__(self, batch: Batch) -> Sequence:
        return Sequence(batch[self.name][..., None].float(), batch[f"{self.name}_mask"])


@dataclass(frozen=True)
class _State:
    """What was read of each row, or what became of it; and the memory of each sentence."""

    memory: Arrays
    carry: Arrays
    read: NDArray[Any]
    """The tokens (R, T), where no state is handed on."""
    sentences: int

    def select(self, rows: Tensor) -> "_State":
        return self._rows(rows.numpy())

    def keep(self, sentences: Tensor) -> "_State":
        chosen, beams = sentences.numpy(), len(self.read) // self.sentences
        memory = {name: each[chosen] for name, each in self.memory.items()}
        rows = (chosen[:, None] * beams + np.arange(beams)).flatten()
        return replace(self._rows(rows), memory=memory, sentences=len(chosen))

    def expand(self, beams: int) -> "_State":
        return self._rows(np.repeat(np.arange(len(self.read)), beams))

    def join(self, others: Any) -> "_State":
        raise NotImplementedError("the states of graphs are not joined")

    def detach(self) -> "_State":
        return self

    def _rows(self, rows: NDArray[Any]) -> "_State":
        carry = {name: each[rows] for name, each in self.carry.items()}
        return replace(self, carry=carry, read=self.read[rows])


@dataclass(frozen=True)
class _Decoder:
    """Reads as many tokens at once as its graph does."""

    writer: Session
    reader: Session | None

    def start(self, memory: Sequence | None, rows: int) -> _State:
        carried = [name for name in self.writer.inputs if f"next_{name}" in self.writer.outputs]
        nothing = np.zeros((rows, 0), np.int64)
        if memory is None or self.reader is None:
            shapes = self.writer.shapes
            carry = {name: np.zeros((rows, *shapes[name][1:]), np.float32) for name in carried}
            return _State({}, carry, nothing, rows)
        source = memory.states[..., 0].long().numpy()
        found = self.reader({"tokens": source})
        whole = {"source": source, "memory": found["memory"]}
        return _State(whole, {name: found[name] for name in carried}, nothing, rows)

    def __call__(self, tokens: Tensor, state: _State) -> tuple[Tensor, _State]:
        given, before = tokens.numpy(), state.read.shape[1]
        beams = len(given) // state.sentences
        memory = {name: each.repeat(beams, 0) for name, each in state.memory.items()}
        if "places" in self.writer.inputs:
            read = np.concatenate([state.read, given], 1)
            asked = np.arange(before, read.shape[1])
            found = self.writer({"tokens": read, "places": asked, **memory})
            return torch.from_numpy(found["scores"]), replace(state, read=read)
        carry, scores = dict(state.carry), []
        for place in range(given.shape[1]):
            found = self.writer({"tokens": given[:, place : place + 1], **memory, **carry})
            carry = {name: found[f"next_{name}"] for name in carry}
            scores.append(torch.from_numpy(found["scores"]))
        return torch.cat(scores, 1), replace(state, carry=carry, read=given[:, :0])

    def carry(self, state: _State) -> dict[str, Tensor]:
        return {name: torch.from_numpy(each) for name, each in state.carry.items()}

    def resume(self, state: _State, carry: Mapping[str, Tensor]) -> _State:
        return replace(state, carry={name: each.numpy() for name, each in carry.items()})
