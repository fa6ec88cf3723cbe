"""The Vision Transformer (Dosovitskiy et al. 2021): patches, a class token, pre-norm."""

from typing import Any

from regard.errors import UserError
from regard.interop.families import Settings, Table, alike, layer, require, without_groups

TASK, ARCHITECTURE, PREFIX = "classify", "ViTForImageClassification", "vit."
BLOCK = "vit.encoder.layer.{n}"
NAMES = {
    "input.class_token": layer("vit.embeddings.cls_token", form="vector"),
    "input.position": layer("vit.embeddings.position_embeddings", form="table"),
    "input.project": layer("vit.embeddings.patch_embeddings.projection", form="filters"),
    "encoder.blocks.{n}.attention.query_key_value": layer(
        *(f"{BLOCK}.attention.attention.{each}" for each in ("query", "key", "value"))
    ),
    "encoder.blocks.{n}.attention.output": layer(f"{BLOCK}.attention.output.dense"),
    "encoder.blocks.{n}.around_attention.norm": layer(f"{BLOCK}.layernorm_before"),
    "encoder.blocks.{n}.feedforward.up": layer(f"{BLOCK}.intermediate.dense"),
    "encoder.blocks.{n}.feedforward.down": layer(f"{BLOCK}.output.dense"),
    "encoder.blocks.{n}.around_feedforward.norm": layer(f"{BLOCK}.layernorm_after"),
    "encoder.norm": layer("vit.layernorm"),
    "head.project": layer("classifier"),
}
ABSENT = (r"vit\.pooler\.dense\.(weight|bias)",)
ACTIVATION = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}


def recipe(settings: Settings) -> tuple[Table, int]:
    settings.refuse("qkv_bias", True)
    size, patch = settings.number("image_size", 224), settings.number("patch_size", 16)
    part = {
        "kind": "transformer",
        "layers": settings.number("num_hidden_layers", 12),
        "heads": settings.number("num_attention_heads", 12),
        "feedforward": settings.number("intermediate_size", 3072),
        "activation": settings.activation("hidden_act", "gelu"),
        "norm": "pre",
        "epsilon": settings.real("layer_norm_eps", 1e-12, below=1),
        "dropout": settings.real("hidden_dropout_prob", 0.0, below=1),
        "position": "none",
    }
    model = {
        "dim": settings.number("hidden_size", 768),
        "input": {"kind": "patches", "patch": patch},
        "encoder": part,
        "head": {"kind": "labels", "pooling": "class"},
    }
    return model, size


def settings(model: Any, limit: int) -> Table:
    part, head = model.encoder.config, model.head.config
    without_groups("encoder", part)
    shape: Table = {"norm": "pre", "normalisation": "layer", "bias": True, "position": "none"}
    require("encoder", part, **shape, activation=[*ACTIVATION.values()])
    alike("input", model.input.config, class_token=True, position=True, bias=True)
    alike("head", head, pooling="class", pooler=False, all_layers=False)
    names = {ours: theirs for theirs, ours in reversed(ACTIVATION.items())}
    if part.activation not in names:
        raise UserError(f"model.encoder.activation is {part.activation!r}, wanted: gelu")
    return {
        "hidden_size": model.dim,
        "num_hidden_layers": part.layers,
        "num_attention_heads": part.heads,
        "intermediate_size": part.feedforward,
        "hidden_act": names[part.activation],
        "layer_norm_eps": part.epsilon or 1e-5,
        "hidden_dropout_prob": part.dropout,
        "attention_probs_dropout_prob": 0.0,
        "patch_size": model.input.config.patch,
        "qkv_bias": True,
    }
