"""How long to train: more often through few data than through many, with a warm-up that fits."""

from regard.starting import Key, Section

ENOUGH = 20e6
"""Tokens to learn from, all epochs together, that a small model makes good use of."""
EPOCHS = 4, 30
"""At least and at most."""
TIMES = 20
"""Validations of a training."""


def training(tokens: float, *, metric: str, rate: float, largest: int = 8192) -> tuple[Section, list[Section]]:
    """The sections `batch` and `train` for so many tokens of an epoch."""
    batch = 256
    while batch < min(largest, tokens / 60):
        batch *= 2
    epochs = max(EPOCHS[0], min(EPOCHS[1], round(ENOUGH / max(1.0, tokens))))
    updates = rounded(max(200, epochs * tokens / batch))
    often = max(20, rounded(updates / TIMES))
    train = Section(
        "train",
        (
            Key("updates", updates, f"about {epochs} times through the data"),
            Key("validate_every", often),
            Key("save_every", often),
            Key("metric", metric),
            Key("patience", 8, "validations without a better one end the training"),
        ),
    )
    schedule = (Key("kind", "cosine"), Key("warmup", max(10, rounded(updates / 20))))
    return Section("batch", (Key("tokens", batch),)), [
        train,
        Section("train.optimizer", (Key("learning_rate", rate),)),
        Section("train.schedule", schedule),
    ]


def rounded(number: float) -> int:
    """Two digits."""
    size = 10 ** max(0, len(str(int(number))) - 2)
    return int(number / size + 0.5) * size
