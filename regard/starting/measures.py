"""What texts are like: how long, how often the same, in which language or script."""

import math
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

FREQUENT = {
    "English": "the and to of is you that it for was are with have this not",
    "German": "der die und ist nicht ich das ein zu den es sie mit auf wir",
    "French": "le la les et est je pas une vous dans que pour il des ce",
    "Spanish": "el los y que en una por es con no las del se lo para",
    "Italian": "il che di non è un per una sono con ho della mi gli si",
    "Portuguese": "o que não um é uma para com os do da em se ele você",
    "Dutch": "de het een ik niet en van dat is je zijn op te met voor",
    "Swedish": "och att det som en på är av för inte jag med har den till",
    "Danish": "og at det er en til af ikke jeg på som med har de for",
    "Polish": "nie w się na jest to i z że do co jak tom był po",
    "Czech": "je se na to že v jsem si ale jsi ne co jak byl tom",
    "Turkish": "bir bu ve ne için çok ben sen değil mi da de var o tom",
    "Finnish": "on ei se ja että oli minä hän mutta ole tom sen kun voi mitä",
}
"""Words by which a language is recognised, if it is one of these."""
SURE = 0.06
"""The least share of such words among all, to claim a language."""
SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARABIC", "HEBREW", "DEVANAGARI", "THAI", "HANGUL")
EAST = ("CJK", "HIRAGANA", "KATAKANA")
LOOKED = 20_000
"""Texts that are looked at for what needs no more."""


class Lengths(NamedTuple):
    """Of texts, in some unit: in the middle, of all but the longest twentieth, and at most."""

    unit: str
    median: int
    most: int
    longest: int
    total: int

    def __str__(self) -> str:
        most = f"95 % ≤ {self.most:,}, longest {self.longest:,}"
        unit = self.unit if self.median != 1 else self.unit.removesuffix("s")
        return f"{self.median:,} {unit} in the middle, {most}"

    def as_dict(self) -> dict[str, object]:
        return {
            "unit": self.unit, "median": self.median, "95%": self.most, "longest": self.longest,
        }  # fmt: skip


def lengths(sizes: Sequence[int], unit: str) -> Lengths:
    """Of texts that are so long."""
    found = np.array(sizes, np.int64)
    middle, most = (math.ceil(np.quantile(found, q)) for q in (0.5, 0.95))
    return Lengths(unit, middle, most, int(found.max()), int(found.sum()))


def words(text: str) -> list[str]:
    """In lower case, without the marks around them."""
    found = (word.strip(".,;:!?\"'()[]„“”‚‘’«»…–-") for word in text.lower().split())
    return [word for word in found if word]


def blanks(texts: Iterable[str]) -> float:
    """The share of characters that are blanks: hardly any where words are not parted by them."""
    several = [text for text in texts if len(text) > 1]
    return sum(text.count(" ") for text in several) / max(1, sum(map(len, several)))


def script(texts: Sequence[str]) -> str:
    """The script of most letters."""
    counts: Counter[str] = Counter()
    for text in texts[:1000]:
        for letter in filter(str.isalpha, text[:200]):
            counts[unicodedata.name(letter, "?").split()[0].split("-")[0]] += 1
    return counts.most_common(1)[0][0] if counts else ""


def language(texts: Sequence[str]) -> str:
    """The language, if it is sure; the script, where that says something; or nothing."""
    mostly = script(texts)
    if mostly in EAST:
        return "Chinese or Japanese script"
    if mostly != "LATIN":
        return f"{mostly.capitalize()} script" if mostly in SCRIPTS else ""
    seen = Counter(word for text in texts[:LOOKED] for word in words(text[:2000]))
    total = sum(seen.values())
    if total < 50:
        return ""
    hits = {name: sum(seen[word] for word in own.split()) / total for name, own in FREQUENT.items()}
    first, second = sorted(hits, key=lambda name: -hits[name])[:2]
    return first if hits[first] >= SURE and hits[first] > 1.4 * hits[second] else ""


def repeated(values: Iterable[str]) -> int:
    """How many are the same as one before."""
    seen, count = set[str](), 0
    for value in values:
        count += value in seen
        seen.add(value)
    return count


def vocabulary(texts: Iterable[str]) -> tuple[int, float]:
    """Words that stand there twice at least, and the share of words that do not."""
    seen = Counter(word for text in texts for word in words(text))
    again = sum(count > 1 for count in seen.values())
    return again, (len(seen) - again) / max(1, sum(seen.values()))


def drawn(text: str) -> bool:
    """Whether a text is one of the fifth by which a rule of thumb is tried: a matter of the text
    alone, so that equal texts stay together."""
    return zlib.crc32(text.encode()) % 5 == 0


def majority(labels: Sequence[str]) -> float:
    """The share of the most frequent label."""
    return Counter(labels).most_common(1)[0][1] / len(labels)


def neighbours(text: str) -> list[str]:
    """Characters and what stands beside them: what is counted where blanks part no words."""
    return [*text, *map("".join, pairwise(text))]


def naive_bayes(
    texts: Sequence[str], labels: Sequence[str], words: Callable[[str], list[str]] = words
) -> float | None:
    """Accuracy of p(label) Π p(word | label), with counts + 1, on a fifth of the texts, after
    counting words in the others; None where either is too small to say anything."""
    chosen = list(zip(texts[:LOOKED], labels[:LOOKED], strict=True))
    tried = [each for each in chosen if drawn(each[0])]
    learnt = [each for each in chosen if not drawn(each[0])]
    names = sorted({label for _, label in learnt})
    if len(tried) < 20 or len(names) < 2:
        return None
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(word, len(numbers)) for word in words(text)] for text, _ in learnt]
    counts = np.ones((len(names), len(numbers)))
    prior = np.zeros(len(names))
    for row, (_, label) in zip(rows, learnt, strict=True):
        np.add.at(counts[names.index(label)], row, 1)
        prior[names.index(label)] += 1
    weights = np.log(counts / counts.sum(1, keepdims=True))  # (labels, words)
    right = 0
    for text, label in tried:
        known = [numbers[word] for word in words(text) if word in numbers]
        scores = np.log(prior) + weights[:, known].sum(1)
        right += names[int(scores.argmax())] == label
    return right / len(tried)
