"""Folders of Hugging Face as small as can be, of each kind that reads other files."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.sentencepieces import sentencepieces

ROWS, DIM, LIMIT = 7, 4, 11
Shapes = dict[str, tuple[int, ...]]
CONFIG = {
    "model_type": "gpt2",
    "vocab_size": ROWS,
    "n_embd": DIM,
    "n_positions": LIMIT,
    "n_layer": 1,
    "n_head": 2,
    "eos_token_id": 0,
}
SIZES = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": DIM}
BERT = {
    "model_type": "bert",
    "vocab_size": ROWS,
    "max_position_embeddings": LIMIT,
    "intermediate_size": 3,
    **SIZES,
}
VIT = {
    "model_type": "vit",
    "image_size": 4,
    "patch_size": 2,
    "num_channels": 1,
    "intermediate_size": 3,
    "id2label": {"0": "a", "1": "b"},
    **SIZES,
}
MARIAN = {
    "model_type": "marian",
    "vocab_size": ROWS,
    "d_model": DIM,
    "max_position_embeddings": LIMIT,
    "pad_token_id": ROWS - 1,
    "eos_token_id": 0,
    "decoder_start_token_id": ROWS - 1,
    **{f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in
       (("layers", 1), ("attention_heads", 2), ("ffn_dim", 3))},
}  # fmt: skip
PIECES = {"▁a": -1.0, "▁b": -2.0, "▁": -3.0}
NUMBERS = {name: n for n, name in enumerate(["</s>", "<unk>", *PIECES, "c", "<pad>"])}


def put(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def tree(*special: str) -> dict[str, Any]:
    """A tokenizer of three words, or of these special tokens and one word."""
    words = [*special, "a"] if special else ["<end>", "a", "b"]
    made = Tokenizer(
        models.WordLevel({word: n for n, word in enumerate(words)}, unk_token=words[-1])
    )
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    found: dict[str, Any] = json.loads(made.to_str())
    return found


def tensors() -> dict[str, torch.Tensor]:
    """Those of GPT-2."""
    shapes: Shapes = {
        "wte.weight": (ROWS, DIM),
        "wpe.weight": (LIMIT, DIM),
        "h.0.attn.c_attn.weight": (DIM, 3 * DIM),
        "h.0.attn.c_attn.bias": (3 * DIM,),
        "h.0.attn.c_proj.weight": (DIM, DIM),
        "h.0.attn.c_proj.bias": (DIM,),
        "h.0.mlp.c_fc.weight": (DIM, 4 * DIM),
        "h.0.mlp.c_fc.bias": (4 * DIM,),
        "h.0.mlp.c_proj.weight": (4 * DIM, DIM),
        "h.0.mlp.c_proj.bias": (DIM,),
    }
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        shapes |= norm(name)
    return zeros(shapes)


def zeros(shapes: Shapes) -> dict[str, torch.Tensor]:
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


def norm(name: str) -> Shapes:
    return {f"{name}.weight": (DIM,), f"{name}.bias": (DIM,)}


def linear(name: str, outputs: int, inputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def block(prefix: str, attention: str, *names: str) -> Shapes:
    """Queries, keys and values, and what `names` say: output, both of the feedforward, norms."""
    found: Shapes = {}
    for each in attention.split():
        found |= linear(f"{prefix}.{each}", DIM, DIM)
    output, up, down, *norms = names
    found |= linear(f"{prefix}.{output}", DIM, DIM) | linear(f"{prefix}.{up}", 3, DIM)
    found |= linear(f"{prefix}.{down}", DIM, 3)
    for name in norms:
        found |= norm(f"{prefix}.{name}")
    return found


def gpt2(folder: Path) -> None:
    put(folder / "config.json", CONFIG)
    put(folder / "tokenizer.json", tree())
    save_file(tensors(), folder / "model.safetensors")


def bert(folder: Path) -> None:
    put(folder / "config.json", BERT)
    put(folder / "tokenizer.json", tree("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    inside = ["self.query", "self.key", "self.value"]
    shapes: Shapes = {
        f"bert.embeddings.{name}_embeddings.weight": (rows, DIM)
        for name, rows in (("word", ROWS), ("position", LIMIT), ("token_type", 2))
    }
    shapes |= norm("bert.embeddings.LayerNorm") | norm("cls.predictions.transform.LayerNorm")
    shapes |= linear("cls.predictions.transform.dense", DIM, DIM) | {
        "cls.predictions.bias": (ROWS,)
    }
    shapes |= block(
        "bert.encoder.layer.0", " ".join(f"attention.{each}" for each in inside),
        "attention.output.dense", "intermediate.dense", "output.dense",
        "attention.output.LayerNorm", "output.LayerNorm",
    )  # fmt: skip
    save_file(zeros(shapes), folder / "model.safetensors")


def vit(folder: Path) -> None:
    put(folder / "config.json", VIT)
    put(folder / "preprocessor_config.json", {"image_mean": [0.5], "image_std": [0.5]})
    shapes: Shapes = {
        "vit.embeddings.cls_token": (1, 1, DIM),
        "vit.embeddings.position_embeddings": (1, 5, DIM),
        "vit.embeddings.patch_embeddings.projection.weight": (DIM, 1, 2, 2),
        "vit.embeddings.patch_embeddings.projection.bias": (DIM,),
    }
    inside = ["query", "key", "value"]
    shapes |= block(
        "vit.encoder.layer.0", " ".join(f"attention.attention.{each}" for each in inside),
        "attention.output.dense", "intermediate.dense", "output.dense",
        "layernorm_before", "layernorm_after",
    )  # fmt: skip
    shapes |= norm("vit.layernorm") | linear("classifier", 2, DIM)
    save_file(zeros(shapes), folder / "model.safetensors")


def marian(folder: Path) -> None:
    put(folder / "config.json", MARIAN)
    put(folder / "vocab.json", NUMBERS)
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(sentencepieces(PIECES))
    shapes: Shapes = {"model.shared.weight": (ROWS, DIM), "final_logits_bias": (1, ROWS)}
    cross = (f"encoder_attn.{each}_proj" for each in ("q", "k", "v", "out"))
    for side in ("encoder", "decoder"):
        shapes |= block(
            f"model.{side}.layers.0", "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
            "self_attn.out_proj", "fc1", "fc2", "self_attn_layer_norm", "final_layer_norm",
        )  # fmt: skip
    for each in cross:
        shapes |= linear(f"model.decoder.layers.0.{each}", DIM, DIM)
    shapes |= norm("model.decoder.layers.0.encoder_attn_layer_norm")
    save_file(zeros(shapes), folder / "model.safetensors")


def two_sided(folder: Path) -> None:
    """Marian as an export writes it where its sides have tokenizers of their own."""
    marian(folder)
    words = tree(*sorted(NUMBERS, key=lambda name: NUMBERS[name])[:-1])
    for side in ("source", "target"):
        (folder / f"{side}.spm").unlink()
        put(folder / f"{side}.tokenizer.json", words)


FAMILIES: dict[str, Callable[[Path], None]] = {
    "gpt2": gpt2,
    "bert": bert,
    "vit": vit,
    "marian": marian,
    "two-sided": two_sided,
}
READ = {
    "gpt2": "config.json tokenizer.json special_tokens_map.json tokenizer_config.json "
    "generation_config.json chat_template.jinja model.safetensors model.safetensors.index.json",
    "bert": "tokenizer.json tokenizer_config.json model.safetensors",
    "vit": "preprocessor_config.json model.safetensors",
    "marian": "source.spm target.spm vocab.json special_tokens_map.json generation_config.json",
    "two-sided": "source.tokenizer.json target.tokenizer.json",
}
"""The files that an import reads."""


def places() -> Iterator[tuple[str, str]]:
    for family, names in READ.items():
        for name in names.split():
            yield family, name
