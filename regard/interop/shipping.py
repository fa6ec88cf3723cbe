"""A trained model as a folder that runs without regard: by onnxruntime, by CTranslate2, or as one
of Hugging Face."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from regard import __version__
from regard.errors import RecipeError, UserError
from regard.interop import Form, onnx
from regard.interop.conversion import missing
from regard.interop.cost import Cost, cost
from regard.interop.ctranslate2 import supports
from regard.interop.export import export as as_ctranslate2
from regard.interop.exporting import export as as_huggingface, family_of
from regard.interop.kept import check_free, whole
from regard.interop.running import PROGRAM, run_program, write_texts
from regard.interop.shipments import Labels, Near, Shipment, Tags
from regard.interop.shipments_of_blanks import Filled
from regard.interop.shipments_of_series import Numbers
from regard.interop.shipments_of_text import Written
from regard.model import Model
from regard.recipe import checked
from regard.runs import Run

FORMAT = 2
TOLERANCE = 1e-4
"""How far a figure in float32 may be from the original's."""
Quantization = Literal["float32", "int8"]
KINDS: dict[str, type[Shipment]] = {
    "labels": Labels, "tags": Tags, "numbers": Numbers, "tokens": Written,
    "masked tokens": Filled,
}  # fmt: skip
"""By what a head predicts."""


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """What was written, and how near it is to the original."""

    files: tuple[str, ...]
    inputs: int
    same: int
    difference: float
    figures: str
    megabytes: float
    cost: Cost | None = None
    """Of int8; None in float32, and where there is no validation part."""

    def __str__(self) -> str:
        return (
            f"the same output as the run for {self.same} of {self.inputs} inputs; {self.figures} "
            f"differ by at most {self.difference:.1g}; {self.megabytes:.1f} MB"
        )


@dataclass(frozen=True, kw_only=True)
class Export:
    """What became of an export, whatever its form."""

    to: str
    said: str
    """How near it is to the run."""
    parity: dict[str, Any]
    cost: Cost | None
    warnings: tuple[str, ...]


def ship(
    run: Run,
    folder: Path,
    to: Form = "auto",
    quantization: Any = "float32",
    checkpoint: str = "final",
    *,
    shortlist: bool = False,
) -> Export:
    """Write a folder in a form that the model has; `auto`: CTranslate2 where it can do it."""
    if to == "word2vec":
        raise RecipeError(f"to: {run.folder} is no run of word2vec: it has onnx and ctranslate2")
    if to == "auto":
        able = shortlist or (supports(run.recipe) is None and missing() is None)
        to = "ctranslate2" if able else "onnx"
    warnings = list[str]()
    output = getattr(run.recipe.task, "output", None)
    if getattr(output, "choices", ""):
        warnings.append("it writes any text: an export knows no choices (output.choices)")
    if to == "huggingface":
        if quantization != "float32" or shortlist:
            what = "shortlist" if shortlist else "quantization"
            raise RecipeError(f"{what}: a folder of Hugging Face is in float32; leave it out")
        near = as_huggingface(run, folder, checkpoint)
        if further := ", ".join(run.recipe.model.heads):
            warnings.append(f"it has no head {further}: its family has one head alone")
        return Export(
            to=to, said=str(near), parity=near._asdict(), cost=None, warnings=tuple(warnings)
        )
    if to == "ctranslate2":
        found, price = as_ctranslate2(run, folder, quantization, checkpoint, shortlist=shortlist)
        said, parity = str(found), asdict(found)
        warnings += [found.instead(quantization)] if found.instead(quantization) else []
        warnings += [said] if found.far else []
    elif shortlist:
        raise RecipeError("shortlist: only CTranslate2 has one; leave it out, or --to ctranslate2")
    else:
        shipped = export(run, folder, quantization, checkpoint)
        said, parity, price = str(shipped), asdict(shipped), shipped.cost
    if price is not None and price.worse:
        warnings.append(f"{price}: float32 is the safe choice")
    if price is None and quantization != "float32":
        warnings.append(f"there is no validation part to say what {quantization} costs")
    return Export(to=to, said=said, parity=parity, cost=price, warnings=tuple(warnings))


def export(
    run: Run, folder: Path, quantization: Quantization = "float32", checkpoint: str = "final"
) -> Shipped:
    """Write a folder with graphs, all that is needed around them, and a program: run.py."""
    check_free(folder)
    if quantization not in ("float32", "int8"):
        raise RecipeError(f"quantization: ONNX has float32 and int8 here, not {quantization}")
    if reason := onnx.missing():
        raise UserError(f"export: {reason}")
    model = run.model(checkpoint)
    made = shipment(run, model)
    onnx.lengthen(model, made.longest)
    try:
        with whole(folder) as writing:
            return _written(made, writing, quantization)
    except OSError as error:
        raise UserError(f"{folder} could not be written: {error.strerror or error}") from None


def shipment(run: Run, model: Model) -> Shipment:
    """How this model is shipped."""
    if reason := _beyond_onnx(run):
        raise UserError(f"{run.folder} cannot be exported to ONNX: {reason}; {_instead(run)}")
    kind = KINDS.get(model.head.predicts)
    try:
        if kind is None:
            raise UserError(
                f"its head predicts {model.head.predicts!r}. A run that reads by it "
                '(model.input.kind = "pretrained") can be'
            )
        return kind(run, model)
    except (UserError, AttributeError) as error:
        raise UserError(f"{run.folder} cannot be exported to ONNX: {error}") from None


def _beyond_onnx(run: Run) -> str:
    """Why a run is nothing for ONNX, whatever its head predicts; empty if it is."""
    if any(field.on_disk for field in run.task.fields.values()):
        return "it reads pictures or sounds"
    if any("." in key for key in run.recipe.model.parts()):
        return "it has several towers or heads"
    cut = getattr(run.recipe.task, "tokenizer", None)
    return "its tokenizer was imported" if cut and cut.kind == "huggingface" else ""


def _instead(run: Run) -> str:
    """The form that such a run has, or why it has none."""
    try:
        family_of(run)
    except UserError as error:
        why = str(error).replace(f"{run.folder}: ", "").replace(f"{run.folder} ", "it ")
        return f"nor to huggingface: {why}"
    return "take --to huggingface"


def _written(made: Shipment, folder: Path, quantization: Quantization) -> Shipped:
    graphs = made.graphs()
    paths = {name: folder / f"{name}.onnx" for name in graphs}
    for name, graph in graphs.items():
        onnx.write(graph, paths[name])
    exact = _opened(made, paths)
    found, price = _near(made.near(exact)), None
    size = onnx.size([*paths.values()])
    if quantization == "int8":
        before = made.quality(exact)
        for path in paths.values():
            onnx.narrow(path)
        rounded = _opened(made, paths)
        found, after = made.near(rounded), made.quality(rounded)
        sizes = (size, size := onnx.size([*paths.values()]))
        price = cost(before, after, sizes)
    whole = folder / "model.onnx"
    made.assemble(paths, whole)
    for path in {*paths.values()} - {whole}:
        path.unlink()
    made.save(folder)
    write_texts(folder, {PROGRAM: made.code})
    inputs, same = made.same(run_program(folder, made.inputs(), *made.arguments))
    parity: dict[str, Any] = {"inputs": inputs, "same": same, **found._asdict()}
    shipped = Shipped(files=(), **parity, megabytes=size, cost=price)
    card = {
        "format": FORMAT,
        "regard": __version__,
        "task": made.recipe.kind,
        "quantization": quantization,
        "parity": parity,
        "cost": None if price is None else asdict(price),
    }
    texts = {"regard.json": checked.written(card, indent=1)}
    write_texts(folder, {**texts, "README.md": _readme(made, card, shipped)})
    return replace(shipped, files=tuple(sorted(path.name for path in folder.iterdir())))


def _opened(made: Shipment, paths: dict[str, Path]) -> Any:
    return made.stand_in({name: onnx.Session(path) for name, path in paths.items()})


def _near(found: Near) -> Near:
    """Refuse graphs that are not the original."""
    if not found.difference <= TOLERANCE:
        raise UserError(
            f"the exported model is not the original: {found.figures} differ by "
            f"{found.difference:.2g}. Nothing is written"
        )
    return found


def _readme(made: Shipment, card: dict[str, Any], shipped: Shipped) -> str:
    needs = "onnxruntime" if made.recipe.kind == "forecast" else "onnxruntime tokenizers"
    lines = [f"Numbers in {card['quantization']}. Compared with the run when it was written:"]
    lines.append(f"{shipped}.")
    if shipped.cost:
        lines.append(f"\n{shipped.cost}.")
    return README.format(
        task=made.recipe.kind, found="\n".join(lines), needs=needs, program=made.code
    )


README = """\
# A model for onnxruntime ({task})

{found}

    pip install {needs}
    python -X utf8 run.py < input

`model.onnx` does all of the work, and `regard.json` has what was measured. This is `run.py`:

```python
{program}```
"""
