"""What a model writes for sources: what is asked of a search, and what comes of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.data.batching import by_length
from regard.data.tokenizers import Tokenizer
from regard.decoding.choices import Choices
from regard.decoding.inputs import parsed, read_positions, readable
from regard.decoding.parallel_batches import parallel_batches, threads_for
from regard.decoding.prediction import Prediction, nothing, scored, written
from regard.errors import RecipeError, UserError
from regard.examples import stored
from regard.fields import Row, text
from regard.inspect import reading
from regard.inspect.reading import Reading
from regard.layers.position import limit
from regard.layers.probe import watch
from regard.model import Model
from regard.recipe.parts import Part, module
from regard.recipe.values import Factor, LengthOrZero
from regard.search import Hypothesis, Request
from regard.types import Batch

Finder = Callable[[list[list[int]], Request, Part], list[list[Hypothesis]]]
"""Another engine's search: hypotheses for source tokens (the end not among them)."""
Times = list[tuple[float, float]]
"""Of each token, when it begins and ends, in seconds."""
Placing = Callable[[Model, Sequence[Row], Sequence[Sequence[int]]], list[Times]]
"""(model, sources, tokens of each) ↦ when they were heard; nothing where they have no place."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """How long an output may become: factor × the source's length + extra; or what it may be."""

    factor: Factor = 2.0
    """Tokens of output for each token, or frame, of input."""
    extra: LengthOrZero = 10
    """Tokens on top of that."""
    choices: str = ""
    """A file, beside those of the data, of all that may be written, one text to a line, such as
    the words of a language: search looks for the best of them. By default, any text may be."""


def check_choices(bound: bool, search: Part, length: int | None = None) -> None:
    """Choices say how long an output may be: another word on it would leave some unfinished."""
    said = "the choices say how long an output may be"
    if bound and search.kind != "none" and search.config.min_length:
        raise RecipeError(f"search.min_length: {said}; set it to 0")
    if bound and length is not None:
        raise RecipeError(f"length: {said}; leave it out")


def collate(
    sources: Sequence[Any],
    targets: Sequence[Any] | None = None,
    by: tuple[Any, Any] = (Tokenizer, Tokenizer),
) -> Batch:
    """Source tokens, and target tokens if there are any, with what stands around them; `by` are the
    tokenizers of both."""
    arrays = text.arrays("source", sources, "read", by[0])
    if targets is not None:
        arrays |= text.arrays("target", targets, "written", by[1])
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    count = int(arrays["target_mask"].sum()) if targets is not None else 0
    return Batch(tensors=tensors, ids=tuple(range(len(sources))), targets=count)


@dataclass(frozen=True)
class Translator:
    """What is read, the vocabulary of what is written, and what may be written."""

    source: Any
    """A field of any kind."""
    target: text.Field
    output: Output
    longest: int
    """The most positions that are read of a source."""
    choices: Choices | None = None
    placing: Placing | None = None
    """What says when a sound's tokens were heard; None where sources are no sounds."""

    def predict(
        self,
        model: Model,
        inputs: Sequence[str],
        search: Part,
        *,
        batch: int = 64,
        prefixes: Sequence[str] | None = None,
        align_tokens: bool = False,
        length: int | None = None,
        first: int = 0,
        finder: Finder | None = None,
    ) -> Iterator[Prediction]:
        """Exactly one output per input, in order, whatever the batch size; empty for empty.

        What the source's vocabulary lacks is read as the unknown token, and the status says so.
        No output has more than `length` tokens, nor more than the recipe allows its input.
        """
        if model.training:  # to ask costs less than to tell every layer
            model.eval()
        if length is not None and length < 1:
            raise RecipeError(f"length: {length} must be ≥ 1")
        check_choices(self.choices is not None, search, length)
        full = [n for n, line in enumerate(inputs) if line.strip()]
        rows, problems = readable(self.source, inputs, full, first)
        forced = self.target.tokenizer.encode(prefixes) if prefixes else [[] for _ in inputs]
        for prefix in filter(None, forced):
            check_written_length("prefix: it", prefix, model)
        order = sorted(rows, key=lambda n: (self.source.length(rows[n]), n))
        # An engine makes its own batches.
        size = batch if finder is None else max(1, len(order))
        batches = [order[start : start + size] for start in range(0, len(order), size)]

        def predicted(ids: list[int]) -> list[Prediction]:
            sources, numbers = [self.cut(rows[n]) for n in ids], [first + n for n in ids]
            request = self.request(model, sources, [forced[n] for n in ids], numbers, length)
            if finder is None:
                found = self.search(model, sources, request, search)
            else:
                tokens = [[*map(int, row[self.source.name])] for row in sources]
                found = finder(tokens, request, search)
            links: list[list[int]] = [[]] * len(ids)
            if align_tokens:
                links = self.align(model, sources, found, batch)
            times = self.times(model, sources, [best[0].tokens for best in found])
            return [
                self.prediction(rows[n], best, link, heard)
                for n, best, link, heard in zip(ids, found, links, times, strict=True)
            ]

        done = parallel_batches(predicted, batches, model.device)
        found = dict(zip(order, (each for some in done for each in some), strict=True))
        for n in range(len(inputs)):
            yield found[n] if n in found else nothing(problems.get(n))

    def read(self, inputs: Sequence[str]) -> list[Row]:
        """The rows of what a user gives, whole."""
        found: list[Row] = self.source.encode(parsed(self.source, inputs))
        return found

    def cut(self, row: Row) -> Row:
        """As much of a row as is read."""
        found: Row = self.source.cut(row, self.longest)
        return found

    def batch(self, sources: Sequence[Row], targets: Sequence[Any] | None = None) -> Batch:
        """Rows of sources, and tokens of targets if there are any."""
        ids = range(len(sources))
        if targets is None:
            return stored.collate([self.source], sources, ids)
        name = self.target.name
        rows = [{**row, name: tokens} for row, tokens in zip(sources, targets, strict=True)]
        return stored.collate([self.source, self.target], rows, ids)

    def prediction(
        self, source: Row, best: list[Hypothesis], link: list[int], times: Times
    ) -> Prediction:
        """What was found for a source, as a user gets it."""
        first, by = best[0], self.target.tokenizer
        status = self.source.status(source, self.longest, strict=True)
        return written(
            best,
            [by.decode(each.tokens) for each in best],
            by,
            status="capped" if status == "ok" and not first.finished else status,
            source=self._shown(source),
            alignment=link[: len(first.tokens) + first.finished],
            times=times,
        )

    def _shown(self, source: Row) -> list[str]:
        """The tokens of a text; of a sound, say, nothing that a person would read."""
        return [] if self.source.on_disk else self.source.positions(self.cut(source))

    def request(
        self,
        model: Model,
        sources: Sequence[Row],
        forced: list[list[int]],
        numbers: list[int],
        length: int | None = None,
    ) -> Request:
        """What is asked of search for these sources."""
        if self.choices is not None:
            self._check_begun(self.choices, forced)
            self.choices.to(model.device)
        by = self.target.tokenizer
        return Request(
            start=by.start,
            end=by.end,
            caps=self._caps(sources, forced, length),
            prefixes=tuple(map(tuple, forced)) if any(forced) else None,
            forbidden=by.unwritten,
            choices=self.choices,
            numbers=tuple(numbers),
            device=model.device,
        )

    def _caps(
        self, sources: Sequence[Row], forced: list[list[int]], length: int | None
    ) -> list[int]:
        """The most tokens of each output: no choice is cut short."""
        longest = max(map(len, forced))
        if self.choices is not None:
            return [self.choices.longest + 1] * len(sources)
        if length is not None and length <= longest:
            raise RecipeError(f"length: {length} tokens, but the prefix has {longest} already")
        caps = [
            max(self._longest_output(source), len(prefix) + 1)
            for source, prefix in zip(sources, forced, strict=True)
        ]
        return caps if length is None else [min(cap, length) for cap in caps]

    def _longest_output(self, source: Row) -> int:
        return int(self.output.factor * self.source.length(source)) + self.output.extra

    def _check_begun(self, choices: Choices, forced: list[list[int]]) -> None:
        for prefix in set(map(tuple, forced)) - {()}:
            if not choices.begin(prefix):
                symbols = " ".join(self.target.tokenizer.pieces(prefix))
                raise RecipeError(f"prefix: no choice begins with its tokens, {symbols}")

    def search(
        self, model: Model, sources: Sequence[Row], request: Request, search: Part
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each source, best first."""
        with torch.inference_mode(), threads_for(model, len(sources)):
            state = model.start(self.batch(sources).to(model.device))
            found: list[list[Hypothesis]] = module("search", search.kind).search(
                model.step, state, request, search.config
            )
        return found

    def times(
        self, model: Model, sources: Sequence[Row], targets: Sequence[Sequence[int]]
    ) -> list[Times]:
        """When the tokens of each target were heard."""
        if self.placing is None:
            return [[] for _ in targets]
        return self.placing(model, sources, targets)

    def align(
        self, model: Model, sources: Sequence[Row], found: list[list[Hypothesis]], size: int
    ) -> list[list[int]]:
        """For each token of the best output, which of the source's positions it looked at most."""
        targets = [list(best[0].tokens) for best in found]
        links: list[list[int]] = []
        with torch.inference_mode():
            for start in range(0, len(sources), size):
                end = start + size
                batch = self.batch(sources[start:end], targets[start:end])
                links += align(model, batch.to(model.device))
        return links

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str], size: int
    ) -> Iterator[dict[str, Any]]:
        """log-probability and perplexity of each given target, in order."""
        model.eval()
        sources = self.read(inputs)
        left = [self.cut(row) for row in sources]
        right = self.target.tokenizer.encode(outputs)
        for n, tokens in enumerate(right, 1):
            check_written_length(f"line {n}: the target", tokens, model)

        def log_probs(ids: list[int]) -> list[list[float]]:
            batch = self.batch([left[n] for n in ids], [right[n] for n in ids]).to(model.device)
            with torch.inference_mode():
                hidden, _ = model.decode(batch["target_in"], model.start(batch))
                table = model.head.logits(hidden).float().log_softmax(-1)
                chosen = table.gather(-1, batch["target_out"][..., None]).squeeze(-1).cpu()
            return [chosen[row, : len(right[n]) + 1].tolist() for row, n in enumerate(ids)]

        lengths = [(len(y), self.source.length(x)) for x, y in zip(left, right, strict=True)]
        for n, found in enumerate(by_length(lengths, size, log_probs)):
            status = self.source.status(sources[n], self.longest, strict=True)
            if status == "ok" and self.target.tokenizer.unknown in right[n]:
                status = "unknown"
            pieces = self.target.positions({self.target.name: right[n]})
            yield scored(found, status=status, tokens=pieces)

    def look(self, model: Model, text: str, search: Part, target: str | None) -> Reading:
        """What is written for a text, or a given target, for the viewer."""
        source = self.cut(self.read([text])[0])
        by, beam = self.target.tokenizer, None
        if target is None:
            request = self.request(model, [source], [[]], [0])
            with torch.inference_mode():
                state = model.start(self.batch([source]).to(model.device))
            best, beam = reading.best(model, state, request, search, by)
            tokens, ended = list(best.tokens), best.finished
        else:
            tokens, ended = by.encode([target])[0], True
        said = [*tokens, by.end] if ended else tokens
        batch = self.batch([source], [tokens]).to(model.device)
        names, words = read_positions(model, self.source, source, batch)
        found = reading.written(
            batch,
            text,
            said,
            by,
            start=by.start,
            given=0 if target is None else len(said),
            source=names,
            source_words=words,
            beam=beam,
        )
        [times] = self.times(model, [source], [tokens])
        return replace(
            found,
            picture=self.source.as_png(source),
            sound=self.source.played(source),
            heard=[(p, *when) for p, when in zip(by.pieces(tokens), times, strict=False)],
        )


def check_written_length(what: str, tokens: Sequence[int], model: Model) -> None:
    """Refuse an output that the decoder, which reads START before it, has no positions for."""
    if len(tokens) + 1 > (most := limit(model.decoder)):
        raise UserError(
            f"{what} has {len(tokens)} tokens, but the model has positions for {most - 1}: "
            "shorten it, or train with a larger model.decoder.limit"
        )


def cross_attention(model: Model, batch: Batch) -> dict[str, Tensor]:
    """The weights (B, H, T, S) of each attention from the decoder to the memory, by its name."""
    seen: dict[str, Tensor] = {}

    def watcher(name: str, value: Tensor) -> Tensor:
        if name.startswith("decoder.") and name.endswith("cross.weights"):
            seen[name] = value
        return value

    with watch(watcher):
        model.decode(batch["target_in"], model.start(batch))
    return seen


def align(model: Model, batch: Batch) -> list[list[int]]:
    """For each target token, the end included, the source token with the largest mean weight."""
    weights = list(cross_attention(model, batch).values())
    if not weights:
        return [[] for _ in range(len(batch))]
    mean = torch.stack([w.mean(1) for w in weights]).mean(0)  # (B, T, S)
    best = mean.argmax(-1).tolist()
    lengths = batch["target_mask"].sum(1).tolist()
    return [row[:length] for row, length in zip(best, lengths, strict=True)]
