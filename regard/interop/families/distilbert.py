"""DistilBERT (Sanh et al. 2019): BERT without segments."""

from typing import Any

from regard.interop.families import (
    CLASSES,
    Labelling,
    Settings,
    Table,
    alike,
    layer,
    require,
    without_groups,
)
from regard.interop.families.bert import SPECIAL

__all__ = [
    "ABSENT",
    "ARCHITECTURE",
    "LABELLING",
    "NAMES",
    "PREFIX",
    "SPECIAL",
    "TASK",
    "body",
    "recipe",
    "settings",
]

TASK, ARCHITECTURE, PREFIX = "masked_language_model", "DistilBertForMaskedLM", "distilbert."
BLOCK = "distilbert.transformer.layer.{n}"
NAMES = {
    "input.embedding": layer("distilbert.embeddings.word_embeddings"),
    "encoder.position": layer("distilbert.embeddings.position_embeddings"),
    "encoder.embedding_norm": layer("distilbert.embeddings.LayerNorm"),
    "encoder.blocks.{n}.attention.query_key_value": layer(
        *(f"{BLOCK}.attention.{each}_lin" for each in "qkv")
    ),
    "encoder.blocks.{n}.attention.output": layer(f"{BLOCK}.attention.out_lin"),
    "encoder.blocks.{n}.around_attention.norm": layer(f"{BLOCK}.sa_layer_norm"),
    "encoder.blocks.{n}.feedforward.up": layer(f"{BLOCK}.ffn.lin1"),
    "encoder.blocks.{n}.feedforward.down": layer(f"{BLOCK}.ffn.lin2"),
    "encoder.blocks.{n}.around_feedforward.norm": layer(f"{BLOCK}.output_layer_norm"),
    "head.dense": layer("vocab_transform"),
    "head.norm": layer("vocab_layer_norm"),
    "head.weight": layer("vocab_projector.weight"),
    "head.bias": layer("vocab_projector.bias"),
}
LABELLING = (
    Labelling(
        "classify",
        "DistilBertForSequenceClassification",
        {"head.pooler": layer("pre_classifier"), "head.project": layer("classifier")},
        CLASSES | {"pooler_activation": "relu"},
        ("seq_classif_dropout",),
    ),
    Labelling(
        "tag",
        "DistilBertForTokenClassification",
        {"head.project": layer("classifier")},
        {"crf": False},
        ("dropout",),
    ),
)
ABSENT = (r"vocab_projector\.weight",)
EPSILON = 1e-12


def recipe(settings: Settings) -> tuple[Table, int]:
    settings.refuse("activation", "gelu")
    settings.refuse("sinusoidal_pos_embds", False)
    positions = settings.number("max_position_embeddings", 512)
    encoder = {
        "kind": "transformer",
        "layers": settings.number("n_layers", 6),
        "heads": settings.number("n_heads", 12),
        "feedforward": settings.number("hidden_dim", 3072),
        "activation": "gelu",
        "norm": "post",
        "embedding_norm": True,
        "epsilon": EPSILON,
        "dropout": settings.real("dropout", 0.1, below=1),
        "position": "learned",
        "limit": positions,
    }
    tied = settings.flag("tie_word_embeddings", True)
    model = {
        "dim": settings.number("dim", 768),
        "tie": "all" if tied else "none",
        "input": {"kind": "tokens"},
        "encoder": encoder,
        "head": {"kind": "masked", "epsilon": EPSILON},
    }
    return model, positions


def settings(model: Any, limit: int) -> Table:
    found = body(model)
    alike("head", model.head.config, transform=True, bias=True, epsilon=EPSILON)
    return found


def body(model: Any) -> Table:
    part = model.encoder.config
    without_groups("encoder", part)
    shape: Table = {"norm": "post", "normalisation": "layer", "bias": True, "activation": "gelu"}
    require("encoder", part, **shape, position="learned", embedding_norm=True, epsilon=EPSILON)
    alike("input", model.input.config, segments=0)
    return {
        "dim": model.dim,
        "max_position_embeddings": part.limit,
        "n_layers": part.layers,
        "n_heads": part.heads,
        "hidden_dim": part.feedforward,
        "activation": "gelu",
        "dropout": part.dropout,
        "attention_dropout": 0.0,
    }
