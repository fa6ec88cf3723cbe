"""MarianMT (Junczys-Dowmunt et al. 2018): the paper's Transformer, post-norm, with tied embeddings.
It differs in three ways: the sinusoid stands as [sin | cos], each token has a bias, and an output
starts from the padding token."""

from typing import Any

from regard.interop.families import (
    Settings,
    Table,
    activation_name,
    layer,
    require,
    without_groups,
)

TASK, ARCHITECTURE, PREFIX = "translate", "MarianMTModel", "model."
BLOCK = {
    "attention.query_key_value": tuple(f"self_attn.{each}_proj" for each in "qkv"),
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
SHARED, OUTPUT = "model.shared", "lm_head"
SOURCE, TARGET = "model.encoder.embed_tokens", "model.decoder.embed_tokens"
NAMES = {
    "input.embedding": layer(SOURCE, instead=(SHARED, TARGET, OUTPUT)),
    "decoder.embedding": layer(TARGET, instead=(SHARED, OUTPUT)),
    "head.weight": layer(f"{OUTPUT}.weight"),
    "head.bias": layer("final_logits_bias", form="flat"),
    **{
        f"{side}.blocks.{{n}}.{ours}": layer(*(f"model.{side}.layers.{{n}}.{t}" for t in theirs))
        for side, names in (("encoder", BLOCK), ("decoder", BLOCK | CROSS))
        for ours, theirs in names.items()
    },
}
POSITIONS = r"model\.(encoder|decoder)\.embed_positions\.weight"
SPECIAL: dict[str, str] = {}
ABSENT = (
    POSITIONS,
    r"model\.shared\.weight",
    r"model\.(encoder|decoder)\.embed_tokens\.weight",
    r"lm_head\.weight",
)
TABLE = 4096
"""Positions whose sines are kept; those of later ones are computed when they are needed."""
SINUSOID = POSITIONS
"""Older files hold the sinusoid itself; another table would be another model."""


def recipe(settings: Settings) -> tuple[Table, int]:
    for key in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        settings.refuse(key, False)
    settings.refuse("share_encoder_decoder_embeddings", True)
    rows = settings.number("vocab_size")
    settings.refuse("decoder_vocab_size", rows)
    positions = settings.number("max_position_embeddings", 1024)
    tied = settings.flag("tie_word_embeddings", True)
    model = {
        "dim": settings.number("d_model", 1024),
        "tie": "all" if tied else "none",
        "scale": settings.flag("scale_embedding"),
        "input": {"kind": "tokens"},
        "encoder": _stack(settings, "encoder", positions),
        "decoder": _stack(settings, "decoder", positions),
        "head": {"kind": "vocabulary", "bias": True, "smoothing": 0.0},
    }
    return model, positions


def _stack(settings: Settings, side: str, positions: int) -> Table:
    return {
        "kind": "transformer",
        "layers": settings.number(f"{side}_layers", 12),
        "heads": settings.number(f"{side}_attention_heads", 16),
        "feedforward": settings.number(f"{side}_ffn_dim", 4096),
        "activation": settings.activation("activation_function", "gelu"),
        "norm": "post",
        "dropout": settings.real("dropout", 0.1, below=1),
        "feedforward_dropout": settings.real("activation_dropout", 0.0, below=1),
        "position": "sinusoidal",
        "limit": min(positions, TABLE),
        "layout": "halves",
    }


def settings(model: Any, limit: int) -> Table:
    found: Table = {
        "d_model": model.dim,
        "scale_embedding": model.scale,
        "max_position_embeddings": max(limit, model.encoder.config.limit),
        "share_encoder_decoder_embeddings": True,
        "activation_function": activation_name("encoder", model.encoder.config.activation),
        "dropout": model.encoder.config.dropout,
        "activation_dropout": model.encoder.config.feedforward_dropout,
        "attention_dropout": 0.0,
    }
    same = {"activation": model.encoder.config.activation}
    for side in ("encoder", "decoder"):
        part = getattr(model, side).config
        without_groups(side, part)
        shape: Table = {"norm": "post", "normalisation": "layer", "bias": True, **same}
        require(side, part, **shape, position="sinusoidal", layout="halves", epsilon=[0, 1e-5])
        found |= {
            f"{side}_layers": part.layers,
            f"{side}_attention_heads": part.heads,
            f"{side}_ffn_dim": part.feedforward,
        }
    return found
