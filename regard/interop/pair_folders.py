"""Folders of models with two towers, CLIP's: what both read, and how alike it is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import __version__
from regard.errors import RecipeError, UserError
from regard.interop import families, image_folders
from regard.interop.families import Settings, Table
from regard.model import Model
from regard.recipe import checked, config
from regard.recipe.config import Recipe
from regard.types import Batch

ROWS, LENGTH = 3, 7
"""Pictures, texts and their tokens by which what was written is compared with the original."""


def recipe(
    source: Path, model: Table, longest: int, cut: Table, about: Table, settings: Settings
) -> Recipe:
    """The recipe of a run that has learnt elsewhere: what training reads is not there."""
    size = settings.inside("vision_config").number("image_size", 224)
    table: Table = {
        "task": "contrast",
        "data": {"train": ["imported"], "max_length": max(1, longest - 2)},
        "source": about | {"kind": "image", "size": [size, size]},
        "tokenizer": cut,
        "model": {"scale": False, **model},
    }
    try:
        return config.from_table(table)
    except RecipeError as error:
        raise UserError(f"{source / 'config.json'}: {error}") from None


def standard(about: Table) -> str:
    """The file of what pictures become."""
    count = about["channels"]
    mean, std = about.get("mean", [0.0] * count), about.get("std", [1.0] * count)
    return checked.written({"mean": mean, "std": std})


def logits(model: Model, pixels: Tensor, tokens: Tensor) -> Tensor:
    """s of pictures (N, C, H, W), normalised, and texts (M, T) of one length."""
    head: Any = model.head
    mask = torch.ones_like(tokens, dtype=torch.bool)
    vectors = [
        head.vectors(side, model.encode(Batch(tensors=tensors, ids=(), targets=0), side))
        for side, tensors in {
            "source": {"source": pixels},
            "target": {"target": tokens, "target_mask": mask},
        }.items()
    ]
    found: Tensor = head.logits(*vectors)
    return found


# For an export


def weights(family: Any, model: Model, scale: bool) -> Iterator[tuple[str, Tensor]]:
    """Their names and tensors."""
    own = {name: each.detach() for name, each in model.named_parameters()}
    for name, places, form in families.layers(family, iter(own)):
        tensor = families.theirs(own[name], form, 1)
        if name.endswith("embedding.weight") and scale:
            tensor = tensor * tensor.shape[1] ** 0.5
        several = tensor.chunk(len(places)) if len(places) > 1 else [tensor]
        yield from (
            (place, each.clone(memory_format=torch.contiguous_format))
            for place, each in zip(places, several, strict=True)
        )


def about(fields: Any, settings: Table, architecture: str) -> dict[str, Table]:
    """config.json and preprocessor_config.json."""
    source, target = fields
    form, by = source.config.form, target.tokenizer
    if form.height != form.width:
        raise UserError(f"source.size: {form.height} × {form.width} pixels; there, both are equal")
    ids = {"bos_token_id": by.start, "eos_token_id": by.end, "pad_token_id": by.pad}
    text = settings["text_config"] | ids | {"vocab_size": len(by)}
    vision = {"image_size": form.height, "num_channels": form.channels}
    return {
        "config.json": {
            **settings,
            "architectures": [architecture],
            "model_type": "clip",
            "text_config": text,
            "vision_config": settings["vision_config"] | vision,
            "dtype": "float32",
            "regard": __version__,
        },
        image_folders.PROCESSOR: image_folders.processor(source),
    }


def drawn(fields: Any) -> tuple[Tensor, Tensor]:
    """Random pictures, and texts of random tokens."""
    source, target = fields
    chance = torch.Generator().manual_seed(1)
    tokens = torch.randint(len(target.tokenizer), (ROWS, LENGTH), generator=chance)
    return image_folders.drawn(source), tokens
