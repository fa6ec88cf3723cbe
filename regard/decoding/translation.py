"""What a model writes for sources: what is asked of a search, and what comes of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.decoding.alignment import align
from regard.decoding.choices import Choices
from regard.errors import RecipeError
from regard.examples.stored import collate
from regard.fields import Row, text
from regard.model import Model
from regard.recipe.parts import Part, module
from regard.recipe.values import Factor, LengthOrZero
from regard.search import Hypothesis, Request
from regard.types import Batch

Finder = Callable[[list[list[int]], Request, Part], list[list[Hypothesis]]]
"""Another engine's search: hypotheses for source tokens (the end not among them)."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """How long an output may become: factor × the source's tokens + extra; or what it may be."""

    factor: Factor = 2.0
    """Tokens of output for each token of input."""
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


def batch_of(fields: Sequence[text.Field], columns: Sequence[Sequence[Any]]) -> Batch:
    """Sources, and targets if there are any, of given tokens."""
    names = [field.name for field in fields]
    rows: list[Row] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return collate(fields, rows, range(len(rows)), lambda arrays: 0)


@dataclass(frozen=True)
class Translator:
    """Two vocabularies, and what may be written."""

    source: text.Field
    target: text.Field
    output: Output
    choices: Choices | None = None

    def request(
        self,
        model: Model,
        sources: list[list[int]],
        forced: list[list[int]],
        numbers: list[int],
        length: int | None = None,
    ) -> Request:
        """What is asked of search for these source tokens."""
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
        self, sources: list[list[int]], forced: list[list[int]], length: int | None
    ) -> list[int]:
        """The most tokens of each output: no choice is cut short."""
        longest = max(map(len, forced))
        if self.choices is not None:
            return [self.choices.longest + 1] * len(sources)
        if length is not None and length <= longest:
            raise RecipeError(f"length: {length} tokens, but what is forced has {longest}")
        caps = [
            max(int(self.output.factor * len(source)) + self.output.extra, len(prefix) + 1)
            for source, prefix in zip(sources, forced, strict=True)
        ]
        return caps if length is None else [min(cap, length) for cap in caps]

    def _check_begun(self, choices: Choices, forced: list[list[int]]) -> None:
        for prefix in set(map(tuple, forced)) - {()}:
            if not choices.begin(prefix):
                symbols = " ".join(self.target.tokenizer.pieces(prefix))
                raise RecipeError(f"prefix: no choice begins with its tokens, {symbols}")

    def search(
        self, model: Model, sources: list[list[int]], request: Request, search: Part
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each source, best first."""
        with torch.inference_mode():
            state = model.start(batch_of([self.source], [sources]).to(model.device))
            found: list[list[Hypothesis]] = module("search", search.kind).search(
                model.step, state, request, search.config
            )
        return found

    def align(
        self, model: Model, sources: list[list[int]], found: list[list[Hypothesis]], size: int
    ) -> list[list[int]]:
        """For each token of the best output, which of the source's tokens it looked at most."""
        targets = [list(best[0].tokens) for best in found]
        links: list[list[int]] = []
        with torch.inference_mode():
            for start in range(0, len(sources), size):
                sides = [side[start : start + size] for side in (sources, targets)]
                batch = batch_of([self.source, self.target], sides)
                links += align(model, batch.to(model.device))
        return links
