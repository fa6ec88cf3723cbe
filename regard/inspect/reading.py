"""One text as a model reads it, and what the model makes of it: the same for every task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data import texts, words
from regard.data.tokenizers import END, PAD, START, UNKNOWN, Tokenizer
from regard.errors import UserError
from regard.inspect.beam import Tree, recorded, tree
from regard.model import Model
from regard.parts import Part, module
from regard.runs import Run
from regard.search import Hypothesis, Request
from regard.tasks import Task, translate
from regard.types import Batch

LENGTH = 20
"""Symbols that a language model goes on for, if nobody says how many."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A batch of one, with the names of all that is in it."""

    text: str
    output: str
    """What was said: a text or a label."""
    batch: Batch
    source: list[str]
    """Symbols that the encoder reads."""
    read: list[str]
    """Symbols that the decoder reads: at each place it is to say the one of `said`."""
    said: list[str]
    symbols: list[int]
    """Numbers of `said`: symbols of the vocabulary, or a label."""
    given: int = 0
    """How many of `said` are the user's own and not the model's."""
    source_words: list[tuple[int, int]]
    """Which symbols of `source` make a word: from, up to."""
    said_words: list[tuple[int, int]]
    beam: Tree | None = None


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
    match run.recipe.kind:
        case "translate":
            return _translation(task, model, text, search, target)
        case "language_model":
            return _continuation(task, model, text, search, target, length)
        case "classify":
            return _label(task, model, text, target)
    raise UserError(
        f"{run.folder}: inspect reads runs of translate, language_model and classify, "
        f"not of {run.recipe.kind}"
    )


def logits(model: Model, batch: Batch) -> Float[Tensor, "_ C"]:
    """Of all that is said (T, V), the true beginning being given, or of the label (1, C)."""
    if model.decoder is not None:
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        return model.head.logits(hidden)[0]
    head: Any = model.head
    found: Tensor = head.logits(head.pool(model.encode(batch)))
    return found


def _translation(task: Any, model: Model, text: str, search: Part, target: str | None) -> Reading:
    source = task.source.encode([text])[0][: task.config.data.longest]
    if not source:
        raise UserError("inspect: the text is empty")
    output = task.config.output
    request = Request(
        start=START,
        end=END,
        caps=[int(output.factor * len(source)) + output.extra],
        forbidden=(PAD, START, UNKNOWN),
        numbers=(0,),
        device=model.device,
    )
    empty = translate.collate([source], [[]], [0]).to(model.device)
    beam = None
    if target is None:
        best, beam = _found(model, empty, request, search, task.target)
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
        given=0 if target is None else len(said),
        source_words=grouped(task.source, [*source, END]),
        said_words=grouped(task.target, said),
        beam=beam,
    )


def _continuation(
    task: Any, model: Model, text: str, search: Part, target: str | None, length: int
) -> Reading:
    """The text is given, what follows is the model's; both are read alike."""
    prompt = _lines(task.target, text)
    beam = None
    if target is None:
        request = Request(
            start=task.before,
            end=PAD if task.running else END,
            caps=[len(prompt) + length],
            prefixes=(tuple(prompt),) if prompt else None,
            forbidden=(PAD, START, UNKNOWN),
            numbers=(0,),
            device=model.device,
        )
        empty = texts.collate([[END]], task.before, [0]).to(model.device)
        best, beam = _found(model, empty, request, search, task.target)
        said = [*best.tokens, END] if best.finished else list(best.tokens)
    else:
        said = _lines(task.target, text + target)
    if not said:
        raise UserError("inspect: there is nothing to read")
    batch = texts.collate([said], task.before, [0]).to(model.device)
    given = len(prompt) if target is None else len(said)
    return Reading(
        text=text,
        output=task.target.decode([s for s in said[len(prompt) :] if s != END]),
        batch=batch,
        source=[],
        read=task.target.pieces([task.before, *said[:-1]]),
        said=task.target.pieces(said),
        symbols=said,
        given=given,
        source_words=[],
        said_words=grouped(task.target, said),
        beam=beam,
    )


def _label(task: Any, model: Model, text: str, target: str | None) -> Reading:
    row = task.lexicon.texts([text])[0].part(0, task.config.data.longest)
    symbols = [START, *(int(symbol) for symbol in row.symbols), END]
    batch = Batch(tensors=words.collate([row], start=[START], end=[END]), ids=(0,), targets=1).to(
        model.device
    )
    names = list(task.labels.names)
    if target is not None and target not in names:
        raise UserError(f"inspect: {target!r} is no label; there are {', '.join(names)}")
    with torch.inference_mode():
        best = int(logits(model, batch).argmax())
    label = best if target is None else names.index(target)
    return Reading(
        text=text,
        output=names[label],
        batch=batch,
        source=task.source.pieces(symbols),
        read=[],
        said=[names[label]],
        symbols=[label],
        given=0 if target is None else 1,
        source_words=grouped(task.source, symbols),
        said_words=[(0, 1)],
    )


def _found(
    model: Model, batch: Batch, request: Request, search: Part, by: Tokenizer
) -> tuple[Hypothesis, Tree | None]:
    """The best hypothesis and, of a beam search, all that were considered."""
    with torch.inference_mode(), recorded() as steps:
        found = module("search", search.kind).search(
            model.step, model.start(batch), request, search.config
        )
    beam = tree(steps, request, search.config, by.pieces) if search.kind == "beam" else None
    return found[0][0], beam


def _lines(by: Tokenizer, text: str) -> list[int]:
    """The end of a line is a symbol of its own; there is none after the last."""
    rows = by.encode(text.split("\n"))
    return [symbol for row in rows for symbol in (*row, END)][:-1]


def _cut(batch: Batch, length: int) -> Batch:
    """Without the end that a hypothesis stopped at its cap does not have."""
    tensors = {
        name: t[:, :length] if name.startswith("target") else t for name, t in batch.tensors.items()
    }
    return Batch(tensors=tensors, ids=batch.ids, targets=length)


def grouped(by: Tokenizer, symbols: Sequence[int]) -> list[tuple[int, int]]:
    """The words that the symbols spell: each begins after a blank, a special symbol is one."""
    starts: list[int] = []
    before = ""
    for place, symbol in enumerate(symbols):
        text = by.decode(symbols[: place + 1])
        new = text[len(before) :]
        alone = symbol <= END or (place > 0 and symbols[place - 1] <= END)
        if place == 0 or alone or new[:1].isspace():
            starts.append(place)
        before = text
    return list(zip(starts, [*starts[1:], len(symbols)], strict=True))
