"""The Python front door: what the command line does, as functions."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from regard.checks.findings import Finding
from regard.data.readers import Report
from regard.doctor import examination
from regard.errors import RecipeError, UserError
from regard.examples.raw import Raw
from regard.interop import Engine, Quantization, ctranslate2
from regard.interop.conversion import unavailable
from regard.layers import int8
from regard.layers.allocator import bound_caches
from regard.layers.probe import watched
from regard.metrics import Score
from regard.model import Model
from regard.recipe import config
from regard.recipe.parts import Part
from regard.recipe.values import Count, Length, check
from regard.runs import Run, preparing, state, train as train_run
from regard.runs.encoding import Helpers
from regard.runs.fusing import fuse
from regard.runs.generating import Generates
from regard.runs.on_demand import OnDemand
from regard.runs.searching import wanted
from regard.runs.state import free_folder
from regard.tasks import Chooses, Continues, Grades, Prediction, Task, check_texts
from regard.train.device import pick
from regard.train.log import tell

CHUNK = 4096


class Predictor(Generates):
    """A trained model with all that it needs to be used. Using it changes nothing: several threads
    may do so at once."""

    def __init__(
        self,
        run: Run,
        *,
        checkpoint: str = "final",
        device: str = "cpu",
        engine: Engine = "auto",
        quantization: Quantization = "float32",
        shortlist: bool = False,
        choices: str | Path | Sequence[str] | None = None,
    ) -> None:
        """`choices` are all the texts that may be written, or a file of them, "none" if anything
        may; the recipe's own otherwise."""
        bound_caches()
        self.run = run
        self.task = run.task
        self.notes: list[str] = []
        """What could not be used of the choices and the checkpoints, and how near quantized
        numbers come."""
        if choices is not None:
            self._choose_among(choices)
        place = pick(device, "device")
        rounded = quantization == "int8" and isinstance(self.task, Continues)
        if rounded and (engine == "ctranslate2" or place != "cpu" or not int8.available()):
            raise RecipeError("quantization: int8 of a language model is torch's, on a processor")
        self._quantization, self._shortlist = "float32" if rounded else quantization, shortlist
        self._engine = self._settled(engine, place)
        self._weights = OnDemand(partial(run.loaded, checkpoint, place, rounded=rounded))
        self.progress = self._weights.progress
        self.notes += self._weights.notes
        self.unfinished = state.unfinished(run.folder, self.progress.update)
        """Where the run stands, if training is not over."""
        self._opened: ctranslate2.Engine | None = None
        self._opening = Lock()
        if not self._exact:
            self._open()
        # One sentence at a time asks again and again.
        self._choose = cache(partial(ctranslate2.choose, run.recipe, self.task.sizes))
        self._obstacle = cache(partial(ctranslate2.obstacle, run.recipe, self.task.sizes))

    @property
    def model(self) -> Model:
        """The model that was trained; opened again, if it was let go."""
        return self._weights.get()

    @property
    def outline(self) -> Model:
        """The model's parts, for those who do not compute with it: once it was let go, they have
        shapes and no weights."""
        return self._weights.outline()

    def release(self, idle: float = 0.0) -> bool:
        """Let the model go, if nobody has asked for it for so many seconds; whether that was
        so."""
        return self._weights.release(idle)

    def _choose_among(self, choices: str | Path | Sequence[str]) -> None:
        task = self.task
        if not isinstance(task, Chooses):
            raise RecipeError(f"choices: the task {self.run.recipe.kind} takes none")
        report = Report()
        given = Path(choices) if isinstance(choices, str) else choices
        if not isinstance(given, Path):
            check_texts("choices", given)
        task.restrict(None if given == Path("none") else task.make_choices(given, report))
        self.notes = report.summary()[1:]

    @property
    def _exact(self) -> bool:
        """Whether any engine gives what the model itself does."""
        return self._quantization == "float32" and not self._shortlist

    def _settled(self, engine: Engine, device: str) -> Engine:
        """The engine that is asked for: only CTranslate2 quantizes and has shortlists, and only
        torch has choices."""
        if isinstance(self.task, Chooses) and self.task.restricted():
            if engine == "ctranslate2" or not self._exact:
                raise RecipeError(
                    "choices: CTranslate2 writes any text; take the torch engine, or --choices none"
                )
            return "torch"
        if engine != "ctranslate2" and self._exact:
            return engine
        if engine == "torch" and self._shortlist:
            raise RecipeError("shortlist: torch's search has the whole vocabulary")
        if engine == "torch":
            raise RecipeError(
                f"quantization: torch computes in float32, not in {self._quantization}"
            )
        if "finder" not in self.task.predict_options:
            raise RecipeError(f"engine: ctranslate2 does not do the task {self.run.recipe.kind}")
        if reason := unavailable(self._quantization, self._shortlist):
            raise RecipeError(reason)
        if reason := ctranslate2.unfit(self.run.recipe, device):
            raise UserError(f"engine ctranslate2: {reason}; the torch engine can do it")
        return "ctranslate2"

    def _open(self) -> ctranslate2.Engine:
        """The engine, which is opened when it is first needed, by one thread."""
        with self._opening:
            if self._opened is None:
                self._opened = ctranslate2.engine(
                    self.run, self._weights.loaded(), self._quantization, shortlist=self._shortlist
                )
                self.notes += self._opened.notes
        return self._opened

    def search(self, kind: str | None = None, **options: Any) -> Part:
        """The recipe's search, or another; `options` are keys of that search's section."""
        return wanted(self.run.recipe, kind, options)

    def finder(self, search: Part, *, prefixes: bool = False, details: bool = True) -> Any:
        """CTranslate2's search, if that is the engine for it; None for our own."""
        # What is watched or changed inside the model, another engine would neither show nor do.
        if self._engine == "torch" or watched():
            return None
        asked = (search, self._weights.device)
        if self._engine == "auto":
            if self._choose(*asked, prefixes=prefixes) == "torch":
                return None
        elif reason := self._obstacle(*asked, prefixes=prefixes):
            raise UserError(f"engine ctranslate2: {reason}; the torch engine can do it")
        return partial(self._open().find, log_probs=details)

    def predict(self, inputs: Sequence[Any], **options: Any) -> list[str]:
        """One text for each input, a text or a dialogue, in order. Options: as `predictions`."""
        return [p.text for p in self.predictions(inputs, details=False, **options)]

    def predictions(
        self,
        inputs: Sequence[Any],
        *,
        search: str | None = None,
        batch: int = 64,
        prefixes: Sequence[str] | None = None,
        details: bool = True,
        align: bool = False,
        length: int | None = None,
        stop: Sequence[str] = (),
        split: bool = False,
        top: int | None = None,
        first: int = 0,
        **options: Any,
    ) -> Iterator[Prediction]:
        """One Prediction for each input, in order.

        `prefixes` are what outputs must begin with, `length` is the most tokens of an output,
        `stop` are strings before the first of which it ends,
        `details` asks for the probability of each token, which an engine may have to find in a
        pass of its own, `align` for alignments where the task has any, `split` parts punctuation
        from words that are tagged, `top` is how many words are given for each [MASK]; `first` is
        the number of the first input, by which samples are drawn; other options are the search's.
        """
        if isinstance(inputs, str):
            raise UserError("predict takes a list of texts, not one text")
        check("batch", batch, Count)
        inputs = self.as_texts(inputs)
        check_texts("prefixes", prefixes or ())
        if length is not None:
            check("length", length, Length)
        if prefixes is not None and len(prefixes) != len(inputs):
            raise UserError(f"{len(inputs)} inputs, but {len(prefixes)} prefixes")
        known = self.task.predict_options
        check_texts("stop", stop := [stop] if isinstance(stop, str) else [*stop])
        asked = {"prefixes": prefixes, "length": length, "split": split or None, "top": top}
        asked["stop"] = stop or None
        given = {name: value for name, value in asked.items() if value is not None}
        for name in given:
            if name not in known:
                raise UserError(f"the task {self.run.recipe.kind} takes no {name}")
        if align and "align_tokens" in known:
            given["align_tokens"] = True
        chosen = fuse(self.task, self.search(search, **options), self._weights.device)
        if "finder" in known:
            forced = prefixes is not None and any(prefixes)
            given["finder"] = self.finder(chosen, prefixes=forced, details=details)
        elsewhere = given.get("finder") and not given.get("align_tokens")
        model = self.outline if elsewhere else self.model
        return self.task.predict(model, inputs, chosen, batch=batch, first=first, **given)

    def stream(
        self, inputs: Iterable[str], *, prefix: str | None = None, **options: Any
    ) -> Iterator[Prediction]:
        """As `predictions`, for inputs that come one after the other and may be very many.

        With batches of one, each is answered before the next is read.
        """
        source, first = iter(inputs), 0
        size = CHUNK if options.get("batch") != 1 else 1
        while chunk := list(islice(source, size)):
            prefixes = None if prefix is None else [prefix] * len(chunk)
            yield from self.predictions(chunk, prefixes=prefixes, first=first, **options)
            first += len(chunk)

    def evaluate(
        self,
        part: str = "test",
        *,
        search: str | None = None,
        batch: int = 64,
        samples: int = 0,
        **options: Any,
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Scores on a part of the recipe's data, with signatures, and the predictions.

        With `samples`, a task gives bootstrap intervals, if it does so itself.
        """
        check("batch", batch, Count)
        chosen = fuse(self.task, self.search(search, **options), self._weights.device)
        given: dict[str, Any] = {"batch": batch}
        if samples and "samples" in self.task.evaluate_options:
            given["samples"] = samples
        if "finder" in self.task.evaluate_options:
            given["finder"] = self.finder(chosen, details=False)
        return self.task.evaluate(self.model, part, chosen, **given)

    def check_comparable(self, other: "Predictor") -> None:
        """Refuse runs whose outputs are no texts, or of different tasks."""
        if not isinstance(self.task, Grades) or len(self.sides) != 2 or other.sides != self.sides:
            raise UserError(
                f"{self.run.folder} ({self.run.recipe.kind}) and {other.run.folder} "
                f"({other.run.recipe.kind}) do not both write outputs that can be compared"
            )

    @property
    def sides(self) -> tuple[str, ...]:
        """Names of the texts that an example has: ("source", "target"), or ("target",) alone."""
        return tuple(self.task.fields)

    def score(self, *texts: Sequence[Any]) -> list[dict[str, Any]]:
        """log-probability and perplexity of each output, None where it has nothing to score (a
        sentence without a known tag); `texts` has a list for each side."""
        if len(texts) != len(self.sides):
            raise UserError(f"score takes a list for each of {', '.join(self.sides)}")
        if len(set(map(len, texts))) > 1:
            counts = (f"{len(t)} {s}s" for t, s in zip(texts, self.sides, strict=True))
            raise UserError(", but ".join(counts))
        if self.template is not None:
            texts = (self.as_texts(texts[0]), *texts[1:])
        for side, each in zip(self.sides, texts, strict=True):
            check_texts(side, each)
        return list(self.task.score(self.model, *texts))


def answers(task: Task, part: str) -> Any:
    """A part's inputs and what is right for each: all of it, where there may be several."""
    return task.alternatives(part) if isinstance(task, Grades) else task.references(part)


def load(run: str | Path, *, data: Sequence[str | Path] = (), **options: Any) -> Predictor:
    """Open a run for use, with `data` as its test part; options are those of Predictor."""
    return Predictor(Run(Path(run)).tested_on(data), **options)


def train(
    recipe: str | Path | dict[str, Any] | None = None,
    *overrides: str,
    to: str | Path | None = None,
    resume: str | Path | None = None,
    start_from: str | Path | None = None,
    callback: Callable[[dict[str, Any]], None] | None = None,
) -> Predictor:
    """Train a recipe (a file, a shipped one's name, or a table), or go on with the run `resume`,
    and open the result.

    `callback` gets each record as it is written: training and validation figures, warnings.
    Ctrl-C saves, and raises KeyboardInterrupt, so that nobody goes on with half a model unawares.
    """
    if recipe is not None and resume is None:
        made = prepared(recipe, overrides, to, start_from)
        said = [] if to else state.check_rerun(recipe, overrides)
        run, warnings = create(*made)
        warnings = [*said, *warnings]
    elif resume is not None and recipe is None and to is None and start_from is None:
        run, warnings = resumed(Path(resume))
    else:
        raise RecipeError("train: give either a recipe, or a run to resume as it is")
    callbacks = [callback] if callback else []
    for record in warnings:
        tell(callbacks, record)
    if not train_run(run, callbacks).finished:
        raise KeyboardInterrupt(
            f"stopped and saved; to go on: regard.train(resume={str(run.folder)!r})"
        )
    return Predictor(run)


def prepared(
    recipe: str | Path | dict[str, Any],
    overrides: Sequence[str],
    to: str | Path | None,
    start_from: str | Path | None = None,
) -> tuple[Path, config.Recipe]:
    """The folder and the checked recipe of a new run, which may begin with what `start_from` is."""
    if start_from:
        Run(Path(start_from))  # said by its own name if it is none
        overrides = [*overrides, f"model.weights={json.dumps(str(start_from))}"]
    if isinstance(recipe, dict):
        loaded = config.from_table(recipe, overrides)
    else:
        loaded = config.load(Path(recipe), overrides)
    if to and "\0" in str(to):
        raise UserError(f"to: {str(to)!r} is no path")
    return Path(to) if to else free_folder(state.name_of(recipe)), loaded


def create(
    folder: Path, recipe: config.Recipe, helpers: Helpers | None = None
) -> tuple[Run, list[dict[str, Any]]]:
    """A new run, once the doctor has checked its data quickly; the warnings, as records, and what
    was found when all of it was read. `helpers` are as those of `Run.create`."""
    warnings, said = list[Finding](), list[str]()

    def check(plan: Any, raw: Mapping[str, Raw]) -> Iterator[dict[str, Any]]:
        found = examination.quick_check(recipe, plan, raw)
        warnings.extend(examination.passed(found))
        return (each.as_dict() for each in warnings)

    try:
        run = Run.create(folder, recipe, check, said.append, helpers)
    except examination.Refused:
        raise
    except UserError:
        # What stopped it may be one of many defects: the doctor reads on where a run does not.
        examination.passed(examination.quick_check(recipe))
        raise
    warnings += examination.room(run)
    texts = [*said, *map(str, warnings), *run.notes()]
    return run, [{"kind": "warning", "text": text} for text in texts]


def resumed(folder: Path) -> tuple[Run, list[dict[str, Any]]]:
    """A run to go on with; one that was never finished being made is finished first."""
    made = not preparing.is_interrupted(folder)
    return (Run(folder), []) if made else create(folder, preparing.recipe_of(folder))


def doctor(
    recipe: str | Path | dict[str, Any] | None = None,
    *overrides: str,
    to: str | Path | None = None,
    resume: str | Path | None = None,
    start_from: str | Path | None = None,
) -> list[Finding]:
    """What is wrong with a recipe's data, and what its training would cost; the worst first.

    The arguments are those of `train`: what is said is said of that training.
    """
    if (recipe is None) == (resume is None):
        raise RecipeError("doctor: give either a recipe, or a run to resume")
    if recipe is None:
        assert resume is not None
        return examination.resumable(Run(Path(resume)))
    folder, loaded = prepared(recipe, overrides, to, start_from)
    return examination.examine(loaded, folder)
