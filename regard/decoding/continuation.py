"""What follows a prompt: it is read at once, then tokens are written one by one.

    score(y | x) = Σ_t log p(yₜ | x, y₁ … yₜ₋₁) / nᵅ      over the n tokens y of the output alone

The prompt x is given, not written: nothing of it counts in a score, a length or a minimum.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from regard.data.batching import by_length
from regard.data.tokenizers import Tokenizer
from regard.decoding.parallel_batches import threads_for
from regard.decoding.prediction import Choose, Prediction, Sample, written
from regard.decoding.stopping import Stops
from regard.errors import RecipeError, UserError
from regard.inspect import reading
from regard.inspect.reading import Reading
from regard.layers.position import limit
from regard.model import Model
from regard.recipe.parts import Part, module
from regard.search import Arrival, Hypothesis, Request, Steps, drain
from regard.types import Batch, DecoderState, Samples

CHUNK = 256
"""Tokens of each text that are read at once: what a model holds of them is bounded."""
PROMPT, SHORT = 32, 16
"""Tokens before a place of a text, and of what is said there."""
SEEN, WRITTEN = 80, 40
"""Of a sample: characters before it that are shown, and tokens that are written."""
NEAR = 20
"""Characters within which the border of a word is looked for."""
NOTHING = Hypothesis((), 0.0, (), False)


def read(model: Model, texts: Sequence[Sequence[int]]) -> DecoderState:
    """The state that has read all of each text but its last token, which a search reads first.

    All texts are read side by side up to the end of the shortest, and so on with those that are
    left: a text's state does not depend on the others.
    """
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    state = model.start(Batch(tensors={}, ids=tuple(order), targets=0))
    ended, place, waiting = list[DecoderState](), 0, order
    while True:
        end = len(texts[waiting[0]]) - 1
        for first in range(place, end, CHUNK):
            rows = [texts[n][first : min(first + CHUNK, end)] for n in waiting]
            _, state = model.decode(torch.tensor(rows, device=model.device), state)
        ready = sum(len(texts[n]) - 1 == end for n in waiting)
        if ready == len(waiting):
            break
        numbers = torch.arange(len(waiting), device=model.device)
        ended.append(state.keep(numbers[:ready]))
        state, waiting, place = state.keep(numbers[ready:]), waiting[ready:], end
    whole = ended[0].join([*ended[1:], state]) if ended else state
    back = sorted(range(len(order)), key=order.__getitem__)
    return whole.keep(torch.tensor(back, device=model.device))


@dataclass(frozen=True)
class Continuer:
    """A model that goes on where texts stop; lines end by tokens of their own, or documents do."""

    model: Model
    by: Tokenizer
    before: int
    """What is read before a text's first token."""
    window: int | None
    """How many tokens the model can hold, if it hands nothing on."""
    ends: bool
    """Whether texts end: what is written may then be over before it is long enough."""
    documents: bool = False
    """Whether a text of several lines has one end alone."""

    fresh: ClassVar[bool] = False
    """Whether what is written begins anew, and does not go on where a prompt stops."""

    @property
    def end(self) -> int:
        """The token that ends an output, if any does."""
        return self.by.end

    @property
    def unwritten(self) -> tuple[int, ...]:
        """Tokens that no output has."""
        return tuple(token for token in self.by.unwritten if token != self.end)

    def tokens(self, text: str) -> list[int]:
        """Those of a text of many lines; there is no end after the last."""
        if self.documents:
            return self.by.encode([text])[0]
        rows = self.by.encode(text.split("\n"))
        return [token for row in rows for token in (*row, self.by.end)][:-1]

    def begun(self, prompt: list[int]) -> list[int]:
        """What is read before the first token that is written; some imported tokenizers put nothing
        before a prompt."""
        return self.opened(prompt) if self.by.opens or not prompt else prompt

    def opened(self, tokens: list[int]) -> list[int]:
        """The tokens of a text with what is read before the first that is said."""
        return [self.before, *tokens]

    def tokens_of_both(self, text: str, target: str) -> list[int]:
        """The tokens of a prompt and of what follows it."""
        return self.tokens(text + target)

    def decode(self, tokens: Sequence[int]) -> str:
        if self.documents:
            return self.by.decode(tokens)
        lines: list[list[int]] = [[]]
        for token in tokens:
            lines.append([]) if token == self.by.end else lines[-1].append(token)
        return "\n".join(map(self.by.decode, lines))

    def predict(
        self,
        inputs: Sequence[str],
        search: Part,
        length: int,
        size: int,
        first: int,
        stop: Sequence[str] = (),
    ) -> list[Prediction]:
        """What follows each input, in order, up to one of the strings `stop`."""
        prompts, stops = [*map(self.tokens, inputs)], self.stops(stop)

        def continued(ids: list[int]) -> list[Prediction]:
            chosen, numbers = [prompts[n] for n in ids], [first + n for n in ids]
            best = self.follow(chosen, numbers, search, length, stops)
            return [self.prediction(*each, stops) for each in zip(chosen, best, strict=True)]

        return by_length([len(prompt) for prompt in prompts], size, continued)

    def pieces(
        self, text: str, search: Part, length: int, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """What `predict` writes for one input, piece by piece, as it is written."""
        if search.kind == "beam":
            raise RecipeError("stream: beam search changes its mind; use search = greedy or sample")
        prompt, stops, shown = self.tokens(text), self.stops(stop), ""
        row, done, draws = self.begun(prompt), NOTHING, 0
        while not done.finished and len(done.tokens) < length:
            rows = [self.held(row, done)]
            threads = threads_for(self.model, 1)
            with threads:
                steps = self._steps(rows, [done], (draws << 32,), search, length, stops, [prompt])
            for new in _hypotheses(steps, threads):
                said = new._replace(tokens=done.tokens + new.tokens)
                now = stops.settled(self.text(prompt, said.tokens))
                if len(now) > len(shown):
                    yield now[len(shown) :]
                    shown = now
            done, draws = said._replace(log_probs=done.log_probs + said.log_probs), draws + 1
        yield stops.cut(self.text(prompt, done.tokens))[len(shown) :]

    def stops(self, strings: Sequence[str]) -> Stops:
        """The strings that end an output."""
        if not all(strings):
            raise RecipeError("stop: a string that ends outputs cannot be empty")
        return Stops(tuple(strings), self.decode)

    def text(self, prompt: list[int], written: Sequence[int]) -> str:
        """What was written after a prompt: a first word has its blank before it."""
        return self.decode([*prompt, *written]).removeprefix(self.decode(prompt))

    @property
    def _kept(self) -> int:
        """How many tokens a model that hands nothing on reads again when its window is full."""
        return (self.window or sys.maxsize) // 2 + 1

    def held(self, row: list[int], done: Hypothesis) -> list[int]:
        """What is read of a prompt and what was written after it."""
        return [*row[-self._kept :], *done.tokens][-self._kept :]

    def follow(
        self,
        prompts: list[list[int]],
        numbers: Sequence[int],
        search: Part,
        length: int,
        stops: Stops | None = None,
    ) -> list[list[Hypothesis]]:
        """Continuations, best first, without their prompts.

        A model that hands nothing on writes until its window is full, then goes on from the last
        half of it: each sample by itself, other searches with the best hypothesis, so that their
        alternatives differ in the last window only.
        """
        texts = [*map(self.begun, prompts)]
        samples = search.config.samples if isinstance(search.config, Samples) else 0
        found = [[NOTHING] for _ in texts]
        going, draws = [(n, 0) for n in range(len(texts))], 0
        while going:
            before = [found[n][k] for n, k in going]
            rows = [self.held(texts[n], done) for (n, _), done in zip(going, before, strict=True)]
            marks = tuple(numbers[n] + ((draws + k) << 32) for n, k in going)  # new in each window
            read = [prompts[n] for n, _ in going]
            best = self._written(rows, before, marks, search, length, stops, read)
            for (n, k), new in zip(going, best, strict=True):
                if samples:
                    found[n][k : k + 1] = new
                else:
                    found[n] = new
            if samples:
                search = Part(search.kind, replace(search.config, samples=1))
            draws += samples or 1
            going = [
                (n, k)
                for n, each in enumerate(found)
                for k, done in enumerate(each if samples else each[:1])
                if not done.finished and len(done.tokens) < length
            ]
        return [sorted(each, key=lambda done: -done.score) for each in found]

    def _written(
        self, rows: Sequence[Sequence[int]], before: Sequence[Hypothesis], *asked: Any
    ) -> list[list[Hypothesis]]:
        """Each of `before` and what follows it, up to a window's end; `rows` are what is read."""
        with torch.inference_mode(), threads_for(self.model, len(rows)):
            found = drain(self._steps(rows, before, *asked))
        return [
            [
                new._replace(
                    tokens=done.tokens + new.tokens, log_probs=done.log_probs + new.log_probs
                )
                for new in best
            ]
            for done, best in zip(before, found, strict=True)
        ]

    def _steps(
        self,
        rows: Sequence[Sequence[int]],
        before: Sequence[Hypothesis],
        numbers: tuple[int, ...],
        search: Part,
        length: int,
        stops: Stops | None,
        prompts: Sequence[Sequence[int]],
    ) -> Steps:
        """The search for what follows `before`; `prompts` are whole."""
        count = len(rows)
        state, request = self.arrival(
            rows, before, numbers, [length] * count, [stops] * count, prompts
        )
        steps: Steps = module("search", search.kind).steps(
            self.model.step, state, request, search.config
        )
        return steps

    def arrival(
        self,
        rows: Sequence[Sequence[int]],
        before: Sequence[Hypothesis],
        numbers: tuple[int, ...],
        lengths: Sequence[int],
        stops: Sequence[Stops | None],
        prompts: Sequence[Sequence[int]],
    ) -> Arrival:
        """Texts that a search is to go on with, each up to its own length and stop strings: `rows`
        are what is read of `prompts` and of what was written `before`."""
        room = (self.window or sys.maxsize) + 1
        every = zip(rows, before, lengths, strict=True)
        caps = [min(most - len(done.tokens), room - len(row)) for row, done, most in every]
        request = self._request(rows, caps, numbers, [done.log_probs for done in before])
        context = [[*p, *done.tokens] for p, done in zip(prompts, before, strict=True)]
        request = replace(request, context=context)
        if any(stops):  # one without strings is never over

            def over(row: int, written: Sequence[int]) -> bool:
                own = stops[row]
                return own is not None and own.over(prompts[row], [*before[row].tokens, *written])

            request = replace(request, stop=over)
        with torch.inference_mode():
            return read(self.model, rows), request

    def _request(
        self,
        rows: Sequence[Sequence[int]],
        caps: list[int],
        numbers: tuple[int, ...],
        written: Sequence[Sequence[float]],
    ) -> Request:
        """What is asked of a search that goes on with rows; running text has no end, and what pads
        is never written."""
        return Request(
            start=[row[-1] for row in rows],
            end=self.end if self.ends else self.by.pad,
            caps=caps,
            forbidden=self.unwritten,
            written=written,
            numbers=numbers,
            device=self.model.device,
        )

    def beside(self, places: Sequence[tuple[list[int], int]]) -> tuple[list[str], list[str]]:
        """What is said at places of texts, greedily, and what stands there."""
        prompts = [row[max(0, place - PROMPT) : place] for row, place in places]
        right = [row[place : place + SHORT] for row, place in places]
        greedy = Part("greedy", module("search", "greedy").Config())
        found = self.follow(prompts, list(range(len(prompts))), greedy, SHORT)
        return [self.decode(best[0].tokens) for best in found], [*map(self.decode, right)]

    def samples(self, sides: Sequence[Sequence[str]], choose: Choose) -> list[Sample]:
        """How the model goes on, greedily, in the middle of some texts, or at places of one."""
        [texts] = sides
        if len(texts) > 1:
            chosen = [texts[n] for n in choose(len(texts))]
            places = [(text, border(text, len(text) // 2)) for text in chosen]
        else:
            places = [(text, border(text, n)) for text in texts for n in choose(len(text))]
        if self.ends:
            prompts = [text[:n] for text, n in places]
        else:  # how running text began is too long ago
            prompts = [text[border(text, n - SEEN) : n] for text, n in places]
        greedy = Part("greedy", module("search", "greedy").Config())
        found = self.predict(prompts, greedy, WRITTEN, max(1, len(prompts)), 0)
        return [
            Sample(prompt[-SEEN:], text[n : n + SEEN], made.text)
            for prompt, (text, n), made in zip(prompts, places, found, strict=True)
        ]

    def prediction(self, prompt: list[int], best: list[Hypothesis], stops: Stops) -> Prediction:
        """What was found for a prompt, as a user gets it."""
        whole = "ok" if best[0].finished or not self.ends else "capped"
        status = "unknown" if self.by.unknown in prompt else whole
        found = tuple(best)
        if stops:
            best = [stops.shortened(prompt, each) for each in best]
        texts = [stops.cut(self.text(prompt, each.tokens)) for each in best]
        details = {"status": status, "source": self.by.pieces(prompt), "hypotheses": found}
        return written(best, texts, self.by, end=self.end, **details)

    def look(
        self,
        text: str,
        search: Part,
        target: str | None,
        length: int,
        batch: Callable[[list[list[int]]], Batch],
    ) -> Reading:
        """The text is given, what follows is the model's, or `target`; both are read alike."""
        prompt, beam = self.tokens(text), None
        if target is None:
            rows = [self.begun(prompt)]
            cap = max(1, min(length, limit(self.model.decoder) - len(prompt)))
            request = self._request(rows, [cap], (0,), [()])
            with torch.inference_mode():
                state = read(self.model, rows)
            best, beam = reading.best(self.model, state, request, search, self.by)
            said = [*prompt, *best.tokens, *([self.end] if best.finished else [])]
        else:
            said = self.tokens_of_both(text, target)
        if not said:
            raise UserError("inspect: there is nothing to read")
        first, *rest = self.opened(said)
        first_said = len(prompt) + len(rest) - len(said)
        return reading.written(
            batch([said]).to(self.model.device),
            text,
            rest,
            self.by,
            start=first,
            prompt=first_said,
            given=first_said if target is None else len(rest),
            beam=beam,
        )


def _hypotheses(steps: Steps, threads: AbstractContextManager[None]) -> Iterator[Hypothesis]:
    """The one hypothesis of the one sentence, after each step. Neither the mode of inference nor
    the number of threads holds where the iterator is used."""
    while True:
        with torch.inference_mode(), threads:
            try:
                news = next(steps)
            except StopIteration:
                return
            best = next(iter(news.best().values()))
        yield best


def border(text: str, place: int) -> int:
    """The next place at which a word ends, if there is one near; else the place itself."""
    if place <= 0:
        return 0
    ends = (n for n in range(place, min(place + NEAR, len(text))) if text[n].isspace())
    return next(ends, place)
