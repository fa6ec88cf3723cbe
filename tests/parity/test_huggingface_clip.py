"""CLIP of the transformers library and the run that is made of it find the same things alike."""

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
from regard.data.batching import Draw  # noqa: E402
from regard.errors import UserError  # noqa: E402
from regard.interop import importing, pair_folders  # noqa: E402
from regard.interop.exporting import export  # noqa: E402
from tests.parity.huggingface_models import ROWS, byte_level  # noqa: E402

SIZE, LIMIT = 24, 19
SPECIAL = {"start": "<|startoftext|>", "end": "<|endoftext|>"}


def model(activation: str = "quick_gelu") -> Any:
    torch.manual_seed(3)
    common = {"num_hidden_layers": 2, "hidden_act": activation, "projection_dim": 13}
    tokenizer = byte_level(SPECIAL)
    text = common | {
        "hidden_size": 20, "num_attention_heads": 5, "intermediate_size": 28, "vocab_size": ROWS,
        "max_position_embeddings": LIMIT,
        "bos_token_id": tokenizer.token_to_id(SPECIAL["start"]),
        "eos_token_id": tokenizer.token_to_id(SPECIAL["end"]),
        "pad_token_id": tokenizer.token_to_id(SPECIAL["end"]),
    }  # fmt: skip
    vision = common | {
        "hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 36,
        "image_size": SIZE, "patch_size": 8,
    }  # fmt: skip
    settings = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=13)
    made = transformers.CLIPModel(settings)
    for name, parameter in made.named_parameters():
        if name != "logit_scale":
            torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def processor() -> Any:
    kind = transformers.models.clip.image_processing_pil_clip.CLIPImageProcessorPil
    return kind(size={"shortest_edge": SIZE}, crop_size={"height": SIZE, "width": SIZE})


def imported(tmp_path: Path, made: Any) -> Any:
    folder = tmp_path / "theirs"
    made.save_pretrained(folder)
    processor().save_pretrained(folder)
    byte_level(SPECIAL).save(str(folder / "tokenizer.json"))
    return importing.run(folder, tmp_path / "run")


def tokens(made: Any, rows: int = 4) -> torch.Tensor:
    """START, random tokens, END."""
    text = made.config.text_config
    found = torch.randint(2, 200, (rows, 9))
    found[:, 0], found[:, -1] = text.bos_token_id, text.eos_token_id
    return found


def theirs(made: Any, pixels: torch.Tensor, ids: torch.Tensor) -> Any:
    return made(input_ids=ids, pixel_values=pixels).logits_per_image


@pytest.mark.parametrize("activation", ["quick_gelu", "gelu"])
def test_the_logits_are_the_same(tmp_path: Path, activation: str):
    made = model(activation)
    run = imported(tmp_path, made)
    pixels, ids = torch.randn(3, 3, SIZE, SIZE), tokens(made)
    with torch.inference_mode():
        ours = pair_folders.logits(run.model(), pixels, ids)
        torch.testing.assert_close(ours, theirs(made, pixels, ids), atol=1e-5, rtol=1e-5)


def test_a_picture_finds_its_text(tmp_path: Path):
    """From files and texts: pixels, tokens, probabilities."""
    made = model()
    imported(tmp_path, made)
    pixels = np.random.default_rng(1).integers(0, 256, (31, 47, 3), np.uint8)
    Image.fromarray(pixels).resize((94, 62), Image.Resampling.BICUBIC).save(tmp_path / "x.png")
    texts = ["a fox", "the lazy dog"]
    found = regard.load(tmp_path / "run", choices=texts)
    source = next(iter(found.task.fields.values()))
    ours = source.collate(source.encode([str(tmp_path / "x.png")]), [0], Draw())["source"]
    seen = processor()(Image.open(tmp_path / "x.png"), return_tensors="np")["pixel_values"]
    assert np.abs(ours - seen).max() < 1e-3
    text = made.config.text_config
    by = byte_level(SPECIAL)
    with torch.inference_mode():
        rows = [[text.bos_token_id, *by.encode(t).ids, text.eos_token_id] for t in texts]
        logits = [theirs(made, torch.from_numpy(seen), torch.tensor([row])).item() for row in rows]
    [said] = found.predictions([str(tmp_path / "x.png")])
    expected = torch.tensor(logits).softmax(0).tolist()
    assert [*said.probabilities] == texts
    np.testing.assert_allclose([*said.probabilities.values()], expected, atol=1e-3)


def test_back_and_forth(tmp_path: Path):
    made = model()
    run = imported(tmp_path, made)
    assert export(run, tmp_path / "ours").difference < 1e-5
    again = transformers.CLIPModel.from_pretrained(tmp_path / "ours").eval()
    pixels, ids = torch.randn(2, 3, SIZE, SIZE), tokens(made)
    with torch.inference_mode():
        ours = pair_folders.logits(run.model(), pixels, ids)
        torch.testing.assert_close(ours, theirs(again, pixels, ids), atol=1e-5, rtol=1e-5)


def test_without_choices_nothing_is_predicted(tmp_path: Path):
    imported(tmp_path, model())
    with pytest.raises(UserError, match="--choices"):
        regard.load(tmp_path / "run").predict([str(tmp_path / "x.png")])
