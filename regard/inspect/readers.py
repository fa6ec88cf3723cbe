"""How a run of each task reads an input that it is to be looked into with."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.data import texts, words
from regard.data.files import called
from regard.data.tags import UNKNOWN as NO_TAG
from regard.data.tokenizers import END, PAD, START, UNKNOWN, Tokenizer
from regard.data.windows import collate as windows, normaliser
from regard.decoding import continuation as continuations
from regard.errors import UserError
from regard.inspect.beam import Tree, recorded, tree
from regard.inspect.reading import Measure, Reading, grouped, likely, logits
from regard.model import Model
from regard.recipe.parts import Part, module
from regard.runs import Run
from regard.search import Hypothesis, Request
from regard.tasks import Task, positions, translate
from regard.types import Batch, DecoderState

LENGTH = 20
"""Tokens that a language model goes on for, if nobody says how many."""
Reader = Callable[[Any, Model, str, Part, str | None, int], Reading]


def read(
    run: Run,
    task: Task,
    model: Model,
    text: str,
    search: Part,
    *,
    target: str | None = None,
    length: int = LENGTH,
) -> Reading:
    """Let the model say something about a text, or take `target` for what it says."""
    if run.recipe.kind not in READERS:
        raise UserError(f"{run.folder}: inspect cannot read for the task {run.recipe.kind}")
    if not text.strip() and run.recipe.kind != "language_model":  # which may begin from nothing
        raise UserError("inspect: the text is empty")
    return READERS[run.recipe.kind](task, model, text, search, target, length)


def translation(
    task: Any, model: Model, text: str, search: Part, target: str | None, length: int
) -> Reading:
    source = task.source.encode([text])[0][: task.config.data.max_length]
    request = task.request(model, [source], [[]], [0])
    empty = translate.collate([source], [[]], [0]).to(model.device)
    beam = None
    if target is None:
        with torch.inference_mode():
            state = model.start(empty)
        best, beam = _found(model, state, request, search, task.target)
        symbols, ended = list(best.tokens), best.finished
    else:
        symbols, ended = task.target.encode([target])[0], True
    said = [*symbols, END] if ended else symbols
    batch = translate.collate([source], [symbols], [0]).to(model.device)
    return Reading(
        text=text,
        output=task.target.decode(symbols),
        batch=_cut(batch, len(said)),
        source=task.source.pieces([*source, END]),
        read=task.target.pieces([START, *said[:-1]]),
        said=task.target.pieces(said),
        symbols=said,
        name=task.target.pieces,
        measure=likely,
        given=0 if target is None else len(said),
        source_words=grouped(task.source, [*source, END]),
        said_words=grouped(task.target, said),
        beam=beam,
    )


def continuation(
    task: Any, model: Model, text: str, search: Part, target: str | None, length: int
) -> Reading:
    """The text is given, what follows is the model's; both are read alike."""
    prompt = _lines(task.target, text)
    beam = None
    if target is None:
        request = Request(
            start=(prompt or [task.before])[-1],
            end=PAD if task.running else END,
            caps=[max(1, min(length, positions(model.decoder) - len(prompt)))],
            forbidden=(PAD, START, UNKNOWN),
            numbers=(0,),
            device=model.device,
        )
        with torch.inference_mode():
            state = continuations.read(model, [[task.before, *prompt]])
        best, beam = _found(model, state, request, search, task.target)
        said = [*prompt, *best.tokens, *([END] if best.finished else [])]
    else:
        said = _lines(task.target, text + target)
    if not said:
        raise UserError("inspect: there is nothing to read")
    return Reading(
        text=text,
        output=task.target.decode([s for s in said[len(prompt) :] if s != END]),
        batch=texts.collate([said], task.before, [0]).to(model.device),
        source=[],
        read=task.target.pieces([task.before, *said[:-1]]),
        said=task.target.pieces(said),
        symbols=said,
        name=task.target.pieces,
        measure=likely,
        given=len(prompt) if target is None else len(said),
        said_words=grouped(task.target, said),
        beam=beam,
    )


def labels(
    task: Any, model: Model, text: str, search: Part, target: str | None, length: int
) -> Reading:
    """One label, or those of several that are likelier than not (the likeliest, if none is)."""
    row = task.lexicon.texts([text])[0].part(0, task.config.data.max_length)
    symbols = [START, *(int(symbol) for symbol in row.symbols), END]
    tensors = words.collate([row], start=[START], end=[END])
    batch = Batch(tensors=tensors, ids=(0,), targets=1).to(model.device)
    names = task.labels.names
    separator = task.config.labels.separator
    if target is None:
        with torch.inference_mode():
            scores = logits(model, batch)[0]
        best = (scores > 0).nonzero().flatten().tolist() if task.several else []
        chosen = best or [int(scores.argmax())]
    else:
        given = target.split(separator) if task.several else [target]
        chosen = [task.labels.number(name.strip(), "inspect") for name in given]

    def measure(scores: Float[Tensor, "B C"]) -> Float[Tensor, "B T C"]:
        scores = scores.float()[:, None].expand(-1, len(chosen), -1)
        return F.logsigmoid(scores) if task.several else scores.log_softmax(-1)

    return Reading(
        text=text,
        output=separator.join(names[n] for n in chosen),
        batch=batch,
        source=task.source.pieces(symbols),
        said=[names[n] for n in chosen],
        symbols=chosen,
        name=lambda numbers: [names[n] for n in numbers],
        measure=measure,
        given=0 if target is None else len(chosen),
        source_words=grouped(task.source, symbols),
        said_words=[(n, n + 1) for n in range(len(chosen))],
    )


def tags(
    task: Any, model: Model, text: str, search: Part, target: str | None, length: int
) -> Reading:
    """A tag, or a number, for each word; of a text that is too long, for its first words."""
    all_words = task.cut(text)
    row = task.lexicon.sentences([all_words])[0].windows(task.config.data.max_length)[0]
    spoken = all_words[: len(row.pieces)]
    batch = Batch(tensors=words.collate([row]), ids=(0,), targets=len(spoken)).to(model.device)
    first = batch["source_first"][0]
    head: Any = model.head

    def measure(scores: Float[Tensor, "B S C"]) -> Float[Tensor, "B T C"]:
        scores = scores.float()[:, first]
        if task.real:
            return scores * float(task.tags.deviation) + float(task.tags.mean)
        if head.crf is None:
            return scores.log_softmax(-1)
        # With a field: of each tag by itself, whatever the others are.
        real = torch.ones_like(scores[..., 0], dtype=torch.bool)
        chances: Tensor = head.crf.marginals(scores, real)
        return chances.clamp(min=1e-30).log()

    with torch.inference_mode():
        memory = model.encode(batch)
        assert memory is not None
        values = head.best(memory.states[:, first], batch["source_word_mask"])[0][0].tolist()
    if target is not None:
        given = _same(target.split(), spoken)
        numbers = task.tags.targets([task.tags.stored(given, "inspect")])[0].tolist()
        found = zip(given, values, numbers, strict=True)
        # Where a tag is not known, what the model says is looked at.
        values = [said if tag == NO_TAG else number for tag, said, number in found]
    said = task.tags.texts(values)
    pieces = np.cumsum([0, *row.pieces]).tolist()
    return Reading(
        text=text,
        output=" ".join(said),
        batch=batch,
        source=task.source.pieces([int(symbol) for symbol in row.symbols]),
        said=said,
        of=spoken,
        symbols=[0 if task.real else max(0, int(value)) for value in values],
        name=lambda numbers: ["value"] if task.real else task.tags.texts(numbers),
        measure=measure,
        given=0 if target is None else len(said),
        source_words=list(pairwise(pieces)),
        said_words=[(n, n + 1) for n in range(len(said))],
        numbers=[{"name": "value", "mean": [float(s) for s in said]}] if task.real else None,
    )


def _same(given: list[str], spoken: list[str]) -> list[str]:
    if len(given) < len(spoken):
        raise UserError(f"inspect: {len(spoken)} words, but {len(given)} tags")
    return given[: len(spoken)]


def forecast(
    task: Any, model: Model, text: str, search: Part, target: str | None, length: int
) -> Reading:
    """What follows a series (CSV), and a target, if given, is what came.

    Where each variable is a series of its own, it is the last one that is looked at.
    """
    came, label = None, called(text, "input 1")
    if target is None:
        found = task.parse(text, label, timed=False)
    else:
        found, then = task.both(text, target, (label, called(target, "target")))
        came = then.values
    window, names = task.window, list(found.names)
    known = task.last(found, label)
    past = torch.from_numpy(task.standard.apply(known, label))[None].to(model.device)
    batch = windows(past, None, window, [0])
    with torch.inference_mode():
        normal = task.forecast(model, past, window.horizon, task.config.intervals.paths)
    mean, low, high = task.ends(*(values[0].cpu() for values in normal))
    panels = [
        {
            "name": name,
            "past": known[-3 * window.horizon :, n].tolist(),
            "mean": mean[:, n].tolist(),
            "low": low[:, n].tolist(),
            "high": high[:, n].tolist(),
        }
        | ({} if came is None else {"came": came[: window.horizon, n].tolist()})
        for n, name in enumerate(names)
    ]
    seen = 1 if window.independent else len(names)
    if window.independent:
        tensors = {name: tensor[-1:] for name, tensor in batch.tensors.items()}
        batch = Batch(tensors=tensors, ids=(0,), targets=0)
    normalised = [
        x[..., -1:] if window.independent else x for x in normaliser(past, window.normalise)
    ]
    return Reading(
        text=f"{window.look_back} steps of {', '.join(names)}",
        output=f"{names[-1]}: {', '.join(f'{value:.4g}' for value in mean[:5, -1])} …",
        batch=batch,
        source=_steps(model, window.look_back),
        said=[f"+{step + 1}" for step in range(window.steps)],
        symbols=[seen - 1] * window.steps,
        name=lambda numbers: names[-seen:],
        measure=_means(task, seen, *normalised),
        said_words=[(n, n + 1) for n in range(window.steps)],
        numbers=panels,
    )


def _means(task: Any, seen: int, centre: Tensor, scale: Tensor) -> Measure:
    """Expected values of the next block, in the unit of the file."""
    standard = [
        torch.tensor(x[-seen:]).float() for x in (task.standard.mean, task.standard.deviation)
    ]

    def measure(scores: Float[Tensor, "B O"]) -> Float[Tensor, "B T C"]:
        steps: int = task.window.steps
        mean = scores.float()[:, : steps * seen].view(-1, steps, seen) * scale + centre
        offset, deviation = (x.to(mean.device) for x in standard)
        return mean * deviation + offset

    return measure


def _steps(model: Model, length: int) -> list[str]:
    """The steps that each position of the input holds; the last one known is 0."""
    reads: Any = model.input
    patch, stride = reads.config.patch, reads.stride
    count = reads.config.positions(length)
    lasts = [(n + 1 - count) * stride for n in range(count)]
    return [str(last) if patch == 1 else f"{last - patch + 1} … {last}" for last in lasts]


READERS: dict[str, Reader] = {
    "translate": translation,
    "language_model": continuation,
    "classify": labels,
    "tag": tags,
    "forecast": forecast,
}
"""One for each task."""


def _found(
    model: Model, state: DecoderState, request: Request, search: Part, by: Tokenizer
) -> tuple[Hypothesis, Tree | None]:
    """The best hypothesis and, of a beam search, all that were considered."""
    with torch.inference_mode(), recorded() as steps:
        found = module("search", search.kind).search(model.step, state, request, search.config)
    beam = tree(steps, request, search.config, by.pieces) if search.kind == "beam" else None
    return found[0][0], beam


def _lines(by: Tokenizer, text: str) -> list[int]:
    """The end of a line is a token of its own; there is none after the last."""
    rows = by.encode(text.split("\n"))
    return [symbol for row in rows for symbol in (*row, END)][:-1]


def _cut(batch: Batch, length: int) -> Batch:
    """Without the end that a hypothesis stopped at its cap does not have."""
    tensors = {
        name: t[:, :length] if name.startswith("target") else t for name, t in batch.tensors.items()
    }
    return Batch(tensors=tensors, ids=batch.ids, targets=length)
