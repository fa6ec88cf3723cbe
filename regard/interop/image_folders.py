"""Folders of models of pictures: in place of a tokenizer they have preprocessor_config.json, which
says what pictures become.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import __version__
from regard.errors import RecipeError, UserError
from regard.interop import label_folders
from regard.interop.families import Settings, Table
from regard.interop.folders import Folder
from regard.model import Model
from regard.recipe import checked, config
from regard.recipe.config import Recipe
from regard.types import Batch

PROCESSOR = "preprocessor_config.json"
RESAMPLING = ("nearest", "lanczos", "bilinear", "bicubic")
"""By Pillow's numbers."""
ROWS = 3
"""Pictures by which what was written is compared with the original."""


def recipe(source: Path, task: str, model: Table, settings: Settings, about: Table) -> Recipe:
    """The recipe of a run that has learnt elsewhere: what training reads is not there."""
    size = settings.number("image_size", 224)
    table: Table = {
        "task": task,
        "data": {"train": ["imported"]},
        "source": about | {"kind": "image", "size": [size, size]},
        "labels": {"kind": label_folders.kind(settings)},
        "model": {"scale": False, **model},
    }
    try:
        return config.from_table(table)
    except RecipeError as error:
        raise UserError(f"{source / 'config.json'}: {error}") from None


def source_section(folder: Folder, settings: Settings) -> tuple[Table, list[str]]:
    """What the recipe says of pictures, and what could not be taken over."""
    size, channels = settings.number("image_size", 224), settings.number("num_channels", 3)
    if channels not in (1, 3):
        raise UserError(f"{folder.path / 'config.json'}: num_channels: {channels} is not 1 or 3")
    about = Settings(folder.table(PROCESSOR, needed=False))
    try:
        return _section(about, size, channels)
    except UserError as error:
        raise UserError(f"{folder.path / PROCESSOR}: {error}") from None


def _section(about: Settings, size: int, channels: int) -> tuple[Table, list[str]]:
    about.refuse("do_rescale", True)
    about.refuse("do_resize", True)
    notes = []
    found: Table = {"channels": channels, "resize": "stretch", "normalise": "none"}
    resample = about.number("resample", 2, least=0)
    if resample >= len(RESAMPLING):
        raise UserError(f"resample: {resample} cannot be imported")
    found["resampling"] = RESAMPLING[resample]
    wanted = about.table.get("size")
    shortest = wanted.get("shortest_edge") if isinstance(wanted, Mapping) else None
    if shortest is not None or about.flag("do_center_crop"):
        found["resize"] = "crop"
        if shortest not in (None, size):
            notes.append(
                f"{PROCESSOR}: pictures are made {size} pixels small, not cut out of {shortest}"
            )
    if about.flag("do_normalize", True):
        mean, std = (_numbers(about, key, channels) for key in ("image_mean", "image_std"))
        found |= {"normalise": "given", "mean": mean, "std": std}
    return found, notes


def _numbers(about: Settings, key: str, channels: int) -> list[float]:
    found = about.table.get(key)
    found = [0.5] * channels if found is None else found
    if not isinstance(found, list) or not all(type(x) in (int, float) for x in found):
        raise UserError(f"{key}: wanted a list of numbers")
    if len(found) != channels:
        raise UserError(f"{key}: {len(found)} numbers for {channels} channels")
    return [float(x) for x in found]


def texts(about: Table, names: Sequence[str]) -> dict[str, str]:
    """The files of the task's fields."""
    channels = about["channels"]
    standard = {
        "mean": about.get("mean", [0.0] * channels),
        "std": about.get("std", [1.0] * channels),
    }
    return {"source.image.json": checked.written(standard), **label_folders.file(names)}


# For an export


def about(field: Any, architecture: str) -> Table:
    """What config.json has beside the family's own settings."""
    form = field.config.form
    if form.height != form.width:
        raise UserError(f"source.size: {form.height} × {form.width} pixels; there, both are equal")
    return {
        "architectures": [architecture],
        "model_type": "vit",
        "image_size": form.height,
        "num_channels": form.channels,
        "dtype": "float32",
        "regard": __version__,
    }


def processor(field: Any) -> Table:
    """preprocessor_config.json."""
    form, standard = field.config.form, field.standard
    if form.resize == "pad":
        raise UserError("source.resize is 'pad', wanted: 'stretch' or 'crop'")
    crop = form.resize == "crop"
    size = {"shortest_edge": form.height} if crop else {"height": form.height, "width": form.width}
    found: Table = {
        "image_processor_type": "CLIPImageProcessor" if crop else "ViTImageProcessor",
        "do_resize": True,
        "size": size,
        "resample": RESAMPLING.index(form.resampling),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [*standard.mean],
        "image_std": [*standard.std],
    }
    if crop:
        found |= {"do_center_crop": True, "crop_size": {"height": form.height, "width": form.width}}
    return found


def logits(model: Model, pixels: Tensor) -> Tensor:
    """Of pictures (B, C, H, W), normalised."""
    field = str(getattr(model.input, "field", ""))
    batch = Batch(tensors={field: pixels}, ids=tuple(range(len(pixels))), targets=0)
    memory = model.encode(batch)
    assert memory is not None
    head: Any = model.head
    found: Tensor = head.logits(head.pool(memory))
    return found


def drawn(field: Any) -> Tensor:
    """Random pictures."""
    form, chance = field.config.form, torch.Generator().manual_seed(1)
    return torch.randn(ROWS, form.channels, form.height, form.width, generator=chance)
