"""Scores of labels and tags. All values but probabilities and errors are percentages.

Of a class c among predictions ŷ and references y

    precision = |ŷ = c and y = c| / |ŷ = c|,   recall = |ŷ = c and y = c| / |y = c|

and F₁ is their harmonic mean, 2 · |both| / (|ŷ = c| + |y = c|); 0 where nothing is right.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.metrics import VERSION, Score, accuracy

Span = tuple[int, str, int, int]
"""Number of the sequence, type, first and last position."""
UNKNOWN = "_"
"""The tag of a word whose tag nobody knows."""
BINS = 15
MOST = 20.0
"""The temperature is at most this, and at least its inverse."""


def score(name: str, value: float, signature: str, *, higher: bool = True) -> Score:
    """A Score of this file's version."""
    return Score(
        name=name,
        value=value,
        signature=f"{signature}|version:{VERSION}",
        higher_is_better=higher,
    )


def confusion(pairs: Iterable[tuple[str, str]], names: Sequence[str]) -> NDArray[np.int64]:
    """How often each true label (rows) was taken for each (columns), from (predicted, true)."""
    place = {name: n for n, name in enumerate(names)}
    table = np.zeros((len(names), len(names)), np.int64)
    for prediction, reference in pairs:
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
        inside = mark not in ("O", UNKNOWN)
        ends = before not in ("O", UNKNOWN) and (
            before in ("E", "S", "L", "U") or mark in ("B", "S", "U") or not inside or type_ != kind
        )
        if ends:
            yield number, kind, first, n - 1
        if inside and (ends or before in ("O", UNKNOWN)):
            first = n
        before, kind = mark, type_


def marks_spans(names: Sequence[str]) -> bool:
    """Whether tags mark spans: O, and letters with a type such as B-PER; both must be there."""
    marks = {name.partition("-")[0] for name in names}
    typed = all("-" in name for name in names if name not in ("O", UNKNOWN))
    return "O" in marks and len(marks) > 1 and typed and marks <= set("OBIESLU")


def span_f1(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> dict[str, Score]:
    """Precision, recall and F₁ of whole spans: right is one whose type and ends are.

    Where the reference has an unknown tag, nobody knows which span is there, nor where the one
    beside it ends: spans of either side that hold such a place, or are next to one, do not count.
    """
    said, true = counted_spans(predictions, references)
    both = len(said & true)
    asked = sum(tag == UNKNOWN for tags in references for tag in tags)
    about = f"spans:{len(true)}|scheme:conll|average:micro" + f"|unknown:{asked}" * bool(asked)
    return {
        "f1": score("F1", _harmonic(both, len(said), len(true)), about),
        "precision": score("precision", 100 * both / max(1, len(said)), about),
        "recall": score("recall", 100 * both / max(1, len(true)), about),
    }


def counted_spans(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> tuple[set[Span], set[Span]]:
    """The spans that count, predicted and true."""
    said, true = set[Span](), set[Span]()
    for n, (prediction, reference) in enumerate(zip(predictions, references, strict=True)):
        places = {place for place, tag in enumerate(reference) if tag == UNKNOWN}
        said |= _apart(spans(prediction, n), places)
        true |= _apart(spans(reference, n), places)
    return said, true


def _apart(found: Iterable[Span], places: set[int]) -> set[Span]:
    """The spans that neither hold nor touch any of the places."""
    return {span for span in found if places.isdisjoint(range(span[2] - 1, span[3] + 2))}


def tags(
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    names: Sequence[str],
) -> dict[str, Score]:
    """Accuracy over words whose tag is known, and F₁: of spans where tags mark some, or of classes.

    `names` are the tags that can be predicted. What is not known is left out of all of them.
    """
    pairs = known(predictions, references)
    said, true = ([pair[side] for pair in pairs] for side in (0, 1))
    scores = {"accuracy": accuracy(said, true)}
    if marks_spans(names):
        return scores | span_f1(predictions, references)
    scores |= f1([[tag] for tag in said], [[tag] for tag in true], sorted({*names, *true}))
    del scores["f1.micro"]  # which is the accuracy
    return scores


def known(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> list[tuple[str, str]]:
    """(predicted, true) of all words whose tag is known."""
    return [
        pair
        for rows in zip(predictions, references, strict=True)
        for pair in zip(*rows, strict=True)
        if pair[1] != UNKNOWN
    ]


def errors(gaps: NDArray[np.float64]) -> dict[str, Score]:
    """Mean squared and mean absolute error; NaN does not count."""
    there = gaps[~np.isnan(gaps)]
    if not len(there):
        raise UserError("not one number is known: there is nothing to score")
    values = {"mse": float(np.square(there).mean()), "mae": float(np.abs(there).mean())}
    about = f"n:{len(there)}"
    return {name: score(name, value, about, higher=False) for name, value in values.items()}


@dataclass(frozen=True)
class Judged:
    """Logits z (N, C) of texts, and the numbers of their true labels, −1 for one never seen.

    One label each: p = softmax(z). Several: p_c = σ(z_c), and each label is a question of its own.
    """

    logits: NDArray[np.float64]
    truth: Sequence[Sequence[int]]
    several: bool = False

    def chosen(self) -> list[list[int]]:
        """Numbers of the labels that are predicted."""
        if self.several:
            return [np.flatnonzero(row > 0).tolist() for row in self.logits]
        return [[int(n)] for n in self.logits.argmax(1)]

    def log_probs(self) -> NDArray[np.float64]:
        """log p of each label."""
        return _log_probs(self.logits, self.several)

    def nll(self) -> float:
        """The mean of −log p(truth), over texts none of whose labels was never seen."""
        known = [n for n, row in enumerate(self.truth) if all(label >= 0 for label in row)]
        table, logits = self._table()[known], self.logits[known]
        total = _log_probs(logits, self.several)[table].sum()
        if self.several:
            total += _log_probs(-logits, self.several)[~table].sum()
        return 0.0 - float(total) / max(1, len(known))

    def calibration_error(self) -> float:
        """Expected calibration error of what is predicted: of the label, or of every answer.

        Σ_b n_b / n · |accuracy_b − confidence_b| in per cent, over bins of equal width
        (b/BINS, (b+1)/BINS]  (Guo et al. 2017).
        """
        chances, table = np.exp(self.log_probs()), self._table()
        if self.several:
            sure = np.maximum(chances, 1 - chances).ravel()
            right = ((self.logits > 0) == table).ravel()
        else:
            rows, best = np.arange(len(chances)), chances.argmax(1)
            sure, right = chances[rows, best], table[rows, best]
        which = np.clip(np.ceil(sure * BINS).astype(int) - 1, 0, BINS - 1)
        gaps = np.bincount(which, weights=right - sure, minlength=BINS)
        return 100 * float(np.abs(gaps).sum()) / max(1, len(sure))

    def temperature(self) -> float:
        """τ that makes the truth likeliest under the logits z / τ, 1/MOST ≤ τ ≤ MOST.

        −log p is convex in β = 1/τ; its slope Σ (p_c − truth_c) z_c is found to be 0 by halving.
        As if one more text had been wrong (Platt 1999), so that N right ones are not all the world.
        """
        known = [n for n, row in enumerate(self.truth) if all(label >= 0 for label in row)]
        logits, doubt = self.logits[known], 1 / (len(known) + 2)
        spread = doubt / (2 if self.several else logits.shape[1])
        truth = self._table()[known] * (1 - doubt) + spread
        low, high = -math.log(MOST), math.log(MOST)
        for _ in range(50):
            middle = (low + high) / 2
            chances = np.exp(_log_probs(math.exp(middle) * logits, self.several))
            rises = float(((chances - truth) * logits).sum()) > 0
            low, high = (low, middle) if rises else (middle, high)
        return math.exp(-(low + high) / 2)

    def scores(self) -> dict[str, Score]:
        """Likelihood, where it is one of any text, and calibration with their signatures."""
        unseen = sum(any(label < 0 for label in row) for row in self.truth)
        about = f"n:{len(self.truth) - unseen}|unseen:{unseen}"
        bins = f"bins:{BINS}|n:{len(self.truth)}"
        ece = {"ece": score("calibration error", self.calibration_error(), bins, higher=False)}
        if unseen == len(self.truth):
            return ece
        return {"nll": score("nll", self.nll(), about, higher=False)} | ece

    def _table(self) -> NDArray[np.bool_]:
        """(N, C): whether a label is true."""
        table = np.zeros(self.logits.shape, bool)
        for line, row in zip(table, self.truth, strict=True):
            line[[label for label in row if label >= 0]] = True
        return table


def _log_probs(logits: NDArray[np.float64], several: bool) -> NDArray[np.float64]:
    """log softmax(z) along the labels, or log σ(z) of each."""
    if several:
        return -np.logaddexp(0, -logits)
    top = logits - logits.max(1, keepdims=True)
    normed: NDArray[np.float64] = top - np.log(np.exp(top).sum(1, keepdims=True))
    return normed
