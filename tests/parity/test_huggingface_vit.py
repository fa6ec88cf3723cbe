"""ViT of the transformers library and the run that is made of it say the same of pictures."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

import regard  # noqa: E402 (transformers may be missing)
from regard.errors import UserError  # noqa: E402
from regard.interop import image_folders, importing  # noqa: E402
from regard.interop.exporting import export  # noqa: E402

SIZE, NAMES = 24, ["zebra", "ant", "crane", "crane", "bee"]


def model(**options: Any) -> Any:
    torch.manual_seed(3)
    settings = {
        "hidden_size": 20,
        "num_hidden_layers": 3,
        "num_attention_heads": 5,
        "intermediate_size": 28,
        "image_size": SIZE,
        "patch_size": 8,
        "num_channels": 3,
        "id2label": dict(enumerate(NAMES)),
    }
    made = transformers.ViTForImageClassification(transformers.ViTConfig(**settings | options))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def processor(**options: Any) -> Any:
    kind = transformers.models.vit.image_processing_pil_vit.ViTImageProcessorPil
    return kind(**{"size": {"height": SIZE, "width": SIZE}} | options)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    dice = np.random.default_rng(1)
    pixels = dice.integers(0, 256, (31, 47, 3), np.uint8)
    Image.fromarray(pixels).resize((94, 62), Image.Resampling.BICUBIC).save(tmp_path / "x.png")
    return tmp_path / "x.png"


def imported(tmp_path: Path, made: Any, prepare: Any) -> Any:
    made.save_pretrained(tmp_path / "theirs")
    prepare.save_pretrained(tmp_path / "theirs")
    return importing.run(tmp_path / "theirs", tmp_path / "run")


@pytest.mark.parametrize("options", [{}, {"layer_norm_eps": 1e-5, "hidden_act": "gelu_new"}])
def test_the_logits_are_the_same(tmp_path: Path, options: dict[str, Any]):
    made = model(**options)
    run = imported(tmp_path, made, processor())
    pixels = torch.randn(4, 3, SIZE, SIZE)
    with torch.inference_mode():
        ours = image_folders.logits(run.model(), pixels)
        theirs = made(pixel_values=pixels).logits
    assert run.task.names == ("ant", "bee", "crane (2)", "crane (3)", "zebra")
    torch.testing.assert_close(ours, theirs[:, [1, 4, 2, 3, 0]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "options", [{}, {"resample": 3, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]}]
)
def test_pictures_become_the_same_numbers(tmp_path: Path, picture: Path, options: dict[str, Any]):
    prepare = processor(**options)
    run = imported(tmp_path, model(), prepare)
    field = next(iter(run.task.fields.values()))
    from regard.data.batching import Draw

    ours = field.collate(field.encode([str(picture)]), [0], Draw())["source"]
    theirs = prepare(Image.open(picture), return_tensors="np")["pixel_values"]
    assert np.abs(ours - theirs).max() < 1e-3
    label = regard.load(tmp_path / "run").predict([str(picture)])
    assert label[0] in run.task.names


def test_cut_as_clip_does(tmp_path: Path, picture: Path):
    kind = transformers.models.clip.image_processing_pil_clip.CLIPImageProcessorPil
    size = {"height": SIZE, "width": SIZE}
    prepare = kind(size={"shortest_edge": SIZE}, crop_size=size)
    run = imported(tmp_path, model(), prepare)
    field = next(iter(run.task.fields.values()))
    assert field.config.resize == "crop"
    from regard.data.batching import Draw

    ours = field.collate(field.encode([str(picture)]), [0], Draw())["source"]
    theirs = prepare(Image.open(picture), return_tensors="np")["pixel_values"]
    assert np.abs(ours - theirs).max() < 1e-3


def test_back_and_forth(tmp_path: Path, picture: Path):
    run = imported(tmp_path, model(), processor())
    done = export(run, tmp_path / "ours")
    assert done.difference < 1e-5
    again = transformers.ViTForImageClassification.from_pretrained(tmp_path / "ours").eval()
    pixels = torch.randn(2, 3, SIZE, SIZE)
    with torch.inference_mode():
        torch.testing.assert_close(
            image_folders.logits(run.model(), pixels),
            again(pixel_values=pixels).logits,
            atol=1e-5,
            rtol=1e-5,
        )
    assert [*again.config.id2label.values()] == [*run.task.names]


def test_what_cannot_be_imported_is_named(tmp_path: Path):
    made = model(qkv_bias=False)
    made.save_pretrained(tmp_path / "theirs")
    with pytest.raises(UserError, match=r"config\.json: qkv_bias: False cannot be imported"):
        importing.run(tmp_path / "theirs", tmp_path / "run")
