"""An ordinary run, made of somebody else's model: `regard import`.

    config.json             → recipe.toml, by the family's table (families/)
    tokenizer.json          → target.tokenizer.json, as it is
    model.safetensors       → model/model.safetensors, by our names, in float32

All shapes are compared before a weight is read; the run gets its name once all of it is there.
"""

import math
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import __version__
from regard.data import tokenizers, whole_file
from regard.errors import RecipeError, UserError
from regard.fields.text import Tokenised
from regard.heads import labels
from regard.interop import (
    chat_templates,
    families,
    image_folders,
    label_folders,
    pair_folders,
    vocabularies,
)
from regard.interop.families import Settings, Table
from regard.interop.folders import Folder, Tensors
from regard.interop.kept import check_free, whole
from regard.layers.position import sinusoid
from regard.model import Model, build
from regard.recipe import checked, config
from regard.recipe.config import Recipe
from regard.recipe.parts import module
from regard.runs import Run
from regard.runs.creation import environment
from regard.train import budget, checkpoint, manifest
from regard.train.progress import Progress
from regard.types import Batch, Sizes

LARGEST_TABLE = 2**24
"""Numbers of a table of positions that is only compared."""
LABELLED = ("classify", "tag")
"""Tasks whose outputs have names."""
NO_DATA = "imported"
"""What stands in the recipe for the files to learn from: there are none."""


@dataclass(frozen=True)
class Imported:
    """Somebody else's model in our terms."""

    recipe: Recipe
    sizes: Sizes
    tokenizers: Mapping[str, str]
    """The tokenizers of the task's fields, as JSON, by their files' names."""
    weights: Mapping[str, Tensor]
    """By our names; a tied one once."""
    notes: Sequence[str] = ()
    """What could not be taken over."""

    def model(self) -> Model:
        """The model, ready to predict."""
        made = build(self.recipe.model, self.sizes)
        checkpoint.put_weights(made, self.weights, "the imported model")
        return made.eval()


def run(source: Path, folder: Path, tell: Callable[[str], None] = lambda text: None) -> Run:
    """Make a run of the model in a folder of Hugging Face; what could not be taken over is told."""
    check_free(folder)
    found = read(source)
    for note in found.notes:
        tell(note)
    return write(found, folder, source)


def write(found: Imported, folder: Path, source: Path) -> Run:
    """Make a run of a model that was read from `source`."""
    try:
        with whole(folder) as writing:
            _fill(writing, found, source)
    except OSError as error:
        raise UserError(f"{folder} could not be written: {error.strerror or error}") from None
    return Run(folder)


def read(source: Path) -> Imported:
    """The model in a folder."""
    folder = Folder(source)
    settings = Settings(folder.table("config.json"))
    try:
        family = families.of(settings)
        model, longest = family.recipe(settings)
        if not families.reads_text(family):
            return _read_images(folder, family, model, settings)
        if family.TASK == "contrast":
            return _read_pairs(folder, family, model, longest, settings)
        settings.number("vocab_size")
        labelled = family.TASK in LABELLED
        names, order = label_folders.labels(settings) if labelled else ([], [])
        if family.TASK == "tag" and any(len(name.split()) > 1 for name in names):
            raise UserError("id2label: a tag is one word here; there are blanks in some")
    except UserError as error:
        raise UserError(f"{source / 'config.json'}: {error}") from None
    tensors = folder.tensors()
    cut = vocabularies.read(folder, settings, family.SPECIAL)
    template, notes = chat_templates.read(folder, cut.special)
    recipe = _recipe(source, family.TASK, model, longest, cut.section, settings, template)
    fields = module("tasks", recipe.kind).plan(recipe.task).fields
    texts = {f.file: cut.of(name) for name, f in fields.items() if isinstance(f, Tokenised)}
    texts |= label_folders.file(names) if labelled else {}
    sizes = sizes_of_task(recipe, texts)
    with torch.device("meta"):
        empty = build(recipe.model, sizes)
    left_out = label_folders.left_out(empty)
    try:
        weights = matched(family, empty, tensors, recipe, left_out)
    except UserError as error:
        said = str(error)
        raise UserError(said if said.startswith(str(source)) else f"{source}: {said}") from None
    if labelled:
        weights = label_folders.ordered(weights, order, empty)
    return Imported(recipe, sizes, texts, weights, notes)


def _read_images(folder: Folder, family: Any, model: Table, settings: Settings) -> Imported:
    """A model that labels pictures."""
    names, order = label_folders.labels(settings)
    about, notes = image_folders.source_section(folder, settings)
    recipe = image_folders.recipe(folder.path, family.TASK, model, settings, about)
    texts = image_folders.texts(about, names)
    sizes = sizes_of_task(recipe, texts)
    with torch.device("meta"):
        empty = build(recipe.model, sizes)
    weights = matched(family, empty, folder.tensors(), recipe, label_folders.left_out(empty))
    return Imported(recipe, sizes, texts, label_folders.ordered(weights, order, empty), notes)


def _read_pairs(
    folder: Folder, family: Any, model: Table, longest: int, settings: Settings
) -> Imported:
    """A model of pictures and texts."""
    text, vision = settings.inside("text_config"), settings.inside("vision_config")
    cut = vocabularies.read(folder, text, family.SPECIAL)
    about, notes = image_folders.source_section(folder, vision)
    recipe = pair_folders.recipe(folder.path, model, longest, cut.section, about, settings)
    source, target = module("tasks", recipe.kind).plan(recipe.task).fields.values()
    texts = {source.file: pair_folders.standard(about), target.file: cut.of("")}
    sizes = sizes_of_task(recipe, texts)
    with torch.device("meta"):
        empty = build(recipe.model, sizes)
    weights = matched(family, empty, folder.tensors(), recipe)
    return Imported(recipe, sizes, texts, weights, notes)


def sizes_of_task(recipe: Recipe, texts: Mapping[str, str]) -> Sizes:
    """What a model must know of the task's fields."""
    with tempfile.TemporaryDirectory() as place:
        for name, text in texts.items():
            whole_file.write(Path(place, name), text)
        try:
            found: Sizes = module("tasks", recipe.kind).Task(recipe.task, Path(place)).sizes
        except UserError as error:
            raise UserError(str(error).replace(f"{place}/", "")) from None
    return found


def _recipe(
    source: Path,
    task: str,
    model: Table,
    longest: int,
    cut: Table,
    settings: Settings,
    template: Table,
) -> Recipe:
    """The recipe of a run that has learnt elsewhere: what training reads is not there."""
    table: Table = {
        "task": task,
        "data": {"train": [NO_DATA], "max_length": max(1, longest - 2)},
        "tokenizer": cut,
        "model": {"scale": False, **model},
    }
    if task == "language_model":
        table |= {"search": {"kind": "greedy"}}
        table["stream"] = {"streams": 1, "length": longest, "documents": "paragraph"}
        if template:
            table |= {"unit": "dialogue", "template": template}
        table["model"]["head"] = {"bias": False, "smoothing": 0.0}
    if task in LABELLED:
        # The tokenizer's keys that others have: what is usual for a task is for its own.
        table["tokenizer"] = config.plain(tokenizers.Config(**cut))
        labels = {"labels": {"kind": label_folders.kind(settings)}}
        table |= {"framed": True, "characters": False} if task == "tag" else labels
    if task == "masked_language_model":
        table["windows"] = {"length": longest}
    if task == "translate":
        table["search"] = {"kind": "beam", "beams": settings.number("num_beams", 4)}
        table["output"] = {"factor": 2.0, "extra": 50}
    try:
        return config.from_table(table)
    except RecipeError as error:
        raise UserError(f"{source / 'config.json'}: {error}") from None


def matched(
    family: Any,
    empty: Model,
    tensors: Tensors,
    recipe: Recipe,
    left_out: Collection[str] = (),
) -> dict[str, Tensor]:
    """Our weights of theirs; every one of theirs must have been understood. Those of ours that are
    left out they do not have."""
    tensors = _renamed(family, tensors)
    parts = recipe.model.parts()
    main = parts.get("decoder") or parts.get("encoder")
    heads = main.config.heads if main else 1  # of towers, none has them side by side
    own = {n: each for n, each in empty.named_parameters() if n not in left_out}
    plan = list(families.layers(family, iter(own), tensors.places))
    used = set()
    for name, sources, form in plan:
        for each in sources:
            if each not in tensors.places:
                raise UserError(f"{each}: missing among the weights{_headless(family, name)}")
            used.add(each)
        shape = _stacked([tensors.shape(each) for each in sources], form)
        if shape != tuple(own[name].shape):
            raise UserError(
                f"{sources[0]}: {shape} in all, but config.json says {tuple(own[name].shape)}"
            )
    for name in (n for n in tensors.places if n not in used):
        if (sinusoids := getattr(family, "SINUSOID", "")) and re.fullmatch(sinusoids, name):
            _check_sinusoid(name, tensors)
        if not any(re.fullmatch(pattern, name) for pattern in family.ABSENT):
            raise UserError(f"{name[:100]!a}: no place for these weights in {family.ARCHITECTURE}")
    need, free = 4 * sum(parameter.numel() for parameter in own.values()), budget.free("cpu")
    if need > free:
        raise UserError(f"its weights take {need / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")
    found = {
        name: _joined([families.ours(tensors.read(s), form, heads) for s in sources])
        for name, sources, form in plan
    }
    checkpoint.check_finite(found, "the weights")
    return found


def _headless(family: Any, name: str) -> str:
    """What to do where a folder has an encoder alone."""
    if not name.startswith("head.") or not getattr(family, "LABELLING", ()):
        return ""
    return (
        f": the folder has no head of {family.ARCHITECTURE}. To fine-tune its encoder, have the "
        f"transformers library add a new head: {family.ARCHITECTURE}.from_pretrained(FOLDER)"
        ".save_pretrained(NEW), and import that"
    )


def _renamed(family: Any, tensors: Tensors) -> Tensors:
    """Their names as the family has them: a folder may leave out what they begin with, and old ones
    call the weights of norms gamma and beta."""
    bare = not any(name.startswith(family.PREFIX) for name in tensors.places)
    first = {ours.names[0].partition(".")[0] for ours in family.NAMES.values()}
    names = {}
    for name in tensors.places:
        new = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        names[name] = family.PREFIX + new if bare and new.partition(".")[0] not in first else new
    return tensors.renamed(names)


def _check_sinusoid(name: str, tensors: Tensors) -> None:
    """Refuse another table of positions than the family's."""
    shape = tensors.shape(name)
    small = len(shape) == 2 and math.prod(shape) <= LARGEST_TABLE
    table = tensors.read(name) if small else None
    same = None if table is None else sinusoid(shape[0], shape[1], "halves")
    if table is None or same is None or not torch.allclose(table, same, atol=1e-3):
        raise UserError(f"{name}: not the sinusoid that the family uses")


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """One of several; a number by itself stays one."""
    return (torch.cat([*tensors]) if len(tensors) > 1 else tensors[0]).contiguous()


def _stacked(shapes: Sequence[tuple[int, ...]], form: str) -> tuple[int, ...]:
    """The shape of ours, given theirs."""
    if shapes == [()]:
        return ()
    whole = (sum(shape[0] for shape in shapes if shape), *shapes[0][1:])
    if form == "transposed":
        return whole[::-1]
    if form in ("flat", "vector"):
        return (math.prod(whole),)
    if form == "table":
        return shapes[0][1:]
    if form == "filters" and len(whole) > 1:
        return (whole[0], math.prod(whole[1:]))
    return (whole[0] - 2, *whole[1:]) if form == "offset" else whole


def _fill(folder: Path, found: Imported, source: Path) -> None:
    """Put a whole run into a folder: all that it was made with, then its model."""
    for name, text in found.tokenizers.items():
        whole_file.write(folder / name, text)
    about = {"used": 0, "skipped": {}, "report": "imported", "findings": []}
    origin = {"folder": str(source.absolute()), "regard": __version__}
    for name, value in {"data": about | {"imported": origin}, "environment": environment()}.items():
        whole_file.write(folder / f"{name}.json", checked.written(value, indent=1))
    whole_file.write(folder / manifest.HIDDEN_RECIPE, config.dump(found.recipe))
    manifest.seal(folder)
    made = manifest.sealed(folder)
    progress = replace(Progress(), finished=True).as_dict() | {"mean_of": []}
    checkpoint.save(folder / "model", found.weights, progress, run=made)


def logits(model: Model, tokens: Tensor) -> Tensor:
    """Of tokens (B, T) that are read, and written again where a model does both; of the text, where
    all of it has labels."""
    name = str(getattr(model.input, "field", ""))
    tensors = {name: tokens, f"{name}_mask": torch.ones_like(tokens, dtype=torch.bool)}
    batch = Batch(tensors=tensors, ids=tuple(range(len(tokens))), targets=0)
    if model.decoder is not None:
        return model.head.logits(model.decode(tokens, model.start(batch))[0])
    memory, head = model.encode(batch), model.head
    assert memory is not None
    return head.logits(head.pool(memory) if isinstance(head, labels.Head) else memory.states)
