"""Llama (Touvron et al. 2023): RMSNorm, SwiGLU, rotary positions, grouped queries, no biases."""

from typing import Any

from regard.errors import UserError
from regard.interop.families import Settings, Table, layer, require, rope_scaling, rotary

TASK, ARCHITECTURE, PREFIX = "language_model", "LlamaForCausalLM", "model."
BLOCK = "model.layers.{n}"
NAMES = {
    "decoder.embedding": layer("model.embed_tokens"),
    "decoder.blocks.{n}.around_attention.norm": layer(f"{BLOCK}.input_layernorm"),
    "decoder.blocks.{n}.attention.query_key_value": layer(
        *(f"{BLOCK}.self_attn.{each}_proj" for each in "qkv")
    ),
    "decoder.blocks.{n}.attention.output": layer(f"{BLOCK}.self_attn.o_proj"),
    "decoder.blocks.{n}.around_feedforward.norm": layer(f"{BLOCK}.post_attention_layernorm"),
    # What the activation is applied to is their gate.
    "decoder.blocks.{n}.feedforward.up": layer(f"{BLOCK}.mlp.gate_proj"),
    "decoder.blocks.{n}.feedforward.gate": layer(f"{BLOCK}.mlp.up_proj"),
    "decoder.blocks.{n}.feedforward.down": layer(f"{BLOCK}.mlp.down_proj"),
    "decoder.norm": layer("model.norm"),
    "head": layer("lm_head"),
}
SPECIAL: dict[str, str] = {}
ABSENT = (r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq", r"lm_head\.weight")


def recipe(settings: Settings) -> tuple[Table, int]:
    for key in ("attention_bias", "mlp_bias"):
        settings.refuse(key, False)
    return gated(settings)


def gated(settings: Settings, **options: Any) -> tuple[Table, int]:
    """What Qwen2 has in common with it."""
    dim, heads = settings.number("hidden_size", 4096), settings.number("num_attention_heads", 32)
    if (width := settings.number("head_dim", dim // heads)) * heads != dim:
        raise UserError(f"head_dim: {width} × {heads} heads is not hidden_size, {dim}")
    settings.refuse("hidden_act", "silu", "swish")
    settings.refuse("pretraining_tp", 1)
    positions = settings.number("max_position_embeddings", 2048)
    decoder = {
        "kind": "transformer",
        "layers": settings.number("num_hidden_layers", 32),
        "heads": heads,
        "key_value_heads": settings.number("num_key_value_heads", heads),
        "feedforward": settings.number("intermediate_size", 11008),
        "activation": "swiglu",
        "norm": "pre",
        "normalisation": "rms",
        "epsilon": settings.real("rms_norm_eps", 1e-6, below=1),
        "bias": False,
        "dropout": 0.0,
        "limit": positions,
        **rotary(settings),
        **options,
    }
    tied = settings.flag("tie_word_embeddings")
    return {"dim": dim, "tie": "output" if tied else "none", "decoder": decoder}, positions


def settings(model: Any, limit: int) -> Table:
    return gated_settings(model, limit)


def gated_settings(model: Any, limit: int, **wanted: Any) -> Table:
    decoder = model.decoder.config
    shape: Table = {"norm": "pre", "normalisation": "rms", "bias": False, "position": "rotary"}
    require("decoder", decoder, **shape, activation="swiglu", rotary_fraction=1.0, **wanted)
    return {
        "hidden_size": model.dim,
        "max_position_embeddings": limit,
        "num_hidden_layers": decoder.layers,
        "num_attention_heads": decoder.heads,
        "num_key_value_heads": decoder.key_value_heads or decoder.heads,
        "intermediate_size": decoder.feedforward,
        "hidden_act": "silu",
        "rms_norm_eps": decoder.epsilon or 1e-6,
        "rope_theta": decoder.rotary_base,
        **rope_scaling(decoder),
    }
