"""What joins a running search: how a request becomes sentences of it, and what comes of them.

A language model goes on with a prompt, and where its window is full with what it holds of it: the
sentence then comes back as a new one. A translator reads a source. Either way a sentence gives what
it gives alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from regard.decoding.continuation import NOTHING, Continuer
from regard.decoding.inputs import readable
from regard.decoding.prediction import Prediction, nothing
from regard.decoding.stopping import Stops
from regard.decoding.translation import Times, Translator, check_choices, check_written_length
from regard.model import Model
from regard.recipe.parts import Part
from regard.search import Arrival, Hypothesis, Request
from regard.serve.work import Work


class Answers:
    """What is found for the inputs of a request, until all of it is there."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._found: dict[int, Prediction] = {}

    def add(self, place: int, found: Prediction) -> list[Prediction] | None:
        """All of them, if this was the last."""
        self._found[place] = found
        count = len(self.work.inputs)
        return [self._found[n] for n in range(count)] if len(self._found) == count else None


@dataclass
class Sentence:
    """One input on its way through a search."""

    answers: Answers
    place: int
    """Of the input in its request."""
    search: Part
    source: Any
    """Tokens of a prompt, or the row of a source."""
    length: int | None = None
    stops: Stops | None = None
    forced: list[int] = field(default_factory=list)
    done: Hypothesis = NOTHING
    """What was written in windows before this one …"""
    windows: int = 0
    """… and how many these are."""
    shown: str = ""
    """What a client that reads along has got."""

    @property
    def work(self) -> Work:
        return self.answers.work

    @property
    def lane(self) -> tuple[Any, ...]:
        """Sentences with the same can be searched side by side: draws differ, beams may not."""
        config = self.search.config
        if self.search.kind == "beam":
            return ("beam", config)
        return ("walk", config.min_length, config.samples if self.search.kind == "sample" else 1)


class Continuations:
    """Of a language model."""

    def __init__(self, continuer: Continuer) -> None:
        self._by = continuer

    def sentences(self, work: Work, search: Part) -> "Made":
        """Those of a request."""
        answers, stops = Answers(work), self._by.stops(work.options.stop)
        length = work.options.length
        prompts = [self._by.tokens(text) for text in work.inputs]
        made = [Sentence(answers, n, search, p, length, stops) for n, p in enumerate(prompts)]
        return made, {}

    def arrival(self, some: Sequence[Sentence]) -> Arrival:
        """What a search must know of them."""
        rows = [self._by.held(self._by.begun(each.source), each.done) for each in some]
        return self._by.arrival(
            rows,
            [each.done for each in some],
            tuple(each.place + (each.windows << 32) for each in some),
            [each.length or 1 for each in some],
            [each.stops for each in some],
            [each.source for each in some],
        )

    def ended(self, each: Sentence, best: list[Hypothesis]) -> Prediction | None:
        """What came of a sentence; None, if it goes on in another window."""
        [new] = best
        each.done = new._replace(
            tokens=each.done.tokens + new.tokens, log_probs=each.done.log_probs + new.log_probs
        )
        each.windows += 1
        if not each.done.finished and len(each.done.tokens) < (each.length or 1):
            return None
        return self._by.prediction(each.source, [each.done], each.stops or self._by.stops(()))

    def piece(self, each: Sentence, so_far: Hypothesis) -> str:
        """What has surely been written since the last piece."""
        assert each.stops is not None
        tokens = each.done.tokens + so_far.tokens
        now = each.stops.settled(self._by.text(each.source, tokens))
        found = now[len(each.shown) :]
        each.shown += found
        return found

    def rest(self, each: Sentence, whole: Prediction) -> str:
        """The last piece."""
        return whole.text[len(each.shown) :]


class Translations:
    """Of a model that reads something and writes a text."""

    def __init__(self, translator: Translator, model: Callable[[], Model]) -> None:
        """`model` gives it: it may have to be opened."""
        self._by, self._model = translator, model

    def sentences(self, work: Work, search: Part) -> "Made":
        """Those of a request; what is empty or cannot be read has its prediction already."""
        by, answers = self._by, Answers(work)
        check_choices(by.choices is not None, search, work.options.length)
        full = [n for n, text in enumerate(work.inputs) if text.strip()]
        rows, problems = readable(by.source, work.inputs, full)
        prefixes = work.prefixes or [""] * len(work.inputs)
        forced = by.target.tokenizer.encode(prefixes) if work.forced else [[]] * len(prefixes)
        for prefix in filter(None, forced):
            check_written_length("prefix: it", prefix, self._model())
        length = work.options.length
        made = [Sentence(answers, n, search, rows[n], length, forced=forced[n]) for n in rows]
        for each in made:
            self._request(each)  # which may refuse it
        return made, {n: nothing(problems.get(n)) for n in range(len(forced)) if n not in rows}

    def _request(self, each: Sentence) -> Request:
        sources = [self._by.cut(each.source)]
        return self._by.request(self._model(), sources, [each.forced], [each.place], each.length)

    def arrival(self, some: Sequence[Sentence]) -> Arrival:
        """What a search must know of them."""
        requests = [self._request(each) for each in some]
        request = replace(
            requests[0],
            caps=[int(cap) for each in requests for cap in each.caps],
            prefixes=tuple(tuple(each.forced) for each in some),
            numbers=tuple(each.place for each in some),
        )
        batch = self._by.batch([self._by.cut(each.source) for each in some])
        model = self._model()
        with torch.inference_mode():
            return model.start(batch.to(model.device)), request

    def ended(self, each: Sentence, best: list[Hypothesis]) -> Prediction:
        """What came of a sentence."""
        link, sources = list[int](), [self._by.cut(each.source)]
        if each.work.options.align:
            [link] = self._by.align(self._model(), sources, [best], 1)
        times: Times = []
        if self._by.placing is not None:
            [times] = self._by.times(self._model(), sources, [best[0].tokens])
        return self._by.prediction(each.source, best, link, times)

    def piece(self, each: Sentence, so_far: Hypothesis) -> str:
        """Beams change their minds, and a translation is short."""
        return ""

    def rest(self, each: Sentence, whole: Prediction) -> str:
        return whole.text


Made = tuple[list[Sentence], dict[int, Prediction]]
"""Sentences, and what is known of other inputs without a search."""
Writer = Continuations | Translations
