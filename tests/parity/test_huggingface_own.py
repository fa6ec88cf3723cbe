"""Runs of regard's own shapes, as the transformers library loads them."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

from regard.data.tokenizers import Config as Cutting, Tokenizer  # noqa: E402
from regard.errors import UserError  # noqa: E402
from regard.interop import importing  # noqa: E402
from regard.interop.importing import Imported  # noqa: E402
from regard.interop.shipping import ship  # noqa: E402
from regard.model import build  # noqa: E402
from regard.recipe import config  # noqa: E402
from regard.runs import Run  # noqa: E402
from regard.train.checkpoint import weights_of  # noqa: E402

SHAPES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "the task's own": ("gpt_neox", {}, {}),
    "learned positions": ("gpt2", {"position": "learned", "limit": 61, "activation": "relu"}, {}),
    "a part of each head, tied": (
        "gpt_neox",
        {"rotary_fraction": 0.5, "rotary_base": 500.0, "parallel": True},
        {"tie": "output", "scale": False},
    ),
    "grouped queries": (
        "llama",
        {"normalisation": "rms", "activation": "swiglu", "bias": False, "key_value_heads": 2},
        {},
    ),
    "biases of queries, keys and values": (
        "qwen2",
        {
            "normalisation": "rms",
            "activation": "swiglu",
            "bias": False,
            "query_key_value_bias": True,
            "rotary_layout": "halves",
        },
        {},
    ),
}


def made(folder: Path, decoder: dict[str, Any], model: dict[str, Any], **head: Any) -> Run:
    """A run that has not learnt anything: every weight is drawn."""
    small = {"kind": "transformer", "layers": 2, "heads": 4, "feedforward": 23, "norm": "pre"}
    small |= {"position": "rotary", "activation": "gelu", **decoder}
    recipe = config.from_table(
        {
            "task": "language_model",
            "unit": "line",
            "data": {"train": ["none"], "max_length": 40},
            "tokenizer": {"kind": "bytes"},
            "model": {
                "dim": 32,
                "tie": "none",
                "decoder": small,
                "head": {"bias": False, **head},
                **model,
            },
        }
    )
    by = Tokenizer.train(Cutting(kind="bytes"), [])
    sizes = importing.sizes_of_task(recipe, texts := {"target.tokenizer.json": by.json})
    torch.manual_seed(5)
    drawn = build(recipe.model, sizes)
    for name, parameter in drawn.named_parameters():
        nn.init.normal_(parameter, mean=float(name.endswith("norm.weight")), std=0.3)
    return importing.write(Imported(recipe, sizes, texts, weights_of(drawn)), folder, folder)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_of_our_own_is_loaded_there(shape: str, tmp_path: Path) -> None:
    """Neighbours that turn together become halves, and what scales an embedding goes into it."""
    family, decoder, model = SHAPES[shape]
    run = made(tmp_path / "run", decoder, model)
    assert ship(run, tmp_path / "out", "huggingface").parity["family"] == family
    other = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokens = torch.randint(260, (3, 37))
    with torch.inference_mode():
        ours = importing.logits(run.model(), tokens)
        torch.testing.assert_close(other(tokens).logits, ours, rtol=1e-4, atol=1e-4)
    cut = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    by = run.task.fields["target"].tokenizer
    for text in ("the quick fox", "größer 東京", " <end>, \t"):
        rows = by.encode([text])[0]
        assert cut(text)["input_ids"][-len(rows) :] == rows or "<end>" in text
        assert cut.decode(rows) == text or "<end>" in text
    assert (cut.eos_token_id, cut.bos_token_id) == (by.end, by.start)


@pytest.mark.parametrize(
    ("decoder", "model", "head", "message"),
    [
        ({}, {}, {"bias": True}, r"model\.head\.bias is true"),
        ({}, {"tie": "output"}, {}, r"model\.scale is true"),
        ({"position": "sinusoidal"}, {}, {}, r"has the shape of no family there: gpt2: model\.dec"),
        ({"embedding_norm": True}, {}, {}, r"model\.decoder\.embedding_norm is True, wanted: Fal"),
    ],
)
def test_what_no_family_has_is_named(
    decoder: Any, model: Any, head: Any, message: str, tmp_path: Path
) -> None:
    run = made(tmp_path / "run", decoder, model, **head)
    with pytest.raises(UserError, match=message):
        ship(run, tmp_path / "out", "huggingface")
    assert not (tmp_path / "out").exists()
