"""What a model puts in the place of hidden tokens, and how likely it finds those that stood there.

nll        the mean of −log p(x_t | the rest) over hidden places
pseudo     log PL(x) = Σ_t log p(x_t | x without x_t)      (Wang & Cho 2019; Salazar et al. 2020)
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data import batching, passages
from regard.decoding.prediction import Prediction
from regard.decoding.shared_work import shared_batches
from regard.errors import RecipeError, UserError
from regard.examples.stored import collate
from regard.fields import Row, framed
from regard.inspect.reading import Reading, filled
from regard.layers.probe import scope
from regard.layers.some_places import places_of
from regard.metrics import VERSION, Score, perplexity
from regard.model import Model
from regard.types import Batch, Neighbours, Selective

POSITIONS = 1024
"""Places whose logits are held at once."""
SHOWN = 5
"""Words for each place, if nobody says how many."""


class Found(NamedTuple):
    """What a model says of the hidden places of a text."""

    log_probs: NDArray[np.float64]
    """log p of what stands there."""
    said: NDArray[np.int64]
    """The likeliest token."""
    true: NDArray[np.int64]

    @property
    def right(self) -> int:
        return int((self.said == self.true).sum())


@runtime_checkable
class Recovers(Protocol):
    """A task that is scored by what it finds again of hidden tokens: the predictions of its
    `evaluate` are those of `Filler.recovered`."""

    def by_text(self, model: Model, part: Any, batch: int = 64) -> list[list[Found]]:
        """What is said of the hidden places of each text of a part, window by window."""
        ...


@dataclass(frozen=True)
class Filler:
    """Texts as a model reads them, and how much of them at once."""

    field: framed.Field
    room: int
    """Tokens of a text that are read at once."""
    tokens: int
    """Positions of a batch."""

    def windows(self, rows: Sequence[Any]) -> list[list[Any]]:
        """The tokens of each text in windows; none of a text without any."""
        return [
            [row[a:b] for a, b in spans] for row, spans in zip(rows, self.spans(rows), strict=True)
        ]

    def spans(self, rows: Sequence[Any]) -> list[list[tuple[int, int]]]:
        """Where the windows of each text begin and end."""
        lengths = np.array([len(row) for row in rows], np.int64)
        first, end = passages.windows(lengths, self.room, crosses=False)
        starts = np.cumsum(lengths + 1) - (lengths + 1)
        which = np.searchsorted(starts, first, "right") - 1
        found: list[list[tuple[int, int]]] = [[] for _ in rows]
        for n, a, b in zip(which.tolist(), first.tolist(), end.tolist(), strict=True):
            found[n].append((a - int(starts[n]), b - int(starts[n])))
        return found

    # Likelihood

    def recover(self, model: Model, rows: Sequence[Row], size: int = 0) -> list[Found]:
        """Of texts of one window each: some places of each are hidden, always the same ones."""

        def each(batch: Batch, ids: list[int]) -> Iterator[Found]:
            name = self.field.name
            hidden, true = batch[f"{name}_masked"], batch[f"{name}_out"]
            symbols = true[hidden]
            chosen, best = judged(model.head.logits, hidden_states(model, batch, hidden), symbols)
            columns = (chosen.double(), best, symbols)
            ends = hidden.sum(1).cumsum(0)[:-1].tolist()
            return map(Found, *(np.split(each.cpu().numpy(), ends) for each in columns))

        return self._batches(model, rows, size, self._drawn, each, lambda told: Found(*told))

    def pseudo(
        self, model: Model, texts: Sequence[Sequence[int]], size: int = 0
    ) -> list[list[float]]:
        """log p of each token of each text, itself hidden and all others read; a long text is read
        in windows."""
        windows = [window for some in self.windows(texts) for window in some]
        rows, places = list[Row](), list[int]()
        for window in windows:
            for place in range(len(window)):
                read = [int(token) for token in window]
                read[place] = self.field.mask
                rows.append({self.field.name: read})
                places.append(place)
        true = [int(token) for window in windows for token in window]

        def likely(batch: Batch, ids: list[int]) -> list[float]:
            where = torch.tensor([places[n] + 1 for n in ids], device=model.device)
            symbols = torch.tensor([true[n] for n in ids], device=model.device)
            hidden = states(model, batch)[torch.arange(len(ids)), where]
            return judged(model.head.logits, hidden, symbols)[0].tolist()

        each = iter(self._batches(model, rows, size, self.batch, likely))
        return [[next(each) for _ in text] for text in texts]

    def recovered(self, windows: Sequence[Found]) -> Prediction:
        """What was said at the hidden places of a text, with what stood there (`source`) and log p
        of that."""
        by = self.field.tokenizer
        said, true = (
            by.pieces([int(token) for each in windows for token in getattr(each, side)])
            for side in ("said", "true")
        )
        chances = [float(chance) for each in windows for chance in each.log_probs]
        text = " ".join(piece.removeprefix("▁") for piece in said)
        details: Any = {"tokens": said, "source": true, "log_probs": chances}
        return Prediction(text=text, score=math.fsum(chances), **details)

    # Filling in

    def fill(
        self, model: Model, rows: Sequence[Row], top: int, size: int = 0
    ) -> list[list[list[tuple[int, float]]]]:
        """The likeliest tokens at each hidden place of each row, with their log-probabilities."""
        name, by = self.field.name, self.field.tokenizer
        never = sorted(by.special)
        top = min(top, len(by) - len(never))

        def best_of(batch: Batch, ids: list[int]) -> Iterator[list[list[tuple[int, float]]]]:
            hidden = states(model, batch)
            for n, line in zip(ids, range(len(ids)), strict=True):
                places = [p + 1 for p, t in enumerate(rows[n][name]) if t == self.field.mask]
                scores = model.head.logits(hidden[line, places]).float()
                scores[:, never] = -torch.inf
                best = scores.log_softmax(-1).topk(top)
                pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
                yield [list(zip(*each, strict=True)) for each in pairs]

        return self._batches(model, rows, size, self.batch, best_of)

    def predictions(
        self, model: Model, inputs: Sequence[str], top: int, size: int
    ) -> Iterator[Prediction]:
        """The likeliest words at each [MASK] of each input, in order."""
        if top < 1:
            raise RecipeError(f"top: {top} must be ≥ 1")
        whole = [self.field.blanks(line) for line in inputs]
        rows = [self.field.cut(row, self.room) for row in whole]
        for line, row, read, found in zip(
            inputs, whole, rows, self.fill(model, rows, top, size), strict=True
        ):
            yield self._prediction(line, row, read, found)

    def _prediction(
        self, line: str, row: Row, read: Row, found: list[list[tuple[int, float]]]
    ) -> Prediction:
        by, name = self.field.tokenizer, self.field.name
        if not line.strip():
            return Prediction(text="", status="empty")
        status = self.field.status(row, self.room)
        if self.field.mask not in row[name]:
            status = "unmasked"
        masks = [[self._word(*each) for each in place] for place in found]
        best = [place[0] for place in found]
        return Prediction(
            text=" | ".join(", ".join(f"{w['word']} {w['p']:.3f}" for w in m) for m in masks),
            status=status,
            score=math.fsum(chance for _, chance in best),
            tokens=by.pieces([token for token, _ in best]),
            log_probs=[chance for _, chance in best],
            source=by.pieces([int(token) for token in read[name]]),
            masks=masks,
            filled=self.field.filled(read, [token for token, _ in best]),
        )

    def _word(self, token: int, chance: float) -> dict[str, Any]:
        [piece] = self.field.tokenizer.pieces([token])
        return {"word": word_of(piece), "token": piece, "p": math.exp(chance)}

    def follows(self, model: Model, batch: Batch) -> Float[Tensor, "B 2"]:
        """log p of: the second passage of each row follows the first, or is of another document."""
        model.eval()
        memory = model.encode(batch)
        assert memory is not None
        head: Any = model.heads["next"]
        found: Tensor = head.logits(head.pool(memory)).float().log_softmax(-1)
        return found

    def look(self, model: Model, text: str, row: Row, target: str | None) -> Reading:
        """A text as it is read, and words for its blanks: the likeliest ones, or those of `target`;
        where there is no blank, its own."""
        tokens = [int(token) for token in row[self.field.name]]
        places = [n + 1 for n, token in enumerate(tokens) if token == self.field.mask]
        given = None if places else tokens
        if target is not None and places:
            given = self._given(target.split(), len(places))
        return filled(
            model,
            self.batch([row], [0]).to(model.device),
            text,
            places or [*range(1, len(tokens) + 1)],
            self.field.tokenizer,
            given,
            source=self.field.positions(row),
            source_words=self.field.groups(row),
            hidden=bool(places),
        )

    def _given(self, words: Sequence[str], blanks: int) -> list[int]:
        """The token of each word for a blank."""
        found = self.field.tokenizer.encode(words)
        for word, tokens in zip(words, found, strict=True):
            if len(tokens) != 1:
                raise UserError(f"inspect: {word!r} is {len(tokens)} tokens; a blank takes one")
        if len(words) != blanks:
            raise UserError(f"inspect: {len(words)} words for {blanks} blanks")
        return [tokens[0] for tokens in found]

    # All of them

    def batch(self, rows: Sequence[Row], ids: Sequence[int]) -> Batch:
        """Rows as they are, with nothing hidden but what they hide."""
        arrays = self.field.framed_arrays(rows)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return Batch(tensors=tensors, ids=tuple(ids), targets=0)

    def _drawn(self, rows: Sequence[Row], ids: Sequence[int]) -> Batch:
        return collate([self.field], rows, ids)

    def _batches(
        self,
        model: Model,
        rows: Sequence[Row],
        size: int,
        make: Callable[[Sequence[Row], Sequence[int]], Batch],
        each: Callable[[Batch, list[int]], Any],
        build: Callable[[Any], Any] = lambda told: told,
    ) -> list[Any]:
        """What `each` gives for the rows of batches of like length, in the order of the rows;
        `build` makes it of what another rank has told (`shared_work.py`)."""
        model.eval()
        lengths = np.array([len(row[self.field.name]) for row in rows], np.int64).reshape(-1, 1)
        budget = batching.Config(tokens=self.tokens, sentences=size)

        def several(ids: list[int]) -> list[Any]:
            return list(each(make([rows[n] for n in ids], ids).to(model.device), ids))

        with torch.inference_mode():
            plan = batching.plan(lengths + passages.EDGES, budget)
            return shared_batches(plan, several, build)


def word_of(piece: str) -> str:
    """A token without the blank before it, on one line: what cannot be printed by its number."""
    word = piece.removeprefix("▁") or piece
    return "".join(c if c.isprintable() else f"<{ord(c):02X}>" for c in word)


def states(model: Model, batch: Batch) -> Float[Tensor, "B S D"]:
    """What says which token stands at each position."""
    memory = model.encode(batch)
    assert memory is not None
    [mask] = (t for name, t in batch.tensors.items() if name.endswith("_mask"))
    said, read = memory.states.shape[1], mask.shape[1]
    if said != read:
        raise RecipeError(f"model.encoder: {said} positions for {read} tokens: no token fits")
    head = model.head
    return head.beside(memory.states) if isinstance(head, Neighbours) else memory.states


def hidden_states(model: Model, batch: Batch, hidden: Bool[Tensor, "B S"]) -> Float[Tensor, "N D"]:
    """States of the places where `hidden` is True, row by row."""
    encoder: Any = model.encoder
    if model.input is None or not isinstance(encoder, Selective):
        return states(model, batch)[hidden]
    places, real = places_of(hidden)
    with scope("encoder"):
        return encoder.at(model.input(batch), places)[real]


def judged(
    logits: Callable[[Tensor], Tensor], hidden: Float[Tensor, "N D"], symbols: Int[Tensor, " N"]
) -> tuple[Float[Tensor, " N"], Int[Tensor, " N"]]:
    """log p of symbols, and the likeliest ones, never with the logits of many places at once."""
    found = []
    for start in range(0, len(symbols), POSITIONS):
        block = slice(start, start + POSITIONS)
        chances = logits(hidden[block]).float().log_softmax(-1)
        found.append((chances.gather(1, symbols[block, None])[:, 0], chances.argmax(1)))
    if not found:
        return hidden.new_zeros(0), symbols
    chosen, best = zip(*found, strict=True)
    return torch.cat(chosen), torch.cat(best)


def figures(found: Sequence[Found]) -> dict[str, float]:
    """nll, perplexity and accuracy over all hidden places."""
    count = sum(len(each.true) for each in found)
    mean = -math.fsum(float(each.log_probs.sum()) for each in found) / max(1, count)
    right = 100 * sum(each.right for each in found) / max(1, count)
    return {"nll": mean, "perplexity": perplexity(mean), "accuracy": right}


def scores(found: Sequence[Found], about: str) -> dict[str, Score]:
    """The same with their signature."""
    count = sum(len(each.true) for each in found)
    signature = f"{about}|places:{count}|version:{VERSION}"
    return {
        name: Score(
            name=name, value=value, signature=signature, higher_is_better=name == "accuracy"
        )
        for name, value in figures(found).items()
    }
