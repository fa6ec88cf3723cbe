"""Continuous batches: sentences come into a running search, and leave it when they are done.

A search is a generator of steps (`regard.search`). Its sentences are rows of one decoder state, so
that a step of sixty costs little more than a step of one, and a request that comes while others are
written waits for one step, not for their end. Sentences that can be searched side by side share a
`Lane`; the thread here takes a step of each lane in turn.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.parallel_batches import threads_for
from regard.errors import UserError
from regard.model import Model
from regard.recipe.parts import Part
from regard.search import Arrival, Hypothesis, News, Steps, beam, sample
from regard.search.greedy import Texts, penalised, walk
from regard.serve import log
from regard.serve.work import Work
from regard.serve.writers import Sentence, Writer

MOST = 64
"""Sentences in a lane."""
LIVES = 2048
"""Sentences after which a lane takes no more: a search remembers all that it has found."""
PATIENCE = 0.1
"""Seconds for which sentences may wait, so that several join a busy lane together: to join copies
what the others have read."""

Put = Callable[[], None]


class Lane:
    """One running search."""

    def __init__(self, model: Model, first: Sentence) -> None:
        self.key = first.lane
        self._model, self._search = model, first.search
        self._minimum = first.search.config.min_length
        self._width = first.lane[2] if first.lane[0] == "walk" else 1
        self._steps: Steps | None = None
        self.sentences: dict[int, Sentence] = {}
        """In work, by their numbers in the search."""
        self.come = 0

    def enter(self, arrival: Arrival, new: Sequence[Sentence]) -> "Change":
        """Take a step with new sentences."""
        self.sentences |= {self.come + n: each for n, each in enumerate(new)}
        self.come += len(new)
        if self._steps is None:
            self._steps = self._begin(arrival)
            return self._change(lambda steps: next(steps))
        return self._change(lambda steps: steps.send(arrival))

    def step(self) -> "Change":
        return self._change(lambda steps: next(steps))

    def _begin(self, arrival: Arrival) -> Steps:
        if self._search.kind == "beam":
            return beam.steps(self._model.step, *arrival, self._search.config)
        return walk(self._model.step, *arrival, self._choose, self._minimum, self._width)

    def _change(self, take: Callable[[Steps], News]) -> "Change":
        assert self._steps is not None
        with torch.inference_mode(), threads_for(self._model, len(self.sentences)):
            try:
                news = take(self._steps)
                ended, going = news.finished, news.sentences
            except StopIteration as stop:  # they had no place for a token
                self._steps, going = None, ()
                ended = {number: stop.value[number] for number in self.sentences}
        found = [(self.sentences.pop(number), best) for number, best in ended.items()]
        written = []
        for each in going:
            sentence = self.sentences.get(each.number)
            if sentence is None:
                continue
            if sentence.work.cancelled:
                each.give_up()
            elif sentence.work.pieces is not None:
                written.append((sentence, each.best()))
        if not self.sentences:
            self._steps, self.come = None, 0
        return found, written

    def _choose(self, log_probs: Float[Tensor, "B W V"], frontier: Any) -> Int[Tensor, "B W"]:
        """The next token of each hypothesis, each as its own request asks."""
        texts: list[Texts] = frontier.working
        searches = [self.sentences[text.number].search for text in texts]
        groups: dict[Part, list[int]] = {}
        for row, search in enumerate(searches):
            groups.setdefault(_seedless(search), []).append(row)
        found = torch.empty(log_probs.shape[:2], dtype=torch.long, device=log_probs.device)
        for search, rows in groups.items():
            part = log_probs if len(groups) == 1 else log_probs[rows]
            some = [texts[row] for row in rows]
            said = penalised(part, some, search.config.repetition_penalty)
            if search.kind == "greedy":
                found[rows] = said.argmax(-1)
                continue
            seeds = [searches[row].config.seed for row in rows]
            found[rows] = _drawn(said, some, seeds, search.config)
        return found


Change = tuple[list[tuple[Sentence, list[Hypothesis]]], list[tuple[Sentence, Hypothesis]]]
"""What a step has brought: sentences that ended, and what others have written so far."""


def _seedless(search: Part) -> Part:
    """What draws share that differ in their seeds alone."""
    if search.kind != "sample":
        return search
    return Part(search.kind, replace(search.config, seed=0))


def _drawn(
    said: Float[Tensor, "B W V"], texts: list[Texts], seeds: list[int], config: Any
) -> Int[Tensor, "B W"]:
    """As `search.sample` draws."""
    keys = [(text.draw, text.age, seed) for text, seed in zip(texts, seeds, strict=True)]
    number, age, seed = torch.tensor(keys)[:, None].unbind(2)  # (B, 1)
    which = torch.arange(said.shape[1])
    chance = sample.uniform(seed, number, which, age)
    return sample.draw(sample.distribution(said.cpu(), config), chance).to(said.device)


class Continuous:
    """The thread that takes the steps of all lanes of a model."""

    def __init__(self, model: Callable[[], Model], writer: Writer) -> None:
        """`model` gives it, and is asked where it is needed: between requests it may be let go."""
        self._model, self._writer = model, writer
        self._arrived: deque[tuple[Work, Part]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._lanes: list[Lane] = []
        self._waiting: dict[tuple[Any, ...], deque[Sentence]] = {}
        self._since: dict[tuple[Any, ...], float] = {}
        self._news: list[Put] = []
        self._last: Work
        """By which news finds the event loop."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, work: Work, search: Part) -> None:
        with self._changed:
            self._arrived.append((work, search))
            self._changed.notify()

    def close(self) -> None:
        """Answer what is here, and take no more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        while (arrived := self._take()) is not None:
            self._step(arrived)  # of which nothing is held while the next is waited for
            del arrived

    def _step(self, arrived: list[tuple[Work, Part]]) -> None:
        """A step of each lane, with those that have come."""
        for work, search in arrived:
            self._admit(work, search)
        busy = [lane for lane in self._lanes if lane.sentences]
        for key in list(self._waiting):
            if (lane := self._enter(key)) in busy:
                busy.remove(lane)
        for lane in busy:
            self._try(lane, lane.step)
        self._lanes = [lane for lane in self._lanes if lane.sentences]
        self._tell()

    def _take(self) -> list[tuple[Work, Part]] | None:
        """Requests that have come; if nothing else is to be done, one is waited for. None: over."""
        with self._changed:
            while not (self._arrived or self._lanes or self._waiting):
                if self._closed:
                    return None
                self._changed.wait()
            arrived = [*self._arrived]
            self._arrived.clear()
        return arrived

    def _tell(self) -> None:
        """Let the event loop know what has come of a step, all in one go."""
        if self._news:
            self._last.deliver(self._news)
            self._news = []

    def _admit(self, work: Work, search: Part) -> None:
        """The sentences of a request wait for a place in a lane."""
        self._last = work
        if work.cancelled:
            return
        try:
            made, known = self._writer.sentences(work, search)
        except Exception as error:
            self._fail(work, error)
            return
        if not made:
            self._news.append(work.answer(list(known.values())))
            return
        for n, found in known.items():
            made[0].answers.add(n, found)
        queue = self._waiting.setdefault(made[0].lane, deque())
        self._since.setdefault(made[0].lane, time.monotonic())
        queue.extend(made)

    def _enter(self, key: tuple[Any, ...]) -> Lane | None:
        """Let sentences that wait into their lane, as many as it has places for, with a step."""
        queue = self._waiting[key]
        lane = next((x for x in self._lanes if x.key == key and x.come < LIVES), None)
        free = MOST - (len(lane.sentences) if lane else 0)
        few = lane is not None and len(queue) < MOST // 8 and len(lane.sentences) > MOST // 2
        if free <= 0 or (few and time.monotonic() - self._since[key] < PATIENCE):
            return None
        new: list[Sentence] = []
        while queue and len(new) < free:
            if not (each := queue.popleft()).work.cancelled:
                new.append(each)
        self._since[key] = time.monotonic()
        if not queue:
            del self._waiting[key], self._since[key]
        if not new:
            return None
        if (arrived := self._arrived_together(new)) is None:
            return lane
        arrival, some = arrived
        if lane is None:
            lane = Lane(self._model(), new[0])
            self._lanes.append(lane)
        into = lane
        self._try(into, lambda: into.enter(arrival, some), some)
        return lane

    def _arrived_together(self, new: list[Sentence]) -> tuple[Arrival, list[Sentence]] | None:
        """What a search must know of those that the model can read: one that it cannot read spoils
        no other."""
        try:
            return self._writer.arrival(new), new
        except Exception as error:
            if len(new) == 1:
                self._fail(new[0].work, error)
                return None
        some = [each for each in new if self._arrived_together([each])]
        return (self._writer.arrival(some), some) if some else None

    def _try(self, lane: Lane, take: Callable[[], Change], new: Sequence[Sentence] = ()) -> None:
        """A step of a lane. What goes wrong in it ends the lane, not the thread."""
        try:
            ended, written = take()
        except Exception as error:
            lost = {id(each.work): each.work for each in (*lane.sentences.values(), *new)}
            lane.sentences.clear()
            for work in lost.values():
                self._fail(work, error)
            return
        for each, best in ended:
            try:
                self._end(each, best)
            except Exception as error:
                self._fail(each.work, error)
        for each, so_far in written:
            try:
                self._say(each, so_far)
            except Exception as error:
                self._fail(each.work, error)

    def _say(self, each: Sentence, so_far: Hypothesis) -> None:
        if piece := self._writer.piece(each, so_far):
            self._news.append(each.work.say(piece))

    def _end(self, each: Sentence, best: list[Hypothesis]) -> None:
        self._last = each.work
        if each.work.cancelled:
            return
        found = self._writer.ended(each, best)
        if found is None:  # on into the next window, before all that wait
            queue = self._waiting.setdefault(each.lane, deque())
            self._since.setdefault(each.lane, 0.0)
            queue.appendleft(each)
            return
        if each.work.pieces is not None and (piece := self._writer.rest(each, found)):
            self._news.append(each.work.say(piece))
        whole = each.answers.add(each.place, found)
        if whole is not None:
            self._news.append(each.work.answer(whole))

    def _fail(self, work: Work, error: Exception) -> None:
        self._last = work
        if not isinstance(error, UserError):
            log.failure("prediction failed", error)
        self._news.append(work.fail(error))
