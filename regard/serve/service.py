"""A run that is served: its name, its places, and the engines of its present version."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from regard.decoding.matching import Retrieves
from regard.decoding.prediction import Prediction
from regard.errors import RecipeError, UserError
from regard.front import Predictor
from regard.model import Model
from regard.recipe.parts import Part, module
from regard.runs import Run
from regard.runs.on_demand import Changed
from regard.search import Stepwise
from regard.serve.aside import Aside
from regard.serve.caps import Served
from regard.serve.continuous import Continuous
from regard.serve.dynamic import ITEMS, Dynamic
from regard.serve.errors import Refusal, refused
from regard.serve.languages import languages_of
from regard.serve.queue import Queue
from regard.serve.settings import Settings
from regard.serve.work import Options, Work
from regard.serve.writers import Continuations, Translations, Writer
from regard.tasks import Continues, Fuses, Searches
from regard.tasks._writing import WritingTask
from regard.train.device import cores

CT2_ITEMS = 32
"""Inputs of a batch of CTranslate2, of which it makes two."""
ASIDE = 2
"""Threads for what no batch computes."""
IDLE = 60.0
"""Seconds after which torch's weights are let go that nobody has asked for."""
Found = TypeVar("Found")


class Engine:
    """One version of a run, opened, with the threads that answer for it."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.task, self.parameters = predictor.task, predictor.model.size()
        self.fast = self._finder(predictor.search(), Options())
        """Whether CTranslate2 does the recipe's own search."""
        self._writer = _writer(predictor)
        threads, items = (cores(), CT2_ITEMS) if self.fast else (1, ITEMS)
        self.planned = lru_cache(256)(self._planned)
        self._dynamic = Dynamic(predictor, threads, items)
        self._continuous: Continuous | None = None
        if self._writer is not None:
            self._continuous = Continuous(lambda: predictor.model, self._writer)
        if self.fast:  # which has weights of its own
            predictor.release()

    @property
    def model(self) -> Model:
        """The model itself: who computes with it asks in a thread, as it may have to be opened."""
        return self.predictor.model

    @property
    def outline(self) -> Model:
        """Its parts."""
        return self.predictor.outline

    def rest(self) -> bool:
        """Let torch's weights go where CTranslate2 does the work and nobody has asked for them for
        a while; whether they went."""
        return self.fast and self.predictor.release(IDLE)

    def _finder(self, search: Part, options: Options, *, forced: bool = False) -> bool:
        """Whether CTranslate2 is to search."""
        if "finder" not in self.task.predict_options:
            return False
        how = {"prefixes": forced, "details": options.details}
        return self.predictor.finder(search, **how) is not None

    def _planned(self, options: Options, forced: bool) -> tuple[Part, bool]:
        """The search that is asked for, and whether such requests join a running one."""
        search = self.predictor.search(options.search, **dict(options.how))
        self._check_search(search)
        return search, self._joins(search, options, forced)

    def _check_search(self, search: Part) -> None:
        """Refuse one that the model has no part for."""
        if search.kind == "none":
            return
        stepwise = isinstance(module("search", search.kind), Stepwise)
        by_ctc = isinstance(self.task, Fuses) and (
            self.outline.decoder is None or "target" in self.outline.heads
        )
        if self.outline.decoder is None if stepwise else not by_ctc:
            raise RecipeError(f"search: this model has no part for {search.kind!r}")

    def _joins(self, search: Part, options: Options, forced: bool) -> bool:
        if self._writer is None or not isinstance(module("search", search.kind), Stepwise):
            return False
        if isinstance(self._writer, Continuations):
            samples = search.config.samples if search.kind == "sample" else 1
            return search.kind != "beam" and samples == 1
        return not self._finder(search, options, forced=forced)

    def put(self, work: Work) -> None:
        search, joins = self.planned(work.options, work.forced)
        if self._continuous is not None and joins:
            self._continuous.put(work, search)
        else:
            work.alone = search.kind == "sample"
            self._dynamic.put(work)

    def close(self) -> None:
        """Answer what is here, and take no more."""
        self._dynamic.close()
        if self._continuous is not None:
            self._continuous.close()

    def join(self) -> None:
        """Wait until all of it is answered."""
        self._dynamic.join()
        if self._continuous is not None:
            self._continuous.join()


def _writer(predictor: Predictor) -> Writer | None:
    """How sentences join a running search, if they can."""
    task: Any = predictor.task
    if isinstance(task, Continues):
        return Continuations(task.continuer(predictor.model))
    if isinstance(task, WritingTask) and predictor.outline.decoder is not None:
        return Translations(task.translator, lambda: predictor.model)
    return None


@dataclass(frozen=True)
class Source:
    """Where a run lies, and how it is opened."""

    name: str
    folder: Path
    how: tuple[tuple[str, Any], ...] = ()

    def open(self) -> Engine:
        return Engine(Served(Run(self.folder), **dict(self.how)))


class Service:
    """A run that is served. Belongs to the event loop."""

    def __init__(self, source: Source, engine: Engine, settings: Settings) -> None:
        self.source, self.settings = source, settings
        self.name = source.name
        self.version = 1
        self.created = int(time.time())
        self.queue = Queue(settings.queue, settings.queue_items)
        self._aside = Aside(ASIDE)
        self._set(engine)

    def _set(self, engine: Engine) -> None:
        self.engine = engine
        self._met = lru_cache(256)(self._as_met)

    @property
    def predictor(self) -> Predictor:
        return self.engine.predictor

    @property
    def task(self) -> Any:
        return self.engine.task

    @property
    def kind(self) -> str:
        """The task."""
        return self.predictor.run.recipe.kind

    @property
    def reads(self) -> str:
        """What an input is: text, dialogue, image, audio, or series."""
        field = next(iter(self.task.fields.values()))
        if field.on_disk:
            return str(field.column)
        if self.task.reads_files:
            return "series"
        return "text" if self.predictor.template is None else "dialogue"

    def streams(self, options: Options) -> bool:
        """Whether an output can be shown while it is written."""
        return isinstance(self.task, Continues) and self.engine.planned(options, False)[1]

    @property
    def continues(self) -> bool:
        """Whether it continues texts."""
        return isinstance(self.task, Continues)

    def about(self) -> dict[str, Any]:
        """What a client may want to know of the run."""
        options = sorted({*self.task.predict_options} - {"finder", "align_tokens", "prefixes"})
        known = {"align_tokens": "align", "prefixes": "prefix"}
        options += [name for own, name in known.items() if own in self.task.predict_options]
        options += ["choices"] if isinstance(self.task, Retrieves) else []
        fields = list(self.task.fields.items())
        config = self.predictor.run.recipe.task
        return {
            "task": self.kind,
            "reads": self.reads,
            "writes": fields[-1][0],
            "version": self.version,
            "options": options,
            "search": config.search.kind if isinstance(config, Searches) else None,
            "streams": self.continues,
            "chat": self.predictor.template is not None,
            "engine": "ctranslate2" if self.engine.fast else "torch",
            "parameters": self.engine.parameters,
            "languages": list(self.languages),
            "unfinished": self.predictor.unfinished is not None,
        }

    @property
    def languages(self) -> tuple[str, ...]:
        """Of a translation: from, to; what the run's files are called says so, if anything does."""
        return languages_of(self.predictor.run) if self.kind == "translate" else ()

    def swap(self, engine: Engine) -> Engine:
        """Another version from now on; what the one before has begun, it ends."""
        before = self.engine
        self._set(engine)
        self.version += 1
        before.close()
        return before

    # What may be asked

    def check(self, inputs: Sequence[str], options: Options, *, prefix: bool = False) -> Options:
        """The options as they can be met; Refusal of what is too much or makes no sense."""
        self.check_size([*inputs, *options.choices])
        return self._met(options, prefix)

    def _as_met(self, options: Options, prefix: bool) -> Options:
        limits, how = self.settings, dict(options.how)
        self._check_known(options, prefix=prefix)
        for name in ("beams", "nbest", "samples"):
            if how.get(name, 0) > limits.nbest:
                most = f"{name}: at most {limits.nbest}"
                raise Refusal(400, most, code="too_much", param=name)
        for name, value in (("length", options.length), ("min_length", how.get("min_length"))):
            if value is not None and value > limits.new_tokens:
                most = f"{name}: at most {limits.new_tokens:,}"
                raise Refusal(400, most, code="too_much", param=name)
        try:
            self.engine.planned(options, prefix)
        except UserError as error:
            raise refused(error) from None
        if options.length is None and self.continues:
            usual = self.predictor.run.recipe.task.output.length
            options = replace(options, length=min(usual, limits.new_tokens))
        return options

    def check_size(self, inputs: Sequence[str]) -> None:
        """Refuse no input, too many, and too long ones."""
        limits = self.settings
        if not inputs:
            raise Refusal(400, "there is no input", code="no_input")
        if len(inputs) > limits.items:
            raise Refusal(400, f"at most {limits.items:,} inputs", code="too_many_items")
        if sum(map(len, inputs)) > limits.characters:
            many = f"at most {limits.characters:,} characters in all"
            raise Refusal(413, many, code="too_long")

    def _check_known(self, options: Options, *, prefix: bool) -> None:
        """Refuse options that the task does not take."""
        known = self.task.predict_options
        asked = {"length": options.length is not None, "stop": bool(options.stop)}
        asked |= {"split": options.split, "top": options.top is not None, "prefix": prefix}
        if options.choices and not isinstance(self.task, Retrieves):
            said = f"choices: the task {self.kind} takes none"
            raise Refusal(400, said, code="unknown_option", param="choices")
        for name, given in asked.items():
            if given and ("prefixes" if name == "prefix" else name) not in known:
                said = f"{name}: the task {self.kind} takes none"
                raise Refusal(400, said, code="unknown_option", param=name)

    # Answers

    async def answer(self, work: Work) -> list[Prediction]:
        """What the model makes of a request; Refusal if there is no place, or no time is left."""
        with self._admitted(work):
            async with asyncio.timeout(self.settings.deadline):
                return await work.done

    async def beside(self, items: int, given: Sequence[str], act: Callable[[], Found]) -> Found:
        """What is computed in a thread and not in a batch; `given` is what a refusal may quote."""
        place = self.queue.admit(items)
        with self._refusing(given):
            async with asyncio.timeout(self.settings.deadline):
                return await self._aside.run(act, lambda well: place.leave(answered=well))

    async def stream(self, work: Work) -> AsyncGenerator[str, None]:
        """The pieces of one output as they are written; `work.done` has all of it."""
        assert work.pieces is not None
        # Not one timeout around all of it: who asks for the next piece may be another task.
        end = time.monotonic() + self.settings.deadline
        with self._admitted(work):
            while True:
                async with asyncio.timeout(max(0.0, end - time.monotonic())):
                    piece = await work.pieces.get()
                if piece is None:
                    break
                yield piece
            work.done.result()

    @contextmanager
    def _admitted(self, work: Work) -> Iterator[None]:
        """A place for a request, which the engine has meanwhile; given back at the end."""
        place, answered = self.queue.admit(len(work.inputs)), False
        try:
            with self._refusing(work.inputs):
                self.engine.put(work)
                yield
            answered = True
        finally:
            work.cancelled = True
            place.leave(answered=answered)

    @contextmanager
    def _refusing(self, given: Sequence[str]) -> Iterator[None]:
        """What is late, or a user's mistake, is a refusal; `given` is what it may quote."""
        try:
            yield
        except Changed as error:
            raise Refusal(503, str(error), code="changed", retry=30) from None
        except TimeoutError:
            late = f"not answered within {self.settings.deadline:g} seconds"
            raise Refusal(504, late, code="deadline", retry=self.queue.wait()) from None
        except UserError as error:
            raise refused(error, given) from None
