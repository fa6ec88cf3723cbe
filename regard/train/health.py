"""Signs that training goes wrong, seen in validation, and what they mean in plain words."""

from collections import Counter
from collections.abc import Mapping, Sequence

FEWEST = 8
"""Fewer outputs than this prove nothing."""
ALARMING = 0.95
"""The share of outputs that must be alike."""
EXCESS = 0.1
"""By how much this share must be above that of the right answers."""
FLAT = 0.02
"""How much of the right answers' deviation is as good as none."""
TWICE = 2
"""How many validations in a row must show a sign: a beginner's model repeats itself, too."""

MEANING = {
    "same": (
        "{share:.0%} of the outputs are the same, whatever the input. Early in training that is "
        "usual. If it stays, the model does not look at its input: see that inputs and answers "
        "belong together line by line; try a lower train.optimizer.learning_rate, a longer "
        "train.schedule.warmup, less dropout"
    ),
    "copied": (
        "{share:.0%} of the outputs repeat their input. See that the two sides of the training "
        "data are not the same text or language, and leave out pairs whose sides are equal"
    ),
    "empty": (
        "{share:.0%} of the outputs are empty. See that the training data has no empty or cut "
        "answers (data.json in the run says what was skipped), that data.max_length does not leave "
        "out the long ones, and try label smoothing and longer training"
    ),
}
DIVERGES = (
    "the loss on the validation part is {now:.4g}, and was {best:.4g} at its best; on the training "
    "part it has risen, too, from {then:.4g} to {trained:.4g}: training diverges. Try a lower "
    "train.optimizer.learning_rate, a longer train.schedule.warmup, train.clip=1, "
    "train.precision=float32. The best checkpoint is kept"
)
OVERFITS = (
    "the loss on the validation part is {now:.4g}, and was {best:.4g} at its best, while on the "
    "training part it went from {then:.4g} to {trained:.4g}: the model learns the training data by "
    "heart. Try more dropout, a smaller model, more data; train.patience=5 stops in time. The best "
    "checkpoint is kept"
)


def shares(
    outputs: Sequence[str], answers: Sequence[str], inputs: Sequence[str] = ()
) -> dict[str, float]:
    """The share of outputs that are the same, copied from their input, or empty, where it is
    alarming: it is nearly all of them, and the right answers are not like that."""
    if len(outputs) < FEWEST:
        return {}
    said, right = _alike(outputs, inputs), _alike(answers, inputs)
    return {
        name: share
        for name, share in said.items()
        if share >= ALARMING and share - right[name] >= EXCESS
    }


def constant(spread: float, right: float) -> dict[str, float]:
    """The same for numbers: whether they vary far less than the right ones do."""
    return {"same": 1.0} if spread <= FLAT * right else {}


def _alike(texts: Sequence[str], inputs: Sequence[str]) -> dict[str, float]:
    (_, most), count = Counter(texts).most_common(1)[0], len(texts)
    empty = sum(not text.strip() for text in texts)
    copied = sum(a.strip() == b.strip() for a, b in zip(texts, inputs, strict=False))
    return {"empty": empty / count, "copied": copied / count, "same": most / count}


def signs(
    figures: Mapping[str, float],
    trained: float | None = None,
    lowest: float | None = None,
    then: float | None = None,
) -> dict[str, str]:
    """Each sign of trouble in the figures of a validation, and what it means.

    `trained` is the training's own loss of late, `lowest` the lowest loss of a validation so far,
    `then` the training's at that time.
    """
    found = {n: text.format(share=figures[n]) for n, text in MEANING.items() if n in figures}
    if "empty" in found:
        found.pop("same", None)  # it is the same sign
    now = loss(figures)
    if now is None or lowest is None or trained is None or then is None:
        return found
    if not now <= lowest + _margin(lowest):  # true of NaN, too
        values = {"now": now, "best": lowest, "then": then, "trained": trained}
        if trained <= then + _margin(then):
            found["overfits"] = OVERFITS.format(**values)
        else:
            found["diverges"] = DIVERGES.format(**values)
    return found


def _margin(value: float) -> float:
    """How much worse is not chance."""
    return max(0.5, 0.25 * abs(value))


def loss(figures: Mapping[str, float]) -> float | None:
    """The figure that is a loss, if there is one."""
    return figures.get("nll", figures.get("mse"))
