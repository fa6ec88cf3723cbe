"""CIDEr-D: how much a caption is like those that people gave (Vedantam et al. 2015, section 5).

    CIDEr-D(c, S) = ¼ Σ_n 10/m Σ_j exp(−(l_c − l_j)² / 2σ²) · min(g_c, g_j) · g_j / (‖g_c‖ ‖g_j‖)

over n = 1 … 4 and the m references s_j of a picture, with σ = 6. The vector g of a text has for
each n-gram k

    g_k = h_k log(|I| / max(1, Σ_i [a reference of picture i has k]))

where h_k is how often the text has it, and I are the pictures of the part that is scored. As in
the authors' program, h_k is a count (in the paper, a share of the text's n-grams: that changes
nothing but what the minimum clips), and l counts words.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from regard.metrics import SEED, VERSION, Score, bootstrap

MOST, SIGMA = 4, 6.0
WORD = re.compile(r"\w+(?:['’-]\w+)*")
Gram = tuple[str, ...]
Weights = Mapping[Gram, float]


def words(text: str) -> list[str]:
    """In lower case, without punctuation."""
    return WORD.findall(text.lower())


def score(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], samples: int = 0
) -> Score:
    """100 times the mean over captions, as the field reports it: it may be more than 100. With
    `samples` > 0, it has a bootstrap interval; g stays what it is for all pictures."""
    values = 100 * by_line(hypotheses, references)
    counts = {len(texts) for texts in references}
    signature = f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}|case:lc|tok:words"
    low = high = None
    if samples:
        low, high = bootstrap(values, samples=samples)
        signature += f"|bs:{samples}|seed:{SEED}"
    return Score(
        name="CIDEr-D",
        value=float(values.mean()),
        signature=f"{signature}|n:{MOST}|sigma:{SIGMA:g}|version:{VERSION}",
        higher_is_better=True,
        low=low,
        high=high,
    )


def by_line(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> npt.NDArray[np.float64]:
    """CIDEr-D of each caption, from 0 to 10."""
    said, right = [*map(words, hypotheses)], [[*map(words, texts)] for texts in references]
    found = np.zeros(len(said))
    for n in range(1, MOST + 1):
        rare = rarity(right, n)
        for line, (text, texts) in enumerate(zip(said, right, strict=True)):
            own = weighed(text, n, rare)
            alike = [
                _alike(own, weighed(other, n, rare)) * _as_long(text, other) for other in texts
            ]
            found[line] += 10 * math.fsum(alike) / len(alike) / MOST
    return found


def rarity(references: Sequence[Sequence[Sequence[str]]], n: int) -> Weights:
    """log(|I| / pictures that have it) of every n-gram of references; () stands for any other."""
    seen = Counter(k for texts in references for k in {k for text in texts for k in grams(text, n)})
    return {(): math.log(len(references))} | {
        gram: math.log(len(references) / count) for gram, count in seen.items()
    }


def grams(text: Sequence[str], n: int) -> list[Gram]:
    return [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]


def weighed(text: Sequence[str], n: int, rare: Weights) -> Weights:
    """g of a text."""
    return {k: count * rare.get(k, rare[()]) for k, count in Counter(grams(text, n)).items()}


def _alike(said: Weights, right: Weights) -> float:
    """The clipped cosine of two vectors; 0 where one of them is 0."""
    product = math.fsum(min(said[k], right[k]) * right[k] for k in said.keys() & right.keys())
    lengths = [math.hypot(*vector.values()) for vector in (said, right)]
    return product / math.prod(lengths) if all(lengths) else 0.0


def _as_long(one: Sequence[str], other: Sequence[str]) -> float:
    return math.exp(-((len(one) - len(other)) ** 2) / (2 * SIGMA**2))
