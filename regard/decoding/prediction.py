"""What a model makes of one input."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.data.tokenizers import Tokenizer
from regard.metrics import perplexity
from regard.search import Hypothesis

WARNED = {
    "cut": "too long to be read: cut",
    "unknown": "has what the model has never seen: read as unknown",
    "unmasked": "has no [MASK]: there is nothing to fill in",
}
"""What a person should know of an input, by its prediction's status."""


Choose = Callable[[int], list[int]]
"""(how many there are) → which of them are shown."""


class Sample(NamedTuple):
    """What a person sees of an example while a model learns."""

    input: str
    wanted: str
    got: str


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One output for one input."""

    text: str
    """What was predicted; empty for an empty input, if the task needs one."""
    status: str = "ok"
    """ok; empty (nothing came in); cut (the input was too long); capped (no end was reached);
    unknown (the input has what the model has never seen); unmasked (it has nothing to fill in);
    broken (it is a file that cannot be read)."""
    problem: str | None = None
    """What is wrong with a file that cannot be read."""
    score: float = 0.0
    """log-probability, normalised by length as the search says."""
    tokens: list[str] = field(default_factory=list)
    """The tokens, as a person reads them; the end of the sequence is one."""
    log_probs: list[float] = field(default_factory=list)
    """log-probability of each token."""
    source: list[str] = field(default_factory=list)
    """The input's tokens."""
    offsets: list[tuple[int, int]] = field(default_factory=list)
    """Where each of the input's words begins and ends, in characters, where words are tagged."""
    entities: list[dict[str, Any]] = field(default_factory=list)
    """Spans that tags such as B-PER and I-PER mark: label, start, end, text."""
    alignment: list[int] = field(default_factory=list)
    """For each token, which of the input's tokens it looked at most."""
    times: list[tuple[float, float]] = field(default_factory=list)
    """Of each token that was heard, when it begins and ends, in seconds."""
    alternatives: list[dict[str, Any]] = field(default_factory=list)
    """The n best, the first included, if more than one was asked for."""
    probabilities: dict[str, float] = field(default_factory=dict)
    """Of every label, where labels are predicted."""
    vector: list[float] = field(default_factory=list)
    """Of the input, where inputs and outputs have vectors in one space."""
    ranks: dict[str, list[int]] = field(default_factory=dict)
    """At which place right ones were found among all of a part, from 1, by the way: image_to_text
    and text_to_image."""
    masks: list[list[dict[str, Any]]] = field(default_factory=list)
    """For each [MASK] of the input the likeliest words, best first: word, token, p."""
    filled: str | None = None
    """The input with the best word in the place of each [MASK]."""
    hypotheses: Sequence[Hypothesis] = field(default=(), repr=False, compare=False)
    """What a search found after a prompt, best first, with what stands behind a stop string: for
    programs that need more than texts; no part of what is shown."""

    def tagged(self) -> str:
        """Each word of the input with its tag: “Paris/B-LOC ,/O”."""
        pairs = zip(self.source, self.tokens, strict=True)
        return " ".join(f"{word}/{tag}" for word, tag in pairs)

    def as_dict(self) -> dict[str, Any]:
        """All that is shown of it; its lists are the prediction's own."""
        shown = ((name, value) for name, value in vars(self).items() if name != "hypotheses")
        return {name: value for name, value in shown if value not in ([], {}, None)}


def written(
    best: Sequence[Hypothesis],
    texts: Sequence[str],
    by: Tokenizer,
    *,
    end: int | None = None,
    **details: Any,
) -> Prediction:
    """What was found by a search, best first, and the text of each; `end` is the token that ends
    one, if it is not that of every text."""
    last = by.end if end is None else end
    first = best[0]
    several = [
        {"text": text, "score": each.score, "log_probs": list(each.log_probs)}
        for text, each in zip(texts, best, strict=True)
    ]
    return Prediction(
        text=texts[0],
        score=first.score,
        tokens=by.pieces([*first.tokens, last] if first.finished else first.tokens),
        log_probs=list(first.log_probs),
        alternatives=several if len(best) > 1 else [],
        **details,
    )


def scored(log_probs: Sequence[float], **details: Any) -> dict[str, Any]:
    """What is said of a given output: Σ log p and exp of the mean −log p over its tokens, None of
    one that has none to score."""
    total = math.fsum(log_probs) if log_probs else None
    return {
        "log_prob": total,
        "perplexity": None if total is None else perplexity(-total / len(log_probs)),
        **details,
        "log_probs": log_probs,
    }


def nothing(problem: str | None = None) -> Prediction:
    """The output of an empty input, or of one that cannot be read."""
    return Prediction(text="", status="broken" if problem else "empty", problem=problem)
