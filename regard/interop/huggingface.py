"""Hugging Face: a MarianMT model becomes one of ours, from its own folder.

`save_pretrained` writes config.json and model.safetensors; nothing else is read, and nothing is
ever unpickled. Marian is the paper's Transformer with post-norm and tied embeddings. It differs
from our defaults in three ways: the sinusoid stands as [sin | cos], each token has a bias, and
an output starts from the padding symbol.

    imported = load(Path("opus-mt-en-de"))
    model = imported.model()
    logits, state = model.step(torch.tensor([[imported.start]]), model.start(batch))
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.errors import UserError
from regard.heads import vocabulary
from regard.inputs import tokens
from regard.layers import transformer
from regard.layers.position import sinusoid
from regard.model import Config, Model, build
from regard.recipe import checked
from regard.recipe.parts import Part
from regard.train.checkpoint import put_weights
from regard.types import Sizes

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}

# Our name of each layer of a block, and theirs; several are stacked into one.
BLOCK = {
    "attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.out_proj",),
    "around_attention.norm": ("self_attn_layer_norm",),
    "feedforward.up": ("fc1",),
    "feedforward.down": ("fc2",),
    "around_feedforward.norm": ("final_layer_norm",),
}
CROSS = {
    "cross.query": ("encoder_attn.q_proj",),
    "cross.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross.output": ("encoder_attn.out_proj",),
    "around_cross.norm": ("encoder_attn_layer_norm",),
}

# Where a table of embeddings may stand: its own place first, then what it may be tied to.
SHARED = "model.shared.weight"
SOURCE = "model.encoder.embed_tokens.weight"
TARGET = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "all": {"input.embedding.weight": (SHARED, TARGET, SOURCE, OUTPUT)},
    "output": {"input.embedding.weight": (SOURCE,), "decoder.embedding.weight": (TARGET, OUTPUT)},
    "none": {
        "input.embedding.weight": (SOURCE, SHARED),
        "decoder.embedding.weight": (TARGET, SHARED),
        "head.weight": (OUTPUT,),
    },
}
BIAS = "final_logits_bias"
POSITIONS = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Somebody else's model in our terms."""

    config: Config
    sizes: Sizes
    weights: dict[str, Tensor]
    """By our names; a tied one once."""
    start: int
    """The token that the decoder reads first."""
    end: int
    """The token that ends a source and an output."""
    pad: int
    """The token that fills a row up; it is never written."""

    def model(self) -> Model:
        """The model, ready to predict."""
        made = build(self.config, self.sizes)
        put_weights(made, self.weights, "the imported model")
        return made.eval()


def load(folder: Path) -> Imported:
    """The model in a folder that `save_pretrained` wrote."""
    path, weights = folder / "config.json", folder / "model.safetensors"
    try:
        table = checked.read(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None
    if not weights.is_file() and (folder / "pytorch_model.bin").is_file():
        raise UserError(
            f"{folder} has pickled weights alone (pytorch_model.bin), which are never opened: have "
            "the transformers library write it anew, with save_pretrained"
        )
    try:
        state = load_file(weights)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{weights}: {error}") from None
    try:
        return marian(table, state)
    except (UserError, RuntimeError, ValueError) as error:  # tensors of shapes that do not fit
        raise UserError(f"{folder}: {error}") from None


def marian(table: Mapping[str, Any], state: Mapping[str, Tensor]) -> Imported:
    """From the settings and the weights of a `MarianMTModel`."""
    config, sizes = marian_config(table)
    return Imported(
        config=config,
        sizes=sizes,
        weights=marian_weights(config, sizes, state),
        start=_number(table, "decoder_start_token_id", 0),
        end=_number(table, "eos_token_id", 0),
        pad=_number(table, "pad_token_id", 0),
    )


def marian_config(table: Mapping[str, Any]) -> tuple[Config, Sizes]:
    """The model's settings and sizes from those of a `MarianConfig`."""
    if table.get("model_type") != "marian":
        raise UserError(
            f"model_type: {table.get('model_type')!r} cannot be imported, only 'marian'"
        )
    for key in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        if table.get(key):
            raise UserError(f"{key}: a Marian model with it cannot be imported")
    source = _number(table, "vocab_size")
    shared = bool(table.get("share_encoder_decoder_embeddings", True))
    separate = not shared and table.get("decoder_vocab_size") is not None
    target = _number(table, "decoder_vocab_size") if separate else source
    tied = bool(table.get("tie_word_embeddings", True))
    config = Config(
        dim=_number(table, "d_model"),
        tie="none" if not tied else "all" if shared else "output",
        scale=bool(table.get("scale_embedding", False)),
        input=Part("tokens", tokens.Config()),
        encoder=Part("transformer", _stack(table, "encoder")),
        decoder=Part("transformer", _stack(table, "decoder")),
        head=Part("vocabulary", vocabulary.Config(bias=True)),
    )
    fields = {"source": {"tokens": source}, "target": {"tokens": target, "outputs": target}}
    return config, Sizes(fields, reads="source", writes="target", shared=shared)


def _stack(table: Mapping[str, Any], side: str) -> transformer.Config:
    activation = table.get("activation_function")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise UserError(f"activation_function: {activation!r} is not one of {known}")
    return transformer.Config(
        layers=_number(table, f"{side}_layers"),
        heads=_number(table, f"{side}_attention_heads"),
        feedforward=_number(table, f"{side}_ffn_dim"),
        activation=ACTIVATIONS[activation],  # type: ignore[arg-type]
        dropout=_share(table, "dropout"),
        feedforward_dropout=_share(table, "activation_dropout"),
        limit=_number(table, "max_position_embeddings"),
        layout="halves",
    )


def marian_weights(config: Config, sizes: Sizes, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our names and their tensors; every one of theirs must have been understood."""
    used = {SHARED, SOURCE, TARGET, OUTPUT, BIAS, *POSITIONS}

    def take(name: str) -> Tensor:
        used.add(name)
        if name not in state:
            raise UserError(f"{name}: missing among the weights")
        return state[name].float()

    weights: dict[str, Tensor] = {}
    for ours, places in TABLES[config.tie].items():
        weights[ours] = take(next((name for name in places if name in state), places[0]))
    for side, part in (("encoder", config.encoder), ("decoder", config.decoder)):
        assert part is not None
        layers = BLOCK if side == "encoder" else BLOCK | CROSS
        for number in range(part.config.layers):
            theirs = f"model.{side}.layers.{number}"
            for ours, names in layers.items():
                for kind in ("weight", "bias"):
                    blocks = [take(f"{theirs}.{name}.{kind}") for name in names]
                    weights[f"{side}.blocks.{number}.{ours}.{kind}"] = torch.cat(blocks)
    outputs = sizes.of(sizes.writes)["outputs"]
    weights["head.bias"] = take(BIAS).flatten() if BIAS in state else torch.zeros(outputs)
    if unknown := sorted(state.keys() - used):
        raise UserError(f"{unknown[0]}: no place for these weights in a Marian model")
    _check_positions(state)
    return weights


def _check_positions(state: Mapping[str, Tensor]) -> None:
    """Older files hold the sinusoid itself; another table would be another model."""
    for name in POSITIONS:
        if name in state:
            table = state[name].float()
            length, dim = table.shape
            if not torch.allclose(table, sinusoid(length, dim, "halves"), atol=1e-3):
                raise UserError(f"{name}: not the sinusoid that Marian uses")


def _number(table: Mapping[str, Any], key: str, least: int = 1) -> int:
    value = table.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(f"{key}: {value!r} given, wanted an integer ≥ {least}")
    return value


def _share(table: Mapping[str, Any], key: str) -> float:
    value = table.get(key, 0.0)
    if not isinstance(value, int | float) or not 0 <= value < 1:
        raise UserError(f"{key}: {value!r} given, wanted a number ≥ 0 and < 1")
    return float(value)
