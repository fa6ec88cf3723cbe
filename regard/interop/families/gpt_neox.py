"""GPT-NeoX (Black et al. 2022) and Pythia: rotary positions on a part of each head, both sublayers
of a block side by side; queries, keys and values stand head by head."""

from typing import Any

from regard.interop.families import (
    Settings,
    Table,
    activation_name,
    layer,
    require,
    rope_scaling,
    rotary,
    without_groups,
)

TASK, ARCHITECTURE, PREFIX = "language_model", "GPTNeoXForCausalLM", "gpt_neox."
BLOCK = "gpt_neox.layers.{n}"
NAMES = {
    "decoder.embedding": layer("gpt_neox.embed_in"),
    "decoder.blocks.{n}.around_attention.norm": layer(f"{BLOCK}.input_layernorm"),
    "decoder.blocks.{n}.attention.query_key_value": layer(
        f"{BLOCK}.attention.query_key_value", form="by_head"
    ),
    "decoder.blocks.{n}.attention.output": layer(f"{BLOCK}.attention.dense"),
    "decoder.blocks.{n}.around_feedforward.norm": layer(f"{BLOCK}.post_attention_layernorm"),
    "decoder.blocks.{n}.feedforward.up": layer(f"{BLOCK}.mlp.dense_h_to_4h"),
    "decoder.blocks.{n}.feedforward.down": layer(f"{BLOCK}.mlp.dense_4h_to_h"),
    "decoder.norm": layer("gpt_neox.final_layer_norm"),
    "head": layer("embed_out"),
}
SPECIAL: dict[str, str] = {}
ABSENT = (
    r"gpt_neox\.layers\.\d+\.attention\.(masked_bias|bias|rotary_emb\.inv_freq)",
    r"gpt_neox\.rotary_emb\.inv_freq",
    r"embed_out\.weight",
)


def recipe(settings: Settings) -> tuple[Table, int]:
    settings.refuse("attention_bias", True)
    positions = settings.number("max_position_embeddings", 2048)
    decoder = {
        "kind": "transformer",
        "layers": settings.number("num_hidden_layers", 44),
        "heads": settings.number("num_attention_heads", 64),
        "feedforward": settings.number("intermediate_size", 24576),
        "activation": settings.activation("hidden_act", "gelu"),
        "norm": "pre",
        "parallel": settings.flag("use_parallel_residual", True),
        "epsilon": settings.real("layer_norm_eps", 1e-5, below=1),
        "dropout": settings.real("hidden_dropout", 0.0, below=1),
        "limit": positions,
        **rotary(settings, 0.25),
    }
    tied = settings.flag("tie_word_embeddings")
    dim = settings.number("hidden_size", 6144)
    return {"dim": dim, "tie": "output" if tied else "none", "decoder": decoder}, positions


def settings(model: Any, limit: int) -> Table:
    decoder = model.decoder.config
    without_groups("decoder", decoder)
    shape: Table = {"norm": "pre", "normalisation": "layer", "bias": True, "position": "rotary"}
    require("decoder", decoder, parallel=[True, False], **shape)
    return {
        "hidden_size": model.dim,
        "max_position_embeddings": limit,
        "num_hidden_layers": decoder.layers,
        "num_attention_heads": decoder.heads,
        "intermediate_size": decoder.feedforward,
        "hidden_act": activation_name("decoder", decoder.activation),
        "use_parallel_residual": decoder.parallel,
        "layer_norm_eps": decoder.epsilon or 1e-5,
        "hidden_dropout": decoder.dropout,
        "rotary_pct": decoder.rotary_fraction,
        "rotary_emb_base": decoder.rotary_base,
        **rope_scaling(decoder),
    }
