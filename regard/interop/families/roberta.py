"""RoBERTa (Liu et al. 2019): BERT's shape with one segment; the first two positions are unused."""

from typing import Any

from regard.interop.families import CLASSES, Labelling, Settings, Table, layer
from regard.interop.families.bert import (
    NAMES as BERT,
    check_masked,
    encoder,
    encoder_settings,
)

TASK, ARCHITECTURE, PREFIX = "masked_language_model", "RobertaForMaskedLM", "roberta."
NAMES = {
    ours: layer(*(name.replace("bert.", "roberta.", 1) for name in theirs.names))
    for ours, theirs in BERT.items()
} | {
    "encoder.position": layer("roberta.embeddings.position_embeddings", form="offset"),
    "head.dense": layer("lm_head.dense"),
    "head.norm": layer("lm_head.layer_norm"),
    "head.weight": layer("lm_head.decoder.weight"),
    "head.bias": layer("lm_head.decoder.bias", instead=("lm_head.bias",)),
}
LABELLING = (
    Labelling(
        "classify",
        "RobertaForSequenceClassification",
        {"head.pooler": layer("classifier.dense"), "head.project": layer("classifier.out_proj")},
        CLASSES | {"pooler_activation": "tanh"},
    ),
)
SPECIAL = {
    "cls_token": "<s>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
ABSENT = (
    r"roberta\.pooler\.dense\.(weight|bias)",
    r"lm_head\.(decoder\.weight|decoder\.bias|bias)",
)
UNUSED = 2


def recipe(settings: Settings) -> tuple[Table, int]:
    settings.refuse("pad_token_id", 1)  # positions are counted from it on
    positions = settings.number("max_position_embeddings", 512, least=UNUSED + 1) - UNUSED
    return encoder(settings, positions, settings.number("type_vocab_size", 1))


def settings(model: Any, limit: int) -> Table:
    found = body(model)
    check_masked(model)
    return found


def body(model: Any) -> Table:
    found = encoder_settings(model, [1])
    return found | {"max_position_embeddings": found["max_position_embeddings"] + UNUSED}
