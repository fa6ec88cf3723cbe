"""Scores of labels and tags. All values but probabilities and errors are percentages.

Of a class c among predictions ŷ and references y

    precision = |ŷ = c and y = c| / |ŷ = c|,   recall = |ŷ = c and y = c| / |y = c|

and F₁ is their harmonic mean, 2 · |both| / (|ŷ = c| + |y = c|); 0 where nothing is right.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.metrics import VERSION, Score

Span = tuple[int, str, int, int]
"""Number of the sequence, type, first and last position."""
BINS = 15


def score(name: str, value: float, signature: str, *, higher: bool = True) -> Score:
    """A Score of this file's version."""
    return Score(
        name=name,
        value=value,
        signature=f"{signature}|version:{VERSION}",
        higher_is_better=higher,
    )


def confusion(
    predictions: Sequence[str], references: Sequence[str], names: Sequence[str]
) -> NDArray[np.int64]:
    """How often each reference (rows) was given each prediction (columns)."""
    place = {name: n for n, name in enumerate(names)}
    table = np.zeros((len(names), len(names)), np.int64)
    for prediction, reference in zip(predictions, references, strict=True):
        table[place[reference], place[prediction]] += 1
    return table


def f1(
    predictions: Sequence[Iterable[Hashable]],
    references: Sequence[Iterable[Hashable]],
    names: Sequence[Hashable],
) -> dict[str, Score]:
    """Macro and micro F₁ of sets of labels, and F₁ of each class: "f1", "f1.micro", "f1:class".

    A single label is a set of one. The macro average is over the classes of `names` that are
    predicted or true anywhere.
    """
    if len(predictions) != len(references) or not references:
        raise UserError(f"{len(predictions)} predictions, but {len(references)} references")
    said, true, both = Counter[Hashable](), Counter[Hashable](), Counter[Hashable]()
    for prediction, reference in zip(map(set, predictions), map(set, references), strict=True):
        said.update(prediction)
        true.update(reference)
        both.update(prediction & reference)
    there = [name for name in names if said[name] + true[name]]
    each = {name: _harmonic(both[name], said[name], true[name]) for name in there}
    about = f"classes:{len(there)}|n:{len(references)}"
    macro = math.fsum(each.values()) / max(1, len(each))
    micro = _harmonic(both.total(), said.total(), true.total())
    return {
        "f1": score("F1", macro, f"average:macro|{about}"),
        "f1.micro": score("F1", micro, f"average:micro|{about}"),
    } | {f"f1:{name}": score("F1", each[name], f"class:{name}|n:{true[name]}") for name in there}


def _harmonic(both: int, said: int, true: int) -> float:
    return 200 * both / (said + true) if both else 0.0


def spans(tags: Sequence[str], number: int = 0) -> Iterator[Span]:
    """The spans that tags such as B-PER, I-PER, O mark; also those of IOB1, IOBES and BILOU.

    As CoNLL's script and seqeval have it: a span begins at B, S or U, after O, after the end of
    another, and where the type changes; an I that nothing began begins one.
    """
    first, before, kind = 0, "O", ""
    for n, tag in enumerate([*tags, "O"]):
        mark, _, type_ = tag.partition("-")
        inside = mark not in ("O", "_")
        ends = before not in ("O", "_") and (
            before in ("E", "S", "L", "U") or mark in ("B", "S", "U") or not inside or type_ != kind
        )
        if ends:
            yield number, kind, first, n - 1
        if inside and (ends or before in ("O", "_")):
            first = n
        before, kind = mark, type_


def marks_spans(names: Sequence[str]) -> bool:
    """Whether tags mark spans: O, and letters with a type such as B-PER; both must be there."""
    marks = {name.partition("-")[0] for name in names}
    typed = all("-" in name for name in names if name not in ("O", "_"))
    return "O" in marks and len(marks) > 1 and typed and marks <= set("OBIESLU")


def span_f1(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> dict[str, Score]:
    """Precision, recall and F₁ of whole spans: right are those with the right type and both ends."""
    said = {span for n, tags in enumerate(predictions) for span in spans(tags, n)}
    true = {span for n, tags in enumerate(references) for span in spans(tags, n)}
    both = len(said & true)
    about = f"spans:{len(true)}|scheme:conll|average:micro"
    return {
        "f1": score("F1", _harmonic(both, len(said), len(true)), about),
        "precision": score("precision", 100 * both / max(1, len(said)), about),
        "recall": score("recall", 100 * both / max(1, len(true)), about),
    }


def calibration_error(
    confidences: NDArray[np.floating], right: NDArray[np.bool_], bins: int = BINS
) -> float:
    """Expected calibration error (Guo et al. 2017): Σ_b n_b / n · |accuracy_b − confidence_b|.

    In per cent, over bins of equal width (b/bins, (b+1)/bins].
    """
    which = np.clip(np.ceil(confidences * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(which, weights=right - confidences, minlength=bins)
    return 100 * float(np.abs(gaps).sum()) / max(1, len(right))

