"""Scores, each with the signature under which somebody else can compute it again.

All values are percentages, as the field reports them: BLEU, chrF and TER by sacrebleu, edit
distances by rapidfuzz. Wherever `references` are asked for, a line has one reference or a list
of alternatives, of which the nearest counts.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from sacrebleu import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from regard.errors import UserError

References = Sequence[str] | Sequence[Sequence[str]]
Unit = Literal["word", "character", "phoneme"]
Direction = Literal["lower", "higher"]
"""Which values of a metric are the better ones."""

VERSION = "regard-1"
"""Of the definitions in this file: it changes when a value would."""

RATES = {"word": "WER", "character": "CER", "phoneme": "PER"}

SEED = 12345
"""Of all draws; sacrebleu takes it, too, when none is given."""

TRANSLATION = ("bleu", "chrf", "ter", "exact")


def perplexity(nll: float) -> float:
    """exp of the mean −log p of a token; finite where that would overflow."""
    return math.exp(min(nll, 700.0))


@dataclass(frozen=True, kw_only=True)
class Score:
    """One number for a whole test set, and how it came about."""

    name: str
    value: float
    signature: str
    higher_is_better: bool
    low: float | None = None
    high: float | None = None
    """The ends of a 95 % bootstrap interval, where one was asked for."""

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.name}|{self.signature} = {self.value:.2f}{interval}"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A system's score in a paired bootstrap. `p` is None for the baseline itself."""

    system: str
    score: Score
    mean: float
    half: float
    """Half of the 95 % interval around the mean, before it is cut to what scores can be."""
    p: float | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Systems in their given order, the first one the baseline, under every metric."""

    baseline: str
    scores: Mapping[str, tuple[Compared, ...]]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> str:
        """A line per system and a column per metric: score (mean ± half the interval) p."""
        systems = ["system", *(row.system for row in next(iter(self.scores.values())))]
        columns = [systems, *(_column(rows) for rows in self.scores.values())]
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in zip(*columns, strict=True)
        ]
        lines += ["", f"p: paired bootstrap against {self.baseline}; * where p < 0.05"]
        lines += [
            f"{rows[0].score.name}|{rows[0].score.signature}" for rows in self.scores.values()
        ]
        return "\n".join(lines)


def _column(rows: Sequence[Compared]) -> list[str]:
    cells = [f"{rows[0].score.name} (mean ± 95 %)"]
    for row in rows:
        cell = f"{row.score.value:.2f} ({row.mean:.2f} ± {row.half:.2f})"
        if row.p is not None:
            cell += f" p = {row.p:.4f}" + ("*" if row.p < 0.05 else "")
        cells.append(cell)
    return cells


def translation(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    metrics: Sequence[str] = TRANSLATION,
    samples: int = 0,
) -> dict[str, Score]:
    """BLEU, chrF, TER, and the share of lines that are exactly right, spaces at the ends aside.

    `tokenize` is BLEU's: "none" for text that is tokenised already. TER ignores case always, as
    its inventors do, and is slow: leave it out of `metrics` where time matters. With
    `samples` > 0, the scores have bootstrap intervals from so many resamples.
    """
    alternatives = _paired(hypotheses, references)
    scores = {}
    for name, scorer in _scorers(metrics, tokenize, lowercase).items():
        if samples:
            [alone] = _resampled({"": hypotheses}, alternatives, scorer, samples)
            scores[name] = alone.score
        else:
            result = scorer.corpus_score(hypotheses, _documents(alternatives))
            scores[name] = Score(
                name=result.name,
                value=result.score,
                signature=str(scorer.get_signature()),
                higher_is_better=result.name != "TER",
            )
    if "exact" in metrics:
        case, fold = ("lc", str.lower) if lowercase else ("mixed", str)
        lines = [fold(line).strip() for line in hypotheses]
        right = _equal(lines, [[fold(text).strip() for text in texts] for texts in alternatives])
        signature = f"{_nrefs(alternatives)}|case:{case}|strip:yes"
        scores["exact"] = _ratio("exact", right, None, signature, samples, higher=True)
    return {name: scores[name] for name in metrics}


def paired_bootstrap(
    systems: Mapping[str, Sequence[str]],
    references: References,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    metrics: Sequence[str] = ("bleu", "chrf"),
    samples: int = 1000,
) -> Comparison:
    """Is a system better than the first one, or was the test set kind to it? (Koehn 2004)

    Every resample draws lines with replacement, the same lines for both systems. p is the
    probability of a difference as large as the one seen, were the systems equally good.
    """
    for name, hypotheses in systems.items():
        alternatives = _paired(hypotheses, references, f" of {name}")
    scores = {
        name: _resampled(systems, alternatives, scorer, samples)
        for name, scorer in _scorers(metrics, tokenize, lowercase).items()
    }
    return Comparison(baseline=next(iter(systems)), scores=scores)


def error_rate(
    hypotheses: Sequence[str], references: References, unit: Unit, samples: int = 0
) -> Score:
    """Σ d(hypothesis, reference) / Σ |reference|, d the least number of units to edit.

    Characters are those of the stripped line, spaces among them; all other units stand between
    spaces. Of several references the one with the smallest rate counts, the first among equals.
    """
    alternatives = _paired(hypotheses, references)
    needed, lengths = edits(hypotheses, alternatives, unit)
    if not lengths.sum():
        raise UserError(f"all {len(lengths)} references are empty: there is no {RATES[unit]}")
    signature = f"{_nrefs(alternatives)}|case:mixed|unit:{unit}|average:micro"
    return _ratio(RATES[unit], needed, lengths, signature, samples, higher=False)


def edits(
    hypotheses: Sequence[str], alternatives: Sequence[Sequence[str]], unit: Unit
) -> npt.NDArray[np.float64]:
    """(2, N): the edits of each line, and the length of the reference that is nearest to it."""
    split: Callable[[str], Sequence[str]] = str.strip if unit == "character" else str.split
    pairs = zip(hypotheses, alternatives, strict=True)
    nearest = [_nearest(split(line), [split(text) for text in texts]) for line, texts in pairs]
    return np.array(nearest, dtype=float).T


def accuracy(predictions: Sequence[Any], references: Sequence[Any]) -> Score:
    """The share of predictions that equal their reference, or one of a list of them."""
    alternatives = _paired(predictions, references)
    right = _equal(predictions, alternatives)
    signature = f"{_nrefs(alternatives)}|match:equal"
    return _ratio("accuracy", right, None, signature, 0, higher=True)


def bootstrap(
    values: npt.ArrayLike, counts: npt.ArrayLike | None = None, samples: int = 1000
) -> tuple[float, float]:
    """The 95 % interval of Σ values / Σ counts when lines are drawn anew, with replacement.

    `values` is any statistic per line; without `counts` every line counts once: the mean.
    """
    sums = np.asarray(values, dtype=float)
    totals = np.ones_like(sums) if counts is None else np.asarray(counts, dtype=float)
    if sums.ndim != 1 or sums.shape != totals.shape or not totals.any() or samples < 1:
        raise ValueError(f"no bootstrap: values {sums.shape}, counts {totals.shape}, {samples=}")
    draw = np.random.default_rng(SEED)
    statistics: list[float] = []
    while len(statistics) < samples:
        lines = draw.integers(len(sums), size=len(sums))
        # A draw of nothing but empty references has no ratio; only tiny test sets meet one.
        if total := totals[lines].sum():
            statistics.append(sums[lines].sum() / total)
    low, high = np.quantile(statistics, [0.025, 0.975])
    return float(low), float(high)


def _paired(hypotheses: Sequence[Any], references: Sequence[Any], whose: str = "") -> list[Any]:
    """The alternatives of every line, once it is sure that there are as many as hypotheses."""
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} hypotheses{whose}, but {len(references)} references: "
            "line n of one must belong to line n of the other"
        )
    if not len(hypotheses):
        raise UserError(f"no hypotheses{whose}: there is nothing to score")
    alternatives = [r if isinstance(r, list | tuple) else [r] for r in references]
    if [] in alternatives or () in alternatives:
        line = next(n for n, texts in enumerate(alternatives, start=1) if not texts)
        raise UserError(f"references, line {line}: the list of alternatives is empty")
    return alternatives


def _nrefs(alternatives: Sequence[Any]) -> str:
    """The signature's word on the references per line, as sacrebleu has it."""
    numbers = {len(texts) for texts in alternatives}
    return f"nrefs:{numbers.pop() if len(numbers) == 1 else 'var'}"


def _equal(predictions: Sequence[Any], alternatives: Sequence[Any]) -> npt.NDArray[np.float64]:
    """1 for every prediction that is among its alternatives, 0 for the others."""
    pairs = zip(predictions, alternatives, strict=True)
    return np.array([float(prediction in texts) for prediction, texts in pairs])


def _nearest(line: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[int, int]:
    """(edits, length) of the reference with the smallest rate; an empty one forgives nothing."""

    def rate(pair: tuple[int, int]) -> float:
        edits, length = pair
        return edits / length if length else math.inf if edits else 0.0

    return min(((Levenshtein.distance(line, text), len(text)) for text in references), key=rate)


def _ratio(
    name: str,
    values: npt.NDArray[np.float64],
    counts: npt.NDArray[np.float64] | None,
    signature: str,
    samples: int,
    *,
    higher: bool,
) -> Score:
    """100 · Σ values / Σ counts, with its interval if there are to be samples."""
    low = high = None
    if samples:
        low, high = bootstrap(100 * values, counts, samples)
        signature += f"|bs:{samples}|seed:{SEED}"
    return Score(
        name=name,
        value=100 * float(values.sum() / (len(values) if counts is None else counts.sum())),
        signature=f"{signature}|version:{VERSION}",
        higher_is_better=higher,
        low=low,
        high=high,
    )


def _scorers(metrics: Sequence[str], tokenize: str, lowercase: bool) -> dict[str, Metric]:
    """sacrebleu's part of the metrics."""
    make: dict[str, Callable[[], Metric]] = {
        # force: no warning that text with tokenised full stops should have been detokenised.
        "bleu": lambda: BLEU(tokenize=tokenize, lowercase=lowercase, force=True),
        "chrf": lambda: CHRF(lowercase=lowercase),
        "ter": lambda: TER(),
    }
    try:
        return {name: make[name]() for name in metrics if name in make}
    except RuntimeError as error:  # a tokenizer whose own dependencies are missing
        raise UserError(f"tokenizer {tokenize!r}: {' '.join(str(error).split())}") from error


def _documents(alternatives: Sequence[Sequence[str]]) -> list[Any]:
    """sacrebleu's order: all first references, all second ones, None where a line has fewer."""
    return [list(texts) for texts in zip_longest(*alternatives)]


def _resampled(
    systems: Mapping[str, Sequence[str]],
    alternatives: Sequence[Sequence[str]],
    scorer: Metric,
    samples: int,
) -> tuple[Compared, ...]:
    """Every system's score, its interval, and its p-value against the first system."""
    named, documents = list(systems.items()), _documents(alternatives)
    with _own_seed():
        test = PairedTest(named, {"": scorer}, documents, test_type="bs", n_samples=samples)
        signatures, columns = test()
    [(metric, signature)] = signatures.items()
    results: Sequence[Any] = columns[metric]
    compared = []
    for number, ((name, hypotheses), result) in enumerate(zip(named, results, strict=True)):
        p = None if number == 0 else float(result.p_value)
        # Equal output differs by 0 in every sample, which the test takes for no accident.
        if p is not None and list(hypotheses) == list(named[0][1]):
            p = 1.0
        mean, half = float(result.mean), float(result.ci)
        # sacrebleu's interval is symmetric, and so may leave what a score can be.
        score = Score(
            name=metric,
            value=float(result.score),
            signature=str(signature),
            higher_is_better=metric != "TER",
            low=max(0.0, mean - half),
            high=mean + half if metric == "TER" else min(100.0, mean + half),
        )
        compared.append(Compared(system=name, score=score, mean=mean, half=half, p=p))
    return tuple(compared)


@contextmanager
def _own_seed() -> Iterator[None]:
    """sacrebleu takes its seed from the environment alone."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(SEED)
    try:
        yield
    finally:
        del os.environ["SACREBLEU_SEED"]
        if before is not None:
            os.environ["SACREBLEU_SEED"] = before
