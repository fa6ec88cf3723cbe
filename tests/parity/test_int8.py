"""Quantized models of CTranslate2: what they must give is known, and the same everywhere."""

import copy
import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.tokenizers import Tokenizer
from regard.decoding.translation import collate
from regard.interop import Quantization, conversion, ctranslate2
from regard.interop.conversion import int8, names
from regard.interop.ctranslate2 import Engine
from regard.model import Model, build
from regard.recipe.config import Recipe
from regard.recipe.parts import Part
from regard.search import beam
from tests.field_sizes import texts
from tests.translators import (
    ask,
    assert_same,
    converted,
    native,
    random_rows,
    recipe_of,
    teacher_forced,
)

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (regard[ctranslate2])")

SOURCES = random_rows(12, *[3 + n % 4 for n in range(40)])
TARGETS = [source[::-1] for source in SOURCES]
Floats = NDArray[np.floating]


@pytest.fixture(scope="module")
def reverser() -> tuple[Model, Recipe]:
    """Has learnt to write three to six tokens backwards, more or less."""
    torch.manual_seed(1)
    shared = ("tokenizer.joint=true", "model.tie=all", "model.dim=32")
    recipe = recipe_of(*shared, dropout=0.0, norm="pre", layers=2)
    model = build(recipe.model, texts(12, 12, shared=True))
    steps = torch.optim.Adam(model.parameters(), 6e-3)
    chance = np.random.default_rng(2)
    for _ in range(200):
        rows = [chance.integers(4, 12, n).tolist() for n in chance.integers(3, 7, 24)]
        batch = collate(rows, [row[::-1] for row in rows])
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        term = model.head.loss(hidden, batch["target_out"], batch["target_mask"])["smoothed"]
        steps.zero_grad()
        (term.sum / term.count).backward()
        steps.step()
    return model.eval(), recipe


def test_a_trained_model_finds_the_same(reverser: tuple[Model, Recipe], tmp_path: Path):
    model, recipe = reverser
    engine = converted(model, recipe, tmp_path)
    sources = random_rows(12, *[3 + n % 4 for n in range(24)])
    request = ask([2 * len(source) + 10 for source in sources])
    search = Part("beam", beam.Config(nbest=5))
    ours = native(model, sources, request, search)
    right = [list(best[0].tokens) == s[::-1] for best, s in zip(ours, sources, strict=True)]
    assert sum(right) > 8, "it should have learnt something"
    assert_same(engine.find(sources, request, search), ours, tolerance=1e-4)


def scores(engine: Engine) -> Floats:
    return np.concatenate(engine.score(SOURCES, TARGETS))


def expected(model: Model) -> Floats:
    return np.concatenate(teacher_forced(model, SOURCES, TARGETS))


@pytest.fixture(scope="module")
def folders(
    reverser: tuple[Model, Recipe], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    model, recipe = reverser
    before = {name: p.clone() for name, p in model.named_parameters()}
    made: dict[str, Path] = {}
    kinds: tuple[Quantization, ...] = ("float32", "int8", "float16", "bfloat16")
    for kind in kinds:
        made[kind] = tmp_path_factory.mktemp(kind)
        ctranslate2.convert(model, recipe, made[kind], kind)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    return made


def test_fewer_bits_are_fewer_bytes(folders: dict[str, Path]):
    sizes = {kind: (folder / "model.bin").stat().st_size for kind, folder in folders.items()}
    assert sizes["int8"] < 0.6 * sizes["float32"]
    assert sizes["float16"] == sizes["bfloat16"] < 0.6 * sizes["float32"]


def rounded(x: Tensor) -> Tensor:
    """Each row as whole numbers up to ± 127 times its own factor: what a product of bytes reads."""
    scale = 127 / x.abs().amax(-1, keepdim=True).clamp_min(1e-30)
    return torch.round(x * scale) / scale


@pytest.fixture
def emulated(reverser: tuple[Model, Recipe], monkeypatch: pytest.MonkeyPatch) -> Floats:
    """int8 by its definition: every product of rounded weights with rounded inputs, exactly."""
    model = copy.deepcopy(reverser[0])
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                whole, scale = int8(parameter.numpy())
                parameter.copy_(torch.from_numpy(whole / scale[:, None]))
    logits = model.head.logits
    monkeypatch.setattr(model.head, "logits", lambda hidden: logits(rounded(hidden)))

    def product(layer: nn.Linear, x: Tensor) -> Tensor:
        return F.linear(rounded(x), layer.weight, layer.bias)

    monkeypatch.setattr(nn.Linear, "forward", product)
    return expected(model)


def assert_near(found: Floats, wanted: Floats, original: Floats) -> None:
    """A sum in another order may tip a rounding over, rarely: no more than a trifle of what
    quantization itself changes."""
    changed = np.abs(wanted - original).mean()
    assert changed > 1e-3, "quantization should be seen"
    assert np.abs(found - wanted).mean() < 0.1 * changed


def test_int8_is_what_its_definition_says(
    reverser: tuple[Model, Recipe], folders: dict[str, Path], emulated: Floats
):
    assert_near(scores(Engine(folders["int8"], workers=1)), emulated, expected(reverser[0]))


SCORE = """
import json, sys
sys.modules.update(regard=None, torch=None)
from ctranslate2 import Translator
sources, targets = json.loads(sys.argv[2])
found = Translator(sys.argv[1]).score_batch(sources, targets)
print(json.dumps([value for each in found for value in each.log_probs]))
"""


@pytest.mark.parametrize("instructions", ["SSE41", "AVX2", "AVX512_CORE"])
def test_int8_needs_no_instructions_of_its_own(
    instructions: str, reverser: tuple[Model, Recipe], folders: dict[str, Path]
):
    """As if on an older processor, where sums of two products have 16 bits. (Another kind of
    processor than x86 is as it is.)"""
    given = json.dumps(
        [[names([*source, Tokenizer.end]) for source in SOURCES], [*map(names, TARGETS)]]
    )
    found = subprocess.run(
        [sys.executable, "-c", SCORE, str(folders["int8"]), given],
        capture_output=True,
        text=True,
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": instructions},
    )
    assert found.returncode == 0, found.stderr
    here = scores(Engine(folders["int8"], workers=1))
    assert_near(np.array(json.loads(found.stdout)), here, expected(reverser[0]))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_short_floats_are_rounded_and_nothing_else(
    kind: str, reverser: tuple[Model, Recipe], folders: dict[str, Path]
):
    """Computed in float32, which every processor has."""
    model = copy.deepcopy(reverser[0])
    with torch.no_grad():
        for tensor in chain(model.parameters(), model.buffers()):
            tensor.copy_(tensor.to(getattr(torch, kind)).float())
    translator = conversion.library().Translator(str(folders[kind]), compute_type="float32")
    found = translator.score_batch(
        [names([*source, Tokenizer.end]) for source in SOURCES],
        [names(target) for target in TARGETS],
    )
    values = np.concatenate([each.log_probs for each in found])
    assert values == pytest.approx(expected(model), abs=1e-4)
    assert np.abs(values - expected(reverser[0])).max() > 1e-3, "rounding should be seen"
