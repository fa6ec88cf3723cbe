"""A trained model as a folder that CTranslate2 and tokenizers can use without regard."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, cast

from regard import __version__
from regard.errors import UserError
from regard.interop import Quantization
from regard.interop.conversion import missing, save
from regard.interop.cost import Cost, cost
from regard.interop.ctranslate2 import (
    FORMAT,
    TOLERANCE,
    Engine,
    comparable,
    convert,
    options,
    supports,
)
from regard.interop.kept import check_free, whole
from regard.interop.nearness import Nearness, measure
from regard.interop.running import PROGRAM, run_program, write_texts
from regard.interop.shipments import MOST, PROGRAMS, Quality
from regard.interop.shipments_of_text import save_both, texts_quality
from regard.interop.shortlist import add as add_shortlist
from regard.model import Model
from regard.recipe import checked
from regard.recipe.config import Recipe
from regard.recipe.parts import Part
from regard.runs import Run
from regard.tasks.translate import Task

MAX_INPUT = 1024
"""Tokens of a source that CTranslate2 reads, unless it is given another number."""


class Exported(NamedTuple):
    """What was written."""

    parity: Nearness
    cost: Cost | None
    """Of other numbers than float32; None where there is no validation part."""


def export(
    run: Run,
    folder: Path,
    quantization: Quantization = "float32",
    checkpoint: str = "final",
    *,
    shortlist: bool = False,
) -> Exported:
    """Write a folder that CTranslate2 and tokenizers can use alone; its README.md says how."""
    check_free(folder)
    recipe = run.recipe
    if reason := missing():
        raise UserError(f"export: {reason}")
    if reason := supports(recipe):
        raise UserError(f"{run.folder} cannot be exported to CTranslate2: {reason}")
    task, model = cast(Task, run.task), run.model(checkpoint)
    search = comparable(recipe, task.sizes)
    try:
        with whole(folder) as writing:
            convert(model, recipe, writing)
            price = None
            if quantization != "float32":
                price = _quantized(task, model, recipe, writing, quantization, search)
            longest = recipe.task.data.max_length
            save_both(task.source, task.target, longest, writing, ended=False)
            if shortlist:
                add_shortlist(run, writing)
            found = measure(task, model, Engine(writing, shortlist=shortlist), search)
            exact = quantization == "float32" and not shortlist
            if exact and not (found.difference <= TOLERANCE and found.score <= TOLERANCE):
                raise UserError(f"the exported model is not the original: {found}")
            card = {
                "format": FORMAT,
                "regard": __version__,
                "quantization": quantization,
                "parity": asdict(found),
                "cost": asdict(price) if price else None,
            }
            code = _program(recipe, search, shortlist=shortlist)
            readme = _readme(card, code, bound=bool(recipe.task.output.choices))
            write_texts(writing, {PROGRAM: code, "README.md": readme})
            write_texts(writing, {"regard.json": checked.written(card, indent=1)})
            run_program(writing, ["", "a"])
    except OSError as error:
        raise UserError(f"{folder} could not be written: {error.strerror or error}") from None
    return Exported(found, price)


def _quantized(
    task: Task,
    model: Model,
    recipe: Recipe,
    folder: Path,
    quantization: Quantization,
    search: Part,
) -> Cost | None:
    """Write other numbers over float32, and what that costs."""
    before, size = _quality(task, model, folder, search)
    save(model, recipe, folder, quantization)
    after, smaller = _quality(task, model, folder, search)
    return cost(before, after, (size, smaller), quantization)


def _quality(task: Task, model: Model, folder: Path, search: Part) -> tuple[Quality | None, float]:
    """The score of a folder's model on the validation part, and its size in megabytes."""
    size = (folder / "model.bin").stat().st_size / 1e6
    try:
        sources, answers = task.alternatives("validation")
    except (UserError, OSError):
        return None, size
    sources, answers = sources[:MOST], answers[:MOST]
    task.restrict(None)
    found = task.predict(model, sources, search, finder=Engine(folder).find)
    return texts_quality(task, [each.text for each in found], answers), size


def _program(recipe: Recipe, search: Part, *, shortlist: bool) -> str:
    """The program with the recipe's search and its longest outputs; what CTranslate2 does anyway is
    left out."""
    usual: dict[str, Any] = {"length_penalty": 1.0, "patience": 1.0, "use_vmap": False}
    chosen = options(search) | {"use_vmap": shortlist}
    del chosen["num_hypotheses"], chosen["return_scores"]  # the best one, whatever its score
    if recipe.task.data.max_length < MAX_INPUT:
        del chosen["max_input_length"]
    given = {name: value for name, value in chosen.items() if usual.get(name) != value}
    output = recipe.task.output
    longest = f"int({output.factor!r} * len(tokens)) + {output.extra}"
    text = (PROGRAMS / "translations_ctranslate2.py").read_text(encoding="utf-8")
    text = text.replace('{"beam_size": 5}', repr(given).replace("'", '"'))
    bound = longest if output.extra else f"max(1, {longest})"
    return text.replace("int(1.5 * len(tokens)) + 8", bound)


def _readme(card: dict[str, Any], code: str, *, bound: bool) -> str:
    found = Nearness(**card["parity"])
    instead = found.instead(card["quantization"])
    return README.format(
        bound=BOUND if bound else "",
        program=code,
        quantization=card["quantization"],
        cost="" if card["cost"] is None else f"\n{Cost(**card['cost'])}.\n",
        processor=found.processor,
        instead=f"; {instead}" if instead else "",
        found=found,
    )


BOUND = """
The original chooses its outputs from a list; this one writes any text.
"""
README = """\
# A translation model for CTranslate2

Weights in {quantization}. Compared with the original when it was written (on {processor}{instead}):
{found}.
{cost}{bound}
    pip install ctranslate2 tokenizers
    python -X utf8 run.py < input

This is `run.py`:

```python
{program}```

Id n of a vocabulary is the token "n". Sentences of equal length can be given to one call, which
is much faster; `Translator(..., inter_threads=N, intra_threads=1)` keeps N cores busy.
"""
