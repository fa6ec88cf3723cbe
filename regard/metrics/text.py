"""The scores of a task that writes text, by their keys in a recipe."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from regard import metrics
from regard.errors import RecipeError
from regard.metrics import Direction, Score, Unit, cider
from regard.recipe.values import Range

Key = Literal[
    "bleu", "chrf", "ter", "exact", "line_error_rate", "nbest", "wer", "cer", "per", "cider"
]  # fmt: skip
SLOW = ("ter", "nbest")
"""What is not reported while training: the one is slow, the other needs a slow search."""
LOWER = ("ter", "line_error_rate", "wer", "cer", "per")
"""Scores whose lower values are the better ones."""
UNITS: dict[str, Unit] = {"wer": "word", "cer": "character", "per": "phoneme"}


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How outputs are scored."""

    tokenize: Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"] = "13a"
    """sacreBLEU's tokenisation; none for text that is tokenised already."""
    lowercase: bool = False
    """Whether case is ignored."""
    lines: Annotated[int, Range(0, 10**6)] = 200
    """Validation lines that are translated (greedily) each time, for scores while training."""
    metrics: tuple[Key, ...] = ("bleu", "chrf", "ter", "exact")
    """Which scores are reported. line_error_rate: lines that are not exact, the word error rate
    where a line is a word; nbest: one of the search's n best is exact; wer, cer, per: edits per
    word, character, phoneme; cider: CIDEr-D, of captions."""
    multiple_references: str = ""
    """What stands between the right answers on a line of validation and test; empty: one each."""
    unseen: bool = False
    """Report scores apart for answers that the training part has as a target, and for others."""

    def __post_init__(self) -> None:
        if not self.metrics:
            raise RecipeError("metrics: names no score")

    @property
    def watched(self) -> dict[str, Direction]:
        """The scores that are reported while training."""
        shown = (key for key in self.metrics if key not in SLOW)
        return {key: "lower" if key in LOWER else "higher" for key in shown}

    def answers(self, target: str) -> list[str]:
        """The right answers on a line of the target side."""
        return target.split(self.multiple_references) if self.multiple_references else [target]

    def scores(
        self,
        outputs: Sequence[Sequence[str]],
        references: Sequence[Sequence[str]],
        which: Sequence[str] | None = None,
        samples: int = 0,
    ) -> dict[str, Score]:
        """Scores of `outputs`, each line's best first; of `which` metrics, if not all named here.

        With `samples` > 0, they have bootstrap intervals from so many resamples.
        """
        keys: Sequence[str] = self.metrics if which is None else which
        first = [texts[0] for texts in outputs]
        folded, answers = first, references
        if self.lowercase:
            folded, answers = _folded(first), [_folded(texts) for texts in references]

        def translation(texts: Sequence[str], keys: Sequence[str]) -> dict[str, Score]:
            return metrics.translation(
                texts,
                references,
                tokenize=self.tokenize,
                lowercase=self.lowercase,
                metrics=keys,
                samples=samples,
            )

        found = translation(first, [key for key in keys if key in metrics.TRANSLATION])
        for key in keys:
            if key in UNITS:
                found[key] = metrics.error_rate(folded, answers, UNITS[key], samples)
            elif key == "cider":
                found[key] = cider.score(first, references, samples)
            elif key == "line_error_rate":
                found[key] = _wrong(translation(first, ["exact"])["exact"])
            elif key == "nbest":
                nearest = _nearest(outputs, references, self.lowercase)
                found[key] = _at_rank(translation(nearest, ["exact"])["exact"], outputs)
        return {key: found[key] for key in keys}

    def by_line(
        self, outputs: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
    ) -> dict[str, tuple[list[float], list[float]]]:
        """What each line adds to the scores that are ratios, and what that is divided by."""
        first, ones = [texts[0] for texts in outputs], [1.0] * len(outputs)
        right = _right(first, references, self.lowercase)
        best = _right(_nearest(outputs, references, self.lowercase), references, self.lowercase)
        found = {
            "exact": (right, ones),
            "line_error_rate": ([1 - each for each in right], ones),
            "nbest": (best, ones),
        }
        texts, answers = first, [*references]
        if self.lowercase:
            texts, answers = _folded(first), [_folded(each) for each in references]
        for key in (key for key in self.metrics if key in UNITS):
            edits = metrics.edits(texts, answers, UNITS[key])
            found[key] = edits[0].tolist(), edits[1].tolist()
        if "cider" in self.metrics:
            found["cider"] = cider.by_line(first, references).tolist(), ones
        return {key: lines for key, lines in found.items() if key in self.metrics}


def _right(
    texts: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool
) -> list[float]:
    """1 for each text that is one of its references, spaces at the ends aside."""
    fold = str.lower if lowercase else str
    return [
        float(fold(text).strip() in {fold(answer).strip() for answer in answers})
        for text, answers in zip(texts, references, strict=True)
    ]


def _folded(texts: Sequence[str]) -> list[str]:
    return [text.lower() for text in texts]


def _nearest(
    outputs: Sequence[Sequence[str]], references: Sequence[Sequence[str]], lowercase: bool
) -> list[str]:
    """Of each line's outputs the first that is right, or else the first."""
    fold = str.lower if lowercase else str
    chosen = []
    for texts, answers in zip(outputs, references, strict=True):
        right = {fold(answer).strip() for answer in answers}
        chosen.append(next((text for text in texts if fold(text).strip() in right), texts[0]))
    return chosen


def _at_rank(right: Score, outputs: Sequence[Sequence[str]]) -> Score:
    rank = max(map(len, outputs))
    return replace(right, name=f"exact at {rank}", signature=f"rank:{rank}|{right.signature}")


def _wrong(right: Score) -> Score:
    """100 − the share that is right; the ends of the interval change places."""
    low, high = (None if end is None else 100 - end for end in (right.high, right.low))
    return replace(
        right,
        name="line error rate",
        value=100 - right.value,
        higher_is_better=False,
        low=low,
        high=high,
    )
