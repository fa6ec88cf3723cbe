"""CLIP (Radford et al. 2021): a Vision Transformer and a causal Transformer, side by side."""

from typing import Any

from regard.errors import UserError
from regard.interop.families import Layer, Settings, Table, alike, layer, require, without_groups

TASK, ARCHITECTURE, PREFIX = "contrast", "CLIPModel", ""
SPECIAL: dict[str, str] = {}
ABSENT = (r"(text|vision)_model\.embeddings\.position_ids",)
ACTIVATION = {"quick_gelu": "quick_gelu", "gelu": "gelu", "gelu_new": "gelu_tanh"}
"""Theirs, and ours."""


def _blocks(ours: str, theirs: str) -> dict[str, Layer]:
    """The blocks of one tower."""
    block, names = f"{theirs}.encoder.layers.{{n}}", f"{ours}.blocks.{{n}}"
    return {
        f"{names}.attention.query_key_value": layer(
            *(f"{block}.self_attn.{each}_proj" for each in "qkv")
        ),
        f"{names}.attention.output": layer(f"{block}.self_attn.out_proj"),
        f"{names}.around_attention.norm": layer(f"{block}.layer_norm1"),
        f"{names}.feedforward.up": layer(f"{block}.mlp.fc1"),
        f"{names}.feedforward.down": layer(f"{block}.mlp.fc2"),
        f"{names}.around_feedforward.norm": layer(f"{block}.layer_norm2"),
    }


NAMES = {
    "towers.source.input.class_token": layer("vision_model.embeddings.class_embedding"),
    "towers.source.input.position": layer("vision_model.embeddings.position_embedding.weight"),
    "towers.source.input.project": layer("vision_model.embeddings.patch_embedding", form="filters"),
    "towers.source.encoder.embedding_norm": layer("vision_model.pre_layrnorm"),
    **_blocks("towers.source.encoder", "vision_model"),
    "towers.source.encoder.norm": layer("vision_model.post_layernorm"),
    "towers.target.input.embedding": layer("text_model.embeddings.token_embedding"),
    "towers.target.encoder.position": layer("text_model.embeddings.position_embedding"),
    **_blocks("towers.target.encoder", "text_model"),
    "towers.target.encoder.norm": layer("text_model.final_layer_norm"),
    "head.project.source": layer("visual_projection"),
    "head.project.target": layer("text_projection"),
    "head.sharpness": layer("logit_scale"),
}


def recipe(settings: Settings) -> tuple[Table, int]:
    text, vision = settings.inside("text_config"), settings.inside("vision_config")
    longest = text.number("max_position_embeddings", 77)
    patch = vision.number("patch_size", 32)
    source = _part(vision, 768, 12, 3072) | {"embedding_norm": True, "position": "none"}
    target = _part(text, 512, 8, 2048) | {
        "kind": "decoder",
        "position": "learned",
        "limit": longest,
    }
    model = {
        "dim": text.number("hidden_size", 512),
        "towers": {
            "source": {
                "dim": vision.number("hidden_size", 768),
                "input": {"kind": "patches", "patch": patch, "bias": False},
                "encoder": source,
            },
            "target": {"input": {"kind": "tokens"}, "encoder": target},
        },
        "head": {
            "kind": "contrast",
            "size": settings.number("projection_dim", 512),
            "pooling": "class",
            "target_pooling": "last",
        },
    }
    return model, longest


def _part(settings: Settings, dim: int, heads: int, feedforward: int) -> Table:
    name = settings.table.get("hidden_act") or "quick_gelu"
    if name not in ACTIVATION:
        raise UserError(f"hidden_act: {str(name)[:60]!a} is not one of {', '.join(ACTIVATION)}")
    return {
        "kind": "transformer",
        "layers": settings.number("num_hidden_layers", 12),
        "heads": settings.number("num_attention_heads", heads),
        "feedforward": settings.number("intermediate_size", feedforward),
        "activation": ACTIVATION[name],
        "norm": "pre",
        "epsilon": settings.real("layer_norm_eps", 1e-5, below=1),
        "dropout": 0.0,
    }


def settings(model: Any, limit: int) -> Table:
    source, target = (model.towers[side] for side in ("source", "target"))
    alike("towers.source.input", source.input.config, class_token=True, position=True, bias=False)
    alike("head", model.head.config, pooling="class", target_pooling="last")
    widths = model.widths()
    first = {"norm": "pre", "normalisation": "layer", "bias": True}
    return {
        "projection_dim": model.head.config.size,
        "vision_config": {
            **_theirs("source", source.encoder, **first, embedding_norm=True, position="none"),
            "hidden_size": widths["source"],
            "projection_dim": model.head.config.size,
            "patch_size": source.input.config.patch,
        },
        "text_config": {
            **_theirs("target", target.encoder, **first, position="learned"),
            "hidden_size": widths["target"],
            "projection_dim": model.head.config.size,
            "max_position_embeddings": target.encoder.config.limit,
        },
    }


def _theirs(side: str, part: Any, **wanted: Any) -> Table:
    """The settings of a tower; it must be causal where it reads texts."""
    key = f"towers.{side}.encoder"
    kind = "transformer" if side == "source" else "decoder"
    if part is None or part.kind != kind:
        raise UserError(f"model.{key}.kind is {part and part.kind!r}, wanted: {kind!r}")
    config = part.config
    without_groups(key, config)
    names = {ours: theirs for theirs, ours in ACTIVATION.items()}
    require(key, config, **wanted, activation=[*names])
    return {
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feedforward,
        "hidden_act": names[config.activation],
        "layer_norm_eps": config.epsilon or 1e-5,
        "attention_dropout": 0.0,
    }
