"""Search: from a decoder's probabilities to sequences of tokens.

Each search is written once, for any decoder: it sees a `Step`, which reads tokens and tells what
may follow, and a `DecoderState`, whose rows it chooses. All of them score by

    log p(yₜ | y₁ … yₜ₋₁, x) = log softmax(logits)    in fp32, over the tokens that may stand at t,

so what is forbidden takes no probability. Where only certain texts may be written, each scores by
the probability that it has among all texts.

A forced prefix is a part of the output: its tokens count in the score, with the probability that
the model gives them, forbidden or not, in the length and in a minimum. So a search that is forced
to begin as the best output does finds that output, with its score; but after an improbable prefix
a length penalty favours long outputs, which share it among more tokens. CTranslate2 counts a prefix
in length and minimum, too, but as certain. A prompt, as of a language model, is no part of the
output: the state that a search begins with has read it (`regard.decoding`), and nothing of it
counts.

Each search is a generator (`steps`) that gives `News` after every step, so that an output can be
shown while it is written. New sentences can come into the running batch: `send((state, request))`
joins them before the next step, and from then on they are searched beside the others, each as if it
were alone. `search` takes all steps and gives the hypotheses.

Shape letters beside those of `regard.types`: B counts the sentences still in work, W the
hypotheses of each, C the candidates among which the hypotheses of the next step are chosen.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, Protocol, get_type_hints, runtime_checkable

from regard.errors import UserError
from regard.recipe.values import check
from regard.search._frontier import Frontier, Hypothesis, Request, Sentence, Step
from regard.search._history import Arrival, History, News, Steps, drain

__all__ = [
    "Arrival",
    "Frontier",
    "History",
    "Hypothesis",
    "News",
    "Request",
    "Sentence",
    "Step",
    "Steps",
    "Stepwise",
    "check_ranges",
    "drain",
    "impossible",
]


@runtime_checkable
class Stepwise(Protocol):
    """The module of a search for decoders; that of CTC has frames, and none."""

    steps: Callable[..., Steps]


def impossible() -> UserError:
    """The error for a sentence for which nothing can be written."""
    return UserError(
        "the model leaves a sentence no token to write: "
        "its weights hold NaN or infinity, or every token is forbidden"
    )


def check_ranges(config: Any) -> None:
    """Refuse a value that is not of the kind that its field's type states."""
    for name, hint in _numbers(config.__class__):
        check(name, getattr(config, name), hint)


@cache
def _numbers(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind, include_extras=True)
    found = ((field.name, hints[field.name]) for field in fields(kind))
    return tuple((name, hint) for name, hint in found if hasattr(hint, "__metadata__"))
