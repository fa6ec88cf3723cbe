"""GPT-2 (Radford et al. 2019): learned positions, pre-norm, GELU by tanh; weights (in, out)."""

from typing import Any

from regard.interop.families import (
    Settings,
    Table,
    activation_name,
    layer,
    require,
    without_groups,
)

TASK, ARCHITECTURE, PREFIX = "language_model", "GPT2LMHeadModel", "transformer."
BLOCK = "transformer.h.{n}"
NAMES = {
    "decoder.embedding": layer("transformer.wte"),
    "decoder.position": layer("transformer.wpe"),
    "decoder.blocks.{n}.around_attention.norm": layer(f"{BLOCK}.ln_1"),
    "decoder.blocks.{n}.attention.query_key_value": layer(
        f"{BLOCK}.attn.c_attn", form="transposed"
    ),
    "decoder.blocks.{n}.attention.output": layer(f"{BLOCK}.attn.c_proj", form="transposed"),
    "decoder.blocks.{n}.around_feedforward.norm": layer(f"{BLOCK}.ln_2"),
    "decoder.blocks.{n}.feedforward.up": layer(f"{BLOCK}.mlp.c_fc", form="transposed"),
    "decoder.blocks.{n}.feedforward.down": layer(f"{BLOCK}.mlp.c_proj", form="transposed"),
    "decoder.norm": layer("transformer.ln_f"),
    "head": layer("lm_head"),
}
SPECIAL: dict[str, str] = {}
ABSENT = (r"transformer\.h\.\d+\.attn\.(masked_)?bias", r"lm_head\.weight")


def recipe(settings: Settings) -> tuple[Table, int]:
    for key in ("add_cross_attention", "scale_attn_by_inverse_layer_idx"):
        settings.refuse(key, False)
    settings.refuse("scale_attn_weights", True)
    dim, positions = settings.number("n_embd", 768), settings.number("n_positions", 1024)
    decoder = {
        "kind": "transformer",
        "layers": settings.number("n_layer", 12),
        "heads": settings.number("n_head", 12),
        "feedforward": settings.number("n_inner", 4 * dim),
        "activation": settings.activation("activation_function", "gelu_new"),
        "norm": "pre",
        "epsilon": settings.real("layer_norm_epsilon", 1e-5, below=1),
        "dropout": settings.real("resid_pdrop", 0.1, below=1),
        "position": "learned",
        "limit": positions,
    }
    tied = settings.flag("tie_word_embeddings", True)
    return {"dim": dim, "tie": "output" if tied else "none", "decoder": decoder}, positions


def settings(model: Any, limit: int) -> Table:
    decoder = model.decoder.config
    without_groups("decoder", decoder)
    require("decoder", decoder, norm="pre", normalisation="layer", bias=True, position="learned")
    return {
        "n_embd": model.dim,
        "n_positions": decoder.limit,
        "n_layer": decoder.layers,
        "n_head": decoder.heads,
        "n_inner": decoder.feedforward,
        "activation_function": activation_name("decoder", decoder.activation),
        "layer_norm_epsilon": decoder.epsilon or 1e-5,
        "resid_pdrop": decoder.dropout,
        "embd_pdrop": decoder.dropout,
        "attn_pdrop": 0.0,
    }
