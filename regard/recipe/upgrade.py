"""Keys of earlier versions and of other toolkits: what each is called here, and which are gone.

A recipe that has one is refused, with the key that is meant. The recipe inside a run was written
by the version that made the run: it is read as if it had the present keys.
"""

from typing import Any, NamedTuple

from regard.errors import RecipeError

Table = dict[str, Any]


class Removed(NamedTuple):
    """A key that is gone."""

    neutral: Any
    """The value with which it did nothing; None if it had an effect beside another key alone."""
    why: str


RENAMED = {
    "spelling": "characters",
    "data.longest": "data.max_length",
    "data.too_long": "data.on_too_long",
    "data.broken": "data.on_bad_line",
    "data.empty": "data.on_empty",
    "data.separator": "data.delimiter",
    "tokenizer.size": "tokenizer.vocabulary",
    "tokenizer.minimum": "tokenizer.min_frequency",
    "pairs.both_ways": "pairs.both_directions",
    "search.minimum": "search.min_length",
    "evaluation.alternatives": "evaluation.multiple_references",
    "model.input.reads": "model.input.features",
    "model.input.spelling": "model.input.characters",
    "model.encoder.directions": "model.encoder.bidirectional",
    "model.encoder.words": "model.encoder.word_dropout",
    "model.encoder.inner": "model.encoder.feedforward",
    "model.encoder.inner_dropout": "model.encoder.feedforward_dropout",
    "model.decoder.inner": "model.decoder.feedforward",
    "model.decoder.inner_dropout": "model.decoder.feedforward_dropout",
    "train.optimizer.rate": "train.optimizer.learning_rate",
    "train.optimizer.decay": "train.optimizer.weight_decay",
    "train.record": "train.log_every",
    "train.validate": "train.validate_every",
    "train.save": "train.save_every",
    "train.refusals": "train.max_nonfinite",
    "train.setbacks": "train.max_rollbacks",
    "train.lower": "train.rollback_factor",
}
"""Dotted keys, and what they are called now."""
VALUES: dict[str, dict[Any, Any]] = {
    "model.encoder.bidirectional": {"one": False, "both": True},
    "tokenizer.split": {"blanks": "whitespace"},
}
"""Values of present keys, and what they are called now."""
ELSEWHERE = {
    "train.optimizer.learning_rate": "lr learning_rate peak_lr max_lr",
    "train.optimizer.weight_decay": "weight_decay l2 wd",
    "train.optimizer.kind": "optim optimizer_type",
    "train.updates": "max_steps steps num_steps max_updates total_steps train_steps iterations",
    "train.epochs": "num_epochs max_epochs num_train_epochs",
    "train.minutes": "max_time time_limit max_minutes",
    "train.schedule.warmup": "warmup warmup_steps num_warmup_steps warmup_updates lr_warmup",
    "train.schedule.kind": "lr_scheduler scheduler lr_schedule",
    "train.accumulate": "gradient_accumulation_steps update_freq accum_count grad_accum",
    "train.activation_checkpointing": "gradient_checkpointing checkpoint_activations",
    "train.clip": "clip_norm max_grad_norm grad_clip gradient_clip_val clip_grad_norm",
    "train.patience": "early_stopping early_stopping_patience",
    "train.log_every": "log_interval logging_steps logging_freq report_every log_every",
    "train.validate_every": "eval_steps validation_freq eval_interval valid_steps val_every",
    "train.save_every": "save_steps save_interval checkpoint_every save_checkpoint_steps",
    "train.keep": "save_total_limit keep_checkpoints keep_last_ckpts",
    "train.precision": "fp16 bf16 amp mixed_precision dtype",
    "train.threads": "num_threads cpu_threads",
    "train.workers": "num_workers dataloader_num_workers",
    "train.metric": "metric_for_best_model early_stopping_metric",
    "batch.tokens": "batch_size max_tokens tokens_per_batch batch_tokens train_batch_size "
    "per_device_train_batch_size",
    "batch.sentences": "max_sentences batch_sentences",
    "tokenizer.vocabulary": "vocab_size voc_limit vocabulary_size n_vocab size",
    "tokenizer.min_frequency": "min_freq voc_min_freq min_count",
    "tokenizer.lowercase": "lower do_lower_case lower_case",
    "data.max_length": "max_length max_len max_sent_length max_seq_length max_source_length "
    "seq_len",
    "model.dim": "hidden_size d_model model_dim embed_dim embedding_dim emb_dim dim hid_dim",
    "model.encoder.feedforward": "ffn_dim ff_size d_ff intermediate_size dim_feedforward "
    "ffn_embed_dim feedforward_dim",
    "model.encoder.heads": "num_heads n_heads nhead num_attention_heads attention_heads",
    "model.encoder.layers": "num_layers n_layers num_hidden_layers encoder_layers "
    "num_encoder_layers",
    "model.decoder.layers": "decoder_layers num_decoder_layers",
    "model.encoder.dropout": "dropout dropout_rate hidden_dropout_prob",
    "model.encoder.kind": "architecture arch encoder_type rnn_type",
    "model.encoder.bidirectional": "bidirectional bidir",
    "model.head.smoothing": "label_smoothing label_smoothing_factor smoothing",
    "model.tie": "tied_embeddings tied_softmax share_embeddings tie_word_embeddings",
    "search.beams": "beam_size num_beams beam beam_width",
    "search.length_penalty": "beam_alpha lenpen length_penalty alpha",
    "search.nbest": "n_best num_return_sequences",
    "search.min_length": "min_len min_new_tokens",
    "seed": "random_seed",
}
"""Keys, and what other toolkits call them."""
_FOREIGN = {name: key for key, names in ELSEWHERE.items() for name in names.split()}
REMOVED = {
    "model.head.consistency": Removed(0.0, "R-Drop cost twice the time and did not help"),
    "cutting.dropout": Removed(0.0, "no recipe used BPE-dropout"),
    "cutting.copies": Removed(None, "no recipe used BPE-dropout"),
}


def hint(key: str) -> str:
    """What a user who writes this key, or a section of that name, should know; else empty."""
    if key in RENAMED:
        return f"it is called {RENAMED[key]} now"
    gone = [r.why for old, r in REMOVED.items() if old == key or old.startswith(f"{key}.")]
    if gone:
        return f"it was removed: {gone[0]}; leave it out"
    meant = _FOREIGN.get(key.rpartition(".")[2].lower(), key)
    return f"it is called {meant} here" if meant != key else ""


def present(table: Table) -> Table:
    """A run's recipe, which is given the present keys."""
    _split_frozen(table)
    for old, new in RENAMED.items():
        if (value := _take(table, old)) is not None:
            _put(table, new, value)
    for key, names in VALUES.items():
        value = _take(table, key)
        if value is not None:
            _put(table, key, names.get(value, value) if isinstance(value, str) else value)
    for old, gone in REMOVED.items():
        value = _take(table, old)
        if value is not None and gone.neutral is not None and value != gone.neutral:
            raise RecipeError(
                f"{old}: {value!r}, but this version has no such key ({gone.why}). "
                "Load the run with the version that made it (environment.json)"
            )
    return table


def _split_frozen(table: Table) -> None:
    """`frozen` once meant an input's vectors; parts that have `rate` have it for all weights."""
    model = table.get("model")
    reads = model.get("input") if isinstance(model, dict) else None
    if isinstance(reads, dict) and "rate" not in reads and "frozen" in reads:
        reads["frozen_vectors"] = reads.pop("frozen")


def _take(table: Table, key: str) -> Any:
    """The value of a dotted key, which is taken out, and with it a section that is left empty."""
    name, _, rest = key.partition(".")
    if not rest:
        return table.pop(name, None)
    inner = table.get(name)
    if not isinstance(inner, dict):
        return None
    value = _take(inner, rest)
    if value is not None and not inner:
        del table[name]
    return value


def _put(table: Table, key: str, value: Any) -> None:
    *sections, name = key.split(".")
    for section in sections:
        table = table.setdefault(section, {})
    table.setdefault(name, value)
