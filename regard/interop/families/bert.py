"""BERT (Devlin et al. 2019): post-norm, learned positions, segments, a norm of all embeddings."""

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

TASK, ARCHITECTURE, PREFIX = "masked_language_model", "BertForMaskedLM", "bert."
BLOCK = "bert.encoder.layer.{n}"
HEAD = "cls.predictions"
NAMES = {
    "input.embedding": layer("bert.embeddings.word_embeddings"),
    "input.segments": layer("bert.embeddings.token_type_embeddings.weight"),
    "encoder.position": layer("bert.embeddings.position_embeddings"),
    "encoder.embedding_norm": layer("bert.embeddings.LayerNorm"),
    "encoder.blocks.{n}.attention.query_key_value": layer(
        *(f"{BLOCK}.attention.self.{each}" for each in ("query", "key", "value"))
    ),
    "encoder.blocks.{n}.attention.output": layer(f"{BLOCK}.attention.output.dense"),
    "encoder.blocks.{n}.around_attention.norm": layer(f"{BLOCK}.attention.output.LayerNorm"),
    "encoder.blocks.{n}.feedforward.up": layer(f"{BLOCK}.intermediate.dense"),
    "encoder.blocks.{n}.feedforward.down": layer(f"{BLOCK}.output.dense"),
    "encoder.blocks.{n}.around_feedforward.norm": layer(f"{BLOCK}.output.LayerNorm"),
    "head.dense": layer(f"{HEAD}.transform.dense"),
    "head.norm": layer(f"{HEAD}.transform.LayerNorm"),
    "head.weight": layer(f"{HEAD}.decoder.weight"),
    # Where the embedding is not tied, the bias is not either, and the other one is not used.
    "head.bias": layer(f"{HEAD}.decoder.bias", instead=(f"{HEAD}.bias",)),
}
LABELLING = (
    Labelling(
        "classify",
        "BertForSequenceClassification",
        {"head.pooler": layer("bert.pooler.dense"), "head.project": layer("classifier")},
        CLASSES | {"pooler_activation": "tanh"},
    ),
    Labelling(
        "tag",
        "BertForTokenClassification",
        {"head.project": layer("classifier")},
        {"crf": False},
    ),
)
SPECIAL = {
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
}
ABSENT = (
    r"bert\.pooler\.dense\.(weight|bias)",
    r"cls\.seq_relationship\.(weight|bias)",
    r"cls\.predictions\.(decoder\.weight|decoder\.bias|bias)",
)


def recipe(settings: Settings) -> tuple[Table, int]:
    segments = settings.number("type_vocab_size", 2)
    return encoder(settings, settings.number("max_position_embeddings", 512), segments)


def encoder(settings: Settings, positions: int, segments: int) -> tuple[Table, int]:
    """What RoBERTa has in common with it."""
    settings.refuse("position_embedding_type", "absolute")
    settings.refuse("is_decoder", False)
    settings.refuse("hidden_act", "gelu")
    epsilon = settings.real("layer_norm_eps", 1e-12, below=1)
    part = {
        "kind": "transformer",
        "layers": settings.number("num_hidden_layers", 12),
        "heads": settings.number("num_attention_heads", 12),
        "feedforward": settings.number("intermediate_size", 3072),
        "activation": "gelu",
        "norm": "post",
        "embedding_norm": True,
        "epsilon": epsilon,
        "dropout": settings.real("hidden_dropout_prob", 0.1, below=1),
        "position": "learned",
        "limit": positions,
    }
    tied = settings.flag("tie_word_embeddings", True)
    model = {
        "dim": settings.number("hidden_size", 768),
        "tie": "all" if tied else "none",
        "input": {"kind": "tokens", "segments": segments},
        "encoder": part,
        "head": {"kind": "masked", "epsilon": epsilon},
    }
    return model, positions


def settings(model: Any, limit: int) -> Table:
    found = body(model)
    check_masked(model)
    return found


def check_masked(model: Any) -> None:
    """Refuse another head than the one that fills in words."""
    epsilon = model.encoder.config.epsilon
    same = [epsilon, epsilon or 1e-5, 0.0 if epsilon == 1e-5 else epsilon]
    alike("head", model.head.config, transform=True, bias=True, epsilon=same)


def body(model: Any) -> Table:
    return encoder_settings(model, [*range(2, 100)])


def encoder_settings(model: Any, segments: list[int]) -> Table:
    part = model.encoder.config
    without_groups("encoder", part)
    shape: Table = {"norm": "post", "normalisation": "layer", "bias": True, "activation": "gelu"}
    require("encoder", part, **shape, position="learned", embedding_norm=True)
    alike("input", model.input.config, segments=segments)
    return {
        "hidden_size": model.dim,
        "max_position_embeddings": part.limit,
        "type_vocab_size": model.input.config.segments,
        "num_hidden_layers": part.layers,
        "num_attention_heads": part.heads,
        "intermediate_size": part.feedforward,
        "hidden_act": "gelu",
        "layer_norm_eps": part.epsilon or 1e-5,
        "hidden_dropout_prob": part.dropout,
        "attention_probs_dropout_prob": 0.0,
    }
