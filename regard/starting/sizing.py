"""How large, and how long: more often through few data than through many, a warm-up that fits."""

from collections.abc import Collection

from regard.starting import Key, Section

ENOUGH = 20e6
"""Tokens to learn from, all epochs together, that a small model makes good use of."""
EPOCHS = 4, 30
"""At least and at most."""
TIMES = 20
"""Validations of a training."""


def batch(tokens: float, largest: int = 8192) -> int:
    """Tokens of a batch, of which an epoch should have sixty at least."""
    size = 256
    while size < min(largest, tokens / 60):
        size *= 2
    return size


def training(
    tokens: float, of_batch: float, *, metric: str, rate: float, warmup: float = 0.05
) -> list[Section]:
    """The sections of the trainer for so many tokens of an epoch, and of a batch."""
    epochs = max(EPOCHS[0], min(EPOCHS[1], round(ENOUGH / max(1.0, tokens))))
    updates = rounded(max(200, epochs * tokens / of_batch))
    often = max(20, rounded(updates / TIMES))
    train = (
        Key("updates", updates, f"about {updates * of_batch / max(1.0, tokens):.0f} times through the data"),
        Key("validate_every", often),
        Key("save_every", often),
        Key("metric", metric),
        Key("patience", 8, "validations without a better one end the training"),
    )
    schedule = (Key("kind", "cosine"), Key("warmup", max(10, rounded(warmup * updates))))
    return [
        Section("train", train),
        Section("train.optimizer", (Key("learning_rate", rate),)),
        Section("train.schedule", schedule),
    ]


def rounded(number: float) -> int:
    """Two digits."""
    size = 10 ** max(0, len(str(int(number))) - 2)
    return int(number / size + 0.5) * size


def up(number: float, to: int) -> int:
    """The next multiple."""
    return -(-int(number) // to) * to


def held_out(files: Collection[str], why: str, share: float = 0.1) -> list[Section]:
    """Shares of the training files for the parts that have none."""
    keys = [Key(part, share) for part in ("validation", "test") if part not in files]
    return [Section("held_out", tuple(keys), why)] if keys else []
