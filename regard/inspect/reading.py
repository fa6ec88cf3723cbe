"""One input as a model reads it, and what the model makes of it: what tasks give the viewer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.data.labels import UNKNOWN
from regard.data.sound import Played
from regard.data.tokenizers import Tokenizer
from regard.inspect.beam import Tree, recorded, tree
from regard.model import Model
from regard.recipe.parts import Part, module
from regard.search import Hypothesis, Request
from regard.types import Batch, DecoderState, Neighbours, Pools

Measure = Callable[[Tensor], Float[Tensor, "B T C"]]
"""What the head says of a batch ↦ for each place its log-probabilities, or its numbers."""


class Matrix(NamedTuple):
    """How much alike things are."""

    rows: list[str]
    columns: list[str]
    values: Float[np.ndarray, "N M"]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A batch of one, with the names of all that is in it."""

    text: str
    output: str
    """What was said: a text, a label, tags, numbers."""
    batch: Batch
    source: list[str]
    """What stands at each position that the encoder reads."""
    read: list[str] = field(default_factory=list)
    """Tokens that the decoder reads: at each place it is to say the one of `said`."""
    said: list[str]
    of: list[str] = field(default_factory=list)
    """What each of `said` is said of: the word that has a tag."""
    symbols: list[int]
    """Numbers of `said` among all that could be said at each place."""
    name: Callable[[Sequence[int]], list[str]]
    """Of such numbers."""
    measure: Measure
    given: int = 0
    """How many of `said` are the user's own and not the model's."""
    source_words: list[tuple[int, int]] = field(default_factory=list)
    """Which tokens of `source` make a word: from, up to."""
    said_words: list[tuple[int, int]] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    """Tokens of `source`, or of `said` where nothing else is read, that the vocabulary lacks."""
    beam: Tree | None = None
    numbers: list[dict[str, Any]] | None = None
    """Where numbers are said, the panels of a picture of them: name, past, mean, low, high, …"""
    what: str = ""
    """What each of `said` is called, where the rest does not say so: token."""
    picture: bytes = b""
    """Where a picture is read, that picture, as PNG; the last of `source` are places of its grid,
    row by row."""
    sound: Played | None = None
    """Where a sound is read, that sound."""
    heard: list[tuple[str, float, float]] = field(default_factory=list)
    """Tokens that were heard, each with the seconds at which it begins and ends."""
    matrix: Matrix | None = None
    """Where a model compares, how much alike this input and others are and what may belong to
    them."""
    model: Model | None = None
    """What has read it, where that is not all of the run's model."""
    blanks: list[int] = field(default_factory=list)
    """Positions of `source` that are to be filled, one for each of `said`; none where each of
    `said` is read, too."""

    def measured(self, model: Model) -> Float[Tensor, "T C"]:
        return self.measure(logits(model, self.batch))[0]


def logits(model: Model, batch: Batch) -> Tensor:
    """All that the head says of a batch: (B, T, V) of tokens, the true beginning being given;
    without a decoder (B, C) of the whole, or (B, S, C) of each position."""
    head: Any = model.head
    if model.decoder is not None:
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
    else:
        memory = model.encode(batch)
        assert memory is not None
        hidden = head.pool(memory) if isinstance(head, Pools) else memory.states
        hidden = head.beside(hidden) if isinstance(head, Neighbours) else hidden
    found: Tensor = head.logits(hidden)
    return found


def likely(scores: Float[Tensor, "B T V"]) -> Float[Tensor, "B T V"]:
    """log softmax: the measure of tokens that are said one after the other."""
    return scores.float().log_softmax(-1)


def written(
    batch: Batch,
    text: str,
    said: list[int],
    by: Tokenizer,
    *,
    start: int,
    prompt: int = 0,
    given: int = 0,
    source: list[str] | None = None,
    source_words: list[tuple[int, int]] | None = None,
    beam: Tree | None = None,
) -> Reading:
    """Tokens one after the other, read from `start` on; the first are those of a prompt. Of these
    so many are `given`, the others the model's."""
    output = [token for token in said[prompt:] if token != by.end]
    tensors = {
        name: t[:, : len(said)] if name.startswith("target") else t
        for name, t in batch.tensors.items()
    }  # without the end that a hypothesis stopped at its cap does not have
    return Reading(
        text=text,
        output=by.decode(output),
        batch=Batch(tensors=tensors, ids=batch.ids, targets=len(said)),
        source=source or [],
        read=by.pieces([start, *said[:-1]]),
        said=by.pieces(said),
        symbols=said,
        name=by.pieces,
        measure=likely,
        given=given,
        source_words=source_words or [],
        said_words=by.groups(said),
        beam=beam,
    )


def labelled(
    model: Model,
    batch: Batch,
    text: str,
    names: Sequence[str],
    given: list[int] | None,
    *,
    several: bool = False,
    separator: str = ",",
    source: list[str],
    source_words: list[tuple[int, int]],
) -> Reading:
    """Labels of the whole input: those `given`, or the best; of several those that are likelier
    than not, or the likeliest, if none is."""
    chosen = given
    if chosen is None:
        with torch.inference_mode():
            scores = logits(model, batch)[0]
        best = (scores > 0).nonzero().flatten().tolist() if several else []
        chosen = best or [int(scores.argmax())]
    count = len(chosen)

    def measure(scores: Float[Tensor, "B C"]) -> Float[Tensor, "B T C"]:
        scores = scores.float()[:, None].expand(-1, count, -1)
        return F.logsigmoid(scores) if several else scores.log_softmax(-1)

    return Reading(
        text=text,
        output=separator.join(names[n] for n in chosen),
        batch=batch,
        source=source,
        said=[names[n] for n in chosen],
        symbols=chosen,
        name=lambda numbers: [names[n] for n in numbers],
        measure=measure,
        given=0 if given is None else count,
        source_words=source_words,
        said_words=[(n, n + 1) for n in range(count)],
    )


def tagged(
    model: Model,
    batch: Batch,
    text: str,
    words: list[str],
    source: Any,
    row: Any,
    tags: Any,
    given: Sequence[str] | None,
) -> Reading:
    """A tag, or a number, for each word: those `given`, where they are known, or the model's."""
    first, mask = batch[f"{source.name}_first"][0], batch[f"{source.name}_word_mask"]
    head: Any = model.head

    def measure(scores: Float[Tensor, "B S C"]) -> Float[Tensor, "B T C"]:
        scores = scores.float()[:, first]
        if tags.real:
            return scores * float(tags.scale.deviation) + float(tags.scale.mean)
        if head.crf is None:
            return scores.log_softmax(-1)
        # With a field: of each tag by itself, whatever the others are.
        real = torch.ones_like(scores[..., 0], dtype=torch.bool)
        chances: Tensor = head.crf.marginals(scores, real)
        return chances.clamp(min=1e-30).log()

    with torch.inference_mode():
        memory = model.encode(batch)
        assert memory is not None
        values = head.best(memory.states[:, first], mask)[0][0].tolist()
    if given is not None:
        numbers = tags.numbers(tags.encode([given]))[0].tolist()
        found = zip(given, values, numbers, strict=True)
        values = [said if tag == UNKNOWN else number for tag, said, number in found]
    said = tags.texts(values)
    return Reading(
        text=text,
        output=tags.show(said),
        batch=batch,
        source=source.positions(row),
        said=said,
        of=words,
        symbols=[0 if tags.real else max(0, int(value)) for value in values],
        name=lambda numbers: ["value"] if tags.real else tags.texts(numbers),
        measure=measure,
        given=0 if given is None else len(said),
        source_words=source.groups(row),
        said_words=[(n, n + 1) for n in range(len(said))],
        numbers=[{"name": "value", "mean": [float(s) for s in said]}] if tags.real else None,
    )


def filled(
    model: Model,
    batch: Batch,
    text: str,
    places: list[int],
    by: Tokenizer,
    given: list[int] | None,
    *,
    source: list[str],
    source_words: list[tuple[int, int]],
    hidden: bool,
) -> Reading:
    """Tokens at some places of a text: those `given`, or the likeliest. Where these are blanks
    (`hidden`), no special token is meant."""
    never = sorted(by.special) if hidden else []

    def measure(scores: Float[Tensor, "B S V"]) -> Float[Tensor, "B T V"]:
        chosen = scores[:, places].float()
        if never:
            chosen = chosen.index_fill(-1, torch.tensor(never, device=chosen.device), -1e9)
        return chosen.log_softmax(-1)

    said = given
    if said is None:
        with torch.inference_mode():
            said = measure(logits(model, batch))[0].argmax(-1).tolist()
    return Reading(
        text=text,
        output=" ".join(piece.removeprefix("▁") for piece in by.pieces(said)),
        batch=batch,
        source=source,
        said=by.pieces(said),
        of=[source[place] for place in places],
        symbols=said,
        name=by.pieces,
        measure=measure,
        given=0 if given is None else len(said),
        source_words=source_words,
        said_words=[(n, n + 1) for n in range(len(said))],
        what="token",
        blanks=places if hidden else [],
    )


def best(
    model: Model, state: DecoderState, request: Request, search: Part, by: Tokenizer
) -> tuple[Hypothesis, Tree | None]:
    """The best hypothesis and, of a beam search, all that were considered."""
    with torch.inference_mode(), recorded() as steps:
        found = module("search", search.kind).search(model.step, state, request, search.config)
    beam = tree(steps, request, search.config, by.pieces) if search.kind == "beam" else None
    return found[0][0], beam
