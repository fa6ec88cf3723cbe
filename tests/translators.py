"""Tiny translation models, and what our own search and teacher forcing make of them."""

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.tokenizers import Tokenizer
from regard.decoding.translation import collate
from regard.interop import ctranslate2, kept, nearness
from regard.interop.ctranslate2 import Engine
from regard.model import Model, build
from regard.recipe import config
from regard.recipe.config import Recipe
from regard.recipe.parts import Part, module
from regard.search import Hypothesis, Request
from regard.train import manifest
from tests.field_sizes import texts

SOURCES, TARGETS = 29, 31
FORBIDDEN = (Tokenizer.pad, Tokenizer.start, Tokenizer.unknown)
Found = list[list[Hypothesis]]


def recipe_of(*overrides: str, **part: Any) -> Recipe:
    """A tiny Transformer; `part` is for encoder and decoder alike."""
    table: dict[str, Any] = {
        "task": "translate",
        "data": {"train": ["a", "b"], "max_length": 20},
        "output": {"factor": 1.5, "extra": 3},
        "tokenizer": {"joint": False},
        "model": {
            "dim": 16,
            "tie": "output",
            "encoder": {"layers": 2, "heads": 2, "feedforward": 24} | part,
            "decoder": {"layers": 3, "heads": 4, "feedforward": 20} | part,
        },
    }
    for override in overrides:
        config._override(table, override)
    return config.recipe(table)


def random_model(recipe: Recipe, seed: int = 0) -> Model:
    """Weights large enough that distributions have peaks, and biases and norms that matter."""
    torch.manual_seed(seed)
    shared = recipe.task.tokenizer.joint
    sizes = texts(TARGETS, TARGETS if shared else SOURCES, shared=shared)
    model = build(recipe.model, sizes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn_like(parameter)
            parameter.copy_(0.4 * noise if parameter.ndim > 1 else parameter + 0.3 * noise)
    return model


def converted(model: Model, recipe: Recipe, folder: Path, **options: Any) -> Engine:
    folder.mkdir(exist_ok=True)
    ctranslate2.convert(model, recipe, folder)
    return Engine(folder, **{"workers": 1, **options})


def random_rows(symbols: int, *lengths: int) -> list[list[int]]:
    chance = np.random.default_rng(7)
    return [chance.integers(Tokenizer.unknown + 1, symbols, n).tolist() for n in lengths]


def ask(caps: list[int], **options: Any) -> Request:
    numbers = tuple(range(len(caps)))
    start, end = Tokenizer.start, Tokenizer.end
    return Request(start, end, caps, forbidden=FORBIDDEN, numbers=numbers, **options)


def native(model: Model, sources: list[list[int]], request: Request, search: Part) -> Found:
    with torch.inference_mode():
        batch = collate(sources, [[] for _ in sources])
        found: Found = module("search", search.kind).search(
            model.step, model.start(batch), request, search.config
        )
    return found


def teacher_forced(
    model: Model, sources: list[list[int]], targets: list[list[int]]
) -> list[list[float]]:
    """log p of each target's tokens and its end, the forbidden ones left out."""
    with torch.inference_mode():
        batch = collate(sources, targets)
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        logits = model.head.logits(hidden).index_fill(-1, torch.tensor(FORBIDDEN), -torch.inf)
        chosen = logits.log_softmax(-1).gather(-1, batch["target_out"][..., None])[..., 0]
    return [row[: len(target) + 1].tolist() for row, target in zip(chosen, targets, strict=True)]


def assert_same(theirs: Found, ours: Found, tolerance: float = 2e-5) -> None:
    assert [[h.tokens for h in best] for best in theirs] == [[h.tokens for h in b] for b in ours]
    for a, b in zip(chain(*theirs), chain(*ours), strict=True):
        assert a.finished == b.finished
        assert a.score == pytest.approx(b.score, abs=tolerance)
        assert a.log_probs == pytest.approx(b.log_probs, abs=tolerance)


def signed(engine: Path) -> None:
    """Make the hashes in an engine's folder agree with what is there."""
    learnt_from = manifest.read(engine)["run"]
    for name in (manifest.NAME, nearness.NAME):
        (engine / name).unlink(missing_ok=True)
    kept.seal(engine, learnt_from)
