"""CTranslate2: a fast engine on a processor, straight from our own weights.

The definitions of greedy and beam search are those of `regard.search`.
"""

import hashlib
import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import expm1, isfinite, log
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch

from regard.data.tokenizers import Tokenizer
from regard.decoders import transformer as decoder
from regard.encoders import transformer as encoder
from regard.errors import UserError
from regard.heads import vocabulary
from regard.inputs import tokens
from regard.interop import Quantization, kept, nearness, shortlist as shortlists
from regard.interop.conversion import (
    ACTIVATIONS,
    FORBIDDEN,
    lengths,
    library,
    missing,
    names,
    save,
    specification,
    unlike,
)
from regard.interop.kept import remove, whole
from regard.model import Model
from regard.recipe.config import Recipe
from regard.recipe.parts import Part, module
from regard.runs.run import Loaded, Run
from regard.search import Hypothesis, Request, beam, greedy, impossible
from regard.tasks.translate import SIDES, Task
from regard.train.device import cores
from regard.train.manifest import Files
from regard.types import Sizes

FORMAT = 2
TOLERANCE = 1e-3
"""How far a log-probability in float32 may be from the original's."""


# What it can do


def supports(recipe: Recipe) -> str | None:
    """Why a recipe's model cannot run in CTranslate2; None if it can."""
    if "finder" not in module("tasks", recipe.kind).Task.predict_options:
        return f"the task is {recipe.kind!r}; only 'translate' runs in CTranslate2"
    if recipe.task.tokenizer.kind == "huggingface":
        return "its tokenizer was imported; such a model runs in torch"
    parts = recipe.model.parts()
    known_parts = {"input": tokens, "encoder": encoder, "decoder": decoder, "head": vocabulary}
    for name, known in known_parts.items():
        part: Part = parts[name]
        if module(f"{name}s", part.kind) is not known:
            wanted = known.__name__.rpartition(".")[2]
            return f"model.{name} is of kind {part.kind!r}; only {wanted!r} runs in CTranslate2"
    for name, length in zip(("encoder", "decoder"), lengths(recipe), strict=True):
        config = parts[name].config
        if config.activation not in ACTIVATIONS:
            return f"model.{name}.activation: CTranslate2 has no {config.activation!r}"
        if key := unlike(config):
            return f"model.{name}.{key}: only the default runs in CTranslate2"
        if config.position in ("learned", "one_hot") and config.limit < length:
            return (
                f"model.{name}.limit: {config.limit} positions are fewer than the {length} "
                "that data.max_length and output allow"
            )
    return None


def unfit(recipe: Recipe, device: str = "cpu") -> str | None:
    """Why no search over this recipe's model is for CTranslate2; None if some are."""
    if torch.device(device).type != "cpu":
        return f"the model is on {device}"
    return supports(recipe)


def obstacle(
    recipe: Recipe, sizes: Sizes, search: Part, device: str = "cpu", *, prefixes: bool = False
) -> str | None:
    """Why this search over this recipe's model is for torch; None if CTranslate2 does the same."""
    if reason := unfit(recipe, device):
        return reason
    if prefixes:
        return "CTranslate2 takes a forced prefix as certain, regard as probable as it is"
    if search.kind not in ("greedy", "beam"):
        return f"{search.kind!r} search is not what CTranslate2 does"
    beams, enough = _beams(search)
    if beams == 1 and enough > 1:
        return "CTranslate2 has no patience with a single beam"
    if search.kind == "beam" and search.config.nbest > 1 and not search.config.length_penalty:
        return "without length penalty CTranslate2 gives n results before the n best are found"
    if beams >= (tokens := sizes.of(sizes.writes)["outputs"]) - len(FORBIDDEN):
        return f"{beams} beams are too many for {tokens} tokens"
    return None


def choose(
    recipe: Recipe, sizes: Sizes, search: Part, device: str = "cpu", *, prefixes: bool = False
) -> Literal["torch", "ctranslate2"]:
    """What `auto` stands for: CTranslate2 where it is installed and does the same."""
    reason = obstacle(recipe, sizes, search, device, prefixes=prefixes) or missing()
    return "ctranslate2" if reason is None else "torch"


def _beams(search: Part) -> tuple[int, int]:
    """How many hypotheses are followed, and how many are enough."""
    return (search.config.beams, search.config.enough) if search.kind == "beam" else (1, 1)


# From our weights


def convert(
    model: Model, recipe: Recipe, folder: Path, quantization: Quantization = "float32"
) -> None:
    """Write the model into `folder`, which is there, as CTranslate2 reads it.

    First in float32, to compare it with the original; then as it is to be.
    """
    if reason := supports(recipe):
        raise UserError(f"not a model for CTranslate2: {reason}")
    save(model, recipe, folder, "float32")
    off = _difference(model, recipe, Engine(folder, workers=1))
    if not off <= TOLERANCE:
        raise UserError(
            f"the converted model is not the original: log-probabilities differ by {off:.2g}. "
            "The torch engine is not concerned"
        )
    if quantization != "float32":
        save(model, recipe, folder, quantization)


def _difference(model: Model, recipe: Recipe, engine: "Engine") -> float:
    """max |log p − log p′| over random pairs."""
    parts: Any = model
    chance = np.random.default_rng(1)
    sizes = (len(parts.input.embedding.weight), len(parts.head.weight))
    sources, targets = (
        [
            chance.integers(Tokenizer.unknown + 1, size, min(n, most - 1)).tolist()
            for n in (1, 3, 7, 13)
        ]
        for size, most in zip(sizes, lengths(recipe), strict=True)
    )
    ours = [*chain(*nearness.forced(model, sources, targets))]
    theirs = [*chain(*engine.score(sources, targets))]
    return float(np.abs(np.subtract(ours, theirs)).max())


# Finding outputs


class Engine:
    """A converted model at work. `find` is a `Finder`: it takes the place of our own search.

    `workers` batches of up to `batch` sentences are in work side by side, each on `threads`
    threads. One thread each, and a worker for each core, is the fastest unless there is but one
    batch. With a `shortlist`, search has only the tokens that the folder's list allows a batch.
    """

    def __init__(
        self,
        folder: Path,
        *,
        workers: int | None = None,
        threads: int = 1,
        batch: int = 16,
        shortlist: bool = False,
    ) -> None:
        self._batch, self._shortlist = batch, shortlist
        self.notes: list[str] = []
        """What the user should know of it."""
        try:
            with _quiet():
                self._translator = library().Translator(
                    str(folder),
                    inter_threads=workers or max(1, cores() // threads),
                    intra_threads=threads,
                    max_queued_batches=-1,
                )
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{folder}: {error}") from None

    @property
    def computed(self) -> str:
        """The numbers that it computes with: others than it was written in, where the processor
        has none of those."""
        return str(self._translator.compute_type)

    def find(
        self,
        sources: list[list[int]],
        request: Request,
        search: Part,
        *,
        log_probs: bool = True,
    ) -> list[list[Hypothesis]]:
        """Each sentence's hypotheses, best first, as `regard.search` defines them.

        Without `log_probs`, which take a pass of their own, those of each hypothesis are empty.
        """
        asked = (request.start, request.end, request.forbidden)
        if asked != (Tokenizer.start, Tokenizer.end, FORBIDDEN):
            raise ValueError("the model was converted for other start, end or forbidden tokens")
        if any(request.forced):
            raise UserError("CTranslate2 cannot be given prefixes: use the torch engine")
        chosen = options(search)
        minimum = chosen.pop("min_decoding_length")
        caps = [int(cap) for cap in request.caps]
        # One call has one cap. The longest come first, so that no worker is left with them alone.
        waiting: list[tuple[int, Any]] = []
        for cap in sorted({cap for cap in caps if cap > 0}, reverse=True):
            group = [n for n, own in enumerate(caps) if own == cap and sources[n]]
            results = self._translator.translate_batch(
                [names([*sources[n], Tokenizer.end]) for n in group],
                max_decoding_length=cap,
                min_decoding_length=min(minimum, cap),
                max_batch_size=self._batch,
                use_vmap=self._shortlist,
                asynchronous=True,
                **chosen,
            )
            waiting += zip(group, results, strict=True)
        # Where there is nothing to read or to write, CTranslate2 does not ask the model.
        found = [[Hypothesis((), 0.0, (), not source)] for source in sources]
        for n, result in waiting:
            found[n] = _hypotheses(result.result())
        return self._with_log_probs(sources, found, minimum) if log_probs else found

    def _with_log_probs(
        self, sources: list[list[int]], found: list[list[Hypothesis]], minimum: int
    ) -> list[list[Hypothesis]]:
        flat = [(source, h) for source, best in zip(sources, found, strict=True) for h in best]
        values = self.score([source for source, _ in flat], [h.tokens for _, h in flat])
        # Before the minimum the end takes no probability, but the model gives it some.
        early = [(n, t) for n, (_, h) in enumerate(flat) for t in range(len(h.tokens[:minimum]))]
        ends = self.score([flat[n][0] for n, _ in early], [flat[n][1].tokens[:t] for n, t in early])
        for (n, t), chances in zip(early, ends, strict=True):
            values[n][t] -= log(max(-expm1(chances[-1]), 1e-7))
        rows = iter(values)
        return [
            [h._replace(log_probs=tuple(next(rows)[: len(h.tokens) + h.finished])) for h in best]
            for best in found
        ]

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """log p of each target's tokens and of its end; forbidden ones have none."""
        results = self._translator.score_batch(
            [names([*source, Tokenizer.end]) for source in sources],
            [names(target) for target in targets],
            max_input_length=0,
            max_batch_size=self._batch,
            asynchronous=True,
        )
        return [result.result().log_probs for result in results]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without CTranslate2's own remark on numbers that the processor lacks: we say it."""
    level = library().get_log_level()
    library().set_log_level(max(level, logging.ERROR))
    try:
        yield
    finally:
        library().set_log_level(level)


def options(search: Part) -> dict[str, Any]:
    """A search as options of translate_batch. Scores count the end only where it is returned."""
    beams, _ = _beams(search)
    config = search.config
    several = search.kind == "beam"
    return {
        "beam_size": beams,
        "num_hypotheses": config.nbest if several else 1,
        "length_penalty": config.length_penalty if several else 0.0,
        "patience": config.patience if several else 1.0,
        "min_decoding_length": config.min_length,
        "max_input_length": 0,
        "return_end_token": True,
        "return_scores": True,
    }


def _hypotheses(result: Any) -> list[Hypothesis]:
    found = []
    for written, score in zip(result.hypotheses, result.scores, strict=True):
        symbols = tuple(map(int, written))
        finished = symbols[-1] == Tokenizer.end
        if not isfinite(score):
            raise impossible()
        found.append(Hypothesis(symbols[: len(symbols) - finished], score, (), finished))
    return found


def engine(
    run: Run,
    checkpoint: str | Loaded = "final",
    quantization: Quantization = "float32",
    *,
    shortlist: bool = False,
    **threads: Any,
) -> Engine:
    """The engine of a run, or of a model that was loaded from it. The model is converted once, and
    kept in the run's folder `engines`; how near it is to the original is measured once for each
    kind of processor. What is kept there, but is not what these weights give, is made again."""
    loaded = run.loaded(checkpoint) if isinstance(checkpoint, str) else checkpoint
    text = tuple(f"store/train.{side}." for side in SIDES)  # that a shortlist is learnt from
    learnt_from: Files = {
        name: entry for name, entry in run.files.items() if shortlist and name.startswith(text)
    }

    def write(folder: Path) -> None:
        convert(loaded.model, run.recipe, folder, quantization)
        if shortlist:
            shortlists.add(run, folder)
        kept.seal(folder, learnt_from)

    def opened(folder: Path) -> Engine:
        made = Engine(folder, shortlist=shortlist, **threads)
        made.notes += notes
        if quantization != "float32" or shortlist:
            what = f"{quantization} with a shortlist" if shortlist else quantization
            said = _nearness(run, loaded.model, made, folder, quantization)
            made.notes += [f"{what}: {text}" for text in said]
        return made

    kind = f"{quantization}-shortlist" if shortlist else quantization
    name = f"ctranslate2-{kind}-{_identity(loaded.sha256, run.recipe)}"
    folder, notes = run.folder / "engines" / name, list[str]()
    if folder.is_dir() and any(folder.iterdir()):
        wanted = specification(loaded.model, run.recipe, quantization)
        if fault := kept.fault(folder, wanted, learnt_from, short=shortlist):
            notes += [f"{folder}: {fault}: the engine is made again"]
        else:
            return opened(folder)
    try:
        with whole(folder) as writing:
            write(writing)
            if notes:
                remove(folder)
    except OSError:  # no room, or no right to write: make do without keeping it
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as elsewhere:
            write(Path(elsewhere))
            return opened(Path(elsewhere))
    return opened(folder)


def _nearness(
    run: Run, original: Model, made: Engine, folder: Path, quantization: Quantization
) -> list[str]:
    """What is to be said of an engine: how near it is once, and always what is not as it should."""
    found = nearness.kept(folder)
    known = found is not None
    if found is None:
        task = cast(Task, run.task)
        found = nearness.measure(task, original, made, comparable(run.recipe, task.sizes))
        nearness.keep(found, folder)
    instead = found.instead(quantization)
    return ([instead] if instead else []) + ([] if known and not found.far else [str(found)])


def comparable(recipe: Recipe, sizes: Sizes) -> Part:
    """The recipe's search, or where CTranslate2 does not do it, one that it does."""
    others = (Part("beam", beam.Config()), Part("greedy", greedy.Config()))
    able = (p for p in (recipe.task.search, *others) if obstacle(recipe, sizes, p) is None)
    return next(able, others[-1])


def _identity(weights: str, recipe: Recipe) -> str:
    """Changes with the weights, whose hash is given, with what else is converted, and with how."""
    binary = library().specs.model_spec.CURRENT_BINARY_VERSION
    basis = [FORMAT, binary, weights, lengths(recipe)]
    return hashlib.sha256(json.dumps(basis).encode()).hexdigest()[:16]
