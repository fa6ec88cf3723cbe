"""An ordinary run, made of somebody else's model: `regard import`.

    config.json             → recipe.toml, by the family's table (families/)
    tokenizer.json          → target.tokenizer.json, as it is
    model.safetensors       → model/model.safetensors, by our names, in float32

All shapes are compared before a weight is read; the run gets its name once all of it is there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import __version__
from regard.data import foreign, whole_file
from regard.data.tokenizers import Tokenizer
from regard.errors import RecipeError, UserError
from regard.interop import families
from regard.interop.families import Settings, Table
from regard.interop.folders import Folder, Tensors
from regard.interop.kept import check_free, whole
from regard.model import Model, build
from regard.recipe import checked, config
from regard.recipe.config import Recipe
from regard.recipe.parts import module
from regard.runs import Run
from regard.runs.creation import environment
from regard.tasks import sizes_of
from regard.train import budget, checkpoint, manifest
from regard.train.progress import Progress

NO_DATA = "imported"
"""What stands in the recipe for the files to learn from: there are none."""


@dataclass(frozen=True)
class Imported:
    """Somebody else's model in our terms."""

    recipe: Recipe
    tokenizers: Mapping[str, str]
    """The tokenizers of the task's fields, as JSON, by their files' names."""
    weights: Mapping[str, Tensor]
    """By our names; a tied one once."""


def run(source: Path, folder: Path) -> Run:
    """Make a run of the model in a folder of Hugging Face."""
    check_free(folder)
    if folder.is_dir():
        raise UserError(f"{folder} exists: name a new folder for the run")
    found = read(source)
    with whole(folder) as writing:
        _fill(writing, found, source)
    return Run(folder)


def read(source: Path) -> Imported:
    """The model in a folder."""
    folder = Folder(source)
    settings = Settings(folder.table("config.json"))
    try:
        family = families.find(settings.table.get("model_type"))
        model, longest = family.recipe(settings)
        rows = settings.number("vocab_size")
    except UserError as error:
        raise UserError(f"{source / 'config.json'}: {error}") from None
    cut, texts = tokenizer(folder, settings, rows)
    recipe = _recipe(source, family.TASK, model, longest, cut)
    by = _tokenizer(source, texts, recipe.task.tokenizer)
    with torch.device("meta"):
        empty = build(recipe.model, sizes(recipe, by))
    weights = matched(family, empty, folder.tensors(), recipe)
    fields = module("tasks", recipe.kind).plan(recipe.task).fields
    return Imported(recipe, {field.file: texts for field in fields.values()}, weights)


def tokenizer(folder: Folder, settings: Settings, rows: int) -> tuple[Table, str]:
    """The recipe's section `tokenizer`, and what the tokenizer is."""
    if not (folder.path / "tokenizer.json").is_file():
        raise UserError(
            f"{folder.path / 'tokenizer.json'}: there is no such file: have the transformers "
            "library write it, with AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        )
    text = folder.text("tokenizer.json", foreign.LARGEST)
    try:
        library, pieces = foreign.read(text)
    except ValueError as error:
        raise UserError(f"{folder.path / 'tokenizer.json'}: {error}") from None
    if len(pieces) > rows:
        raise UserError(
            f"{folder.path}: the tokenizer has {len(pieces):,} tokens, but the model's vocab_size "
            f"is {rows:,}"
        )
    said = folder.table("special_tokens_map.json", needed=False)
    said |= folder.table("tokenizer_config.json", needed=False)
    chosen = folder.table("generation_config.json", needed=False)

    def named(key: str) -> str:
        value = said.get(key)
        value = value.get("content") if isinstance(value, dict) else value
        return value if isinstance(value, str) and library.token_to_id(value) is not None else ""

    def numbered(key: str) -> str:
        value = chosen.get(key, settings.table.get(key))
        value = value[0] if isinstance(value, list) and value else value
        fine = type(value) is int and 0 <= value < len(pieces)
        return pieces[value] if fine and library.token_to_id(pieces[value]) == value else ""

    section = {
        "start": named("cls_token") or numbered("bos_token_id") or named("bos_token"),
        "end": named("sep_token") or numbered("eos_token_id") or named("eos_token"),
        "pad": numbered("pad_token_id") or named("pad_token"),
        "unknown": named("unk_token"),
        "mask": named("mask_token"),
    }
    if not section["end"]:
        raise UserError(
            f"{folder.path}: neither config.json nor tokenizer_config.json says which "
            "token ends a text (eos_token)"
        )
    if section["unknown"] in (section["end"], section["start"]):
        section["unknown"] = ""  # GPT-2 names one, but has bytes for all
    given = {name: piece for name, piece in section.items() if piece}
    return {"kind": "huggingface", "vocabulary": rows, **given}, text


def _recipe(source: Path, task: str, model: Table, longest: int, cut: Table) -> Recipe:
    table: Table = {
        "task": task,
        "data": {"train": [NO_DATA], "max_length": max(1, longest - 2)},
        "tokenizer": cut,
        "model": {"scale": False, **model},
    }
    if task == "language_model":
        table |= {"unit": "line", "search": {"kind": "greedy"}}
        table["model"]["head"] = {"bias": False, "smoothing": 0.0}
    try:
        return config.from_table(table)
    except RecipeError as error:
        raise UserError(f"{source / 'config.json'}: {error}") from None


def _tokenizer(source: Path, text: str, settings: Any) -> Tokenizer:
    try:
        return Tokenizer(text, settings)
    except UserError as error:
        raise UserError(f"{source / 'tokenizer.json'}: {error}") from None


def sizes(recipe: Recipe, by: Tokenizer) -> Any:
    """What a model must know of its fields, before they are in a run's folder."""
    fields = module("tasks", recipe.kind).plan(recipe.task).fields
    known = {name: replace(field, learnt=by) for name, field in fields.items()}
    return sizes_of(known, writes="target")


def matched(family: Any, empty: Model, tensors: Tensors, recipe: Recipe) -> dict[str, Tensor]:
    """Our weights of theirs; every one of theirs must have been understood."""
    tensors = _renamed(family, tensors)
    parts = recipe.model.parts()
    heads = (parts.get("decoder") or parts["encoder"]).config.heads
    own = dict(empty.named_parameters())
    plan = list(families.layers(family, iter(own)))
    used = set()
    for name, sources, form in plan:
        for each in sources:
            if each not in tensors.places:
                raise UserError(f"{each}: missing among the weights")
            used.add(each)
        shape = _stacked([tensors.shape(each) for each in sources], form)
        if shape != tuple(own[name].shape):
            raise UserError(
                f"{sources[0]}: {shape} in all, but config.json says {tuple(own[name].shape)}"
            )
    rest = [n for n in tensors.places if n not in used]
    for name in rest:
        if not any(re.fullmatch(pattern, name) for pattern in family.ABSENT):
            raise UserError(f"{name[:100]!a}: no place for these weights in {family.ARCHITECTURE}")
    need, free = 4 * sum(parameter.numel() for parameter in own.values()), budget.free("cpu")
    if need > free:
        raise UserError(f"its weights take {need / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")
    return {
        name: torch.cat([families.ours(tensors.read(s), form, heads) for s in sources]).contiguous()
        for name, sources, form in plan
    }


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


def _stacked(shapes: Sequence[tuple[int, ...]], form: str) -> tuple[int, ...]:
    """The shape of ours, given theirs."""
    whole = (sum(shape[0] for shape in shapes if shape), *shapes[0][1:])
    if form == "transposed":
        return whole[::-1]
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
