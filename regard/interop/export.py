"""A trained model as a folder that CTranslate2 and tokenizers can use without regard."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, cast

from regard import __version__
from regard.data.tokenizers import Tokenizer
from regard.errors import UserError
from regard.interop import Quantization
from regard.interop.alone import alone as _alone
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
from regard.interop.shipments import MOST, Quality
from regard.interop.shipments_of_text import texts_quality
from regard.interop.shortlist import add as add_shortlist
from regard.model import Model
from regard.recipe import checked
from regard.recipe.config import Recipe
from regard.recipe.parts import Part
from regard.runs import Run
from regard.tasks.translate import Task


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
            for side, field in task.fields.items():
                _alone(field.tokenizer, writing / f"{side}.tokenizer.json")
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
                "end": str(Tokenizer.end),
                "longest": recipe.task.data.max_length,
                "output": asdict(recipe.task.output),
                "search": options(search) | {"use_vmap": shortlist},
            }
            texts = {"regard.json": checked.written(card, indent=1), "README.md": _readme(card)}
            for name, text in texts.items():
                (writing / name).write_text(text, encoding="utf-8", newline="\n")
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


def _readme(card: dict[str, Any]) -> str:
    found = Nearness(**card["parity"])
    instead = found.instead(card["quantization"])
    return README.format(
        bound=BOUND if card["output"]["choices"] else "",
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

```python
import json
import sys
from pathlib import Path

from ctranslate2 import Translator
from tokenizers import Tokenizer

for stream in (sys.stdin, sys.stdout):
    stream.reconfigure(encoding="utf-8")
folder = Path(sys.argv[1])  # this folder
card = json.loads((folder / "regard.json").read_text(encoding="utf-8"))
source = Tokenizer.from_file(str(folder / "source.tokenizer.json"))
target = Tokenizer.from_file(str(folder / "target.tokenizer.json"))
translator = Translator(str(folder))


def translate(line):
    if not line.strip():
        return ""
    tokens = source.encode(line).ids[: card["longest"]]
    cap = max(1, int(card["output"]["factor"] * len(tokens)) + card["output"]["extra"])
    tokens = [str(token) for token in tokens] + [card["end"]]
    found = translator.translate_batch([tokens], max_decoding_length=cap, **card["search"])
    best = found[0].hypotheses[0]
    return target.decode([int(token) for token in best if token != card["end"]])


for line in sys.stdin:
    print(translate(line.rstrip("\\n")).replace("\\n", " "), flush=True)
```

Id n of a vocabulary is the token "n". Sentences of equal length can be given to one call, which
is much faster; `Translator(..., inter_threads=N, intra_threads=1)` keeps N cores busy.
"""
