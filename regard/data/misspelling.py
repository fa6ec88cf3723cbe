"""Made-up misspellings, as like the real ones as their statistics make them.

A misspelling is its word with a few slips: "accommodate" → "acomadate" has c → nothing, mo → a. How
likely a slip is, the real ones say, given the letters on both sides of it,

    p(old → new | left, right) = count(left old right → left new right) / count(left old right)

(with 3 more below, as one place is no proof) and, a tenth as likely, wherever else `old` stands, by
the same counts without neighbours. How many slips there are is drawn from the real ones, too.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import accumulate

Pair = tuple[str, str]
"""A misspelling and its word."""
Slip = tuple[int, int, str]
"""From, to, and what is written there instead."""
Place = tuple[str, str, str]
"""What stands left of a slip, under it, right of it; without neighbours, "" on both sides."""

WIDEST = 4
"""Letters of a slip; a misspelling with a wider one is another word, or a guess."""
RARE = 3
"""What is added to the count of a place: one that was seen once has no sure slip."""
ELSEWHERE = 0.1
"""How much the counts without neighbours weigh."""


def slips(misspelling: str, word: str) -> list[Slip]:
    """Where the two differ; what one equal letter parts, as in a swap of two, is one slip."""
    found: list[Slip] = []
    begin = 0
    matcher = SequenceMatcher(None, word, misspelling, autojunk=False)
    for tag, start, end, left, right in matcher.get_opcodes():
        if tag == "equal":
            continue
        if found and start - found[-1][1] <= 1:
            start = found.pop()[0]
        else:
            begin = left
        found.append((start, end, misspelling[begin:right]))
    return found


class Misspeller:
    """Learns slips from real misspellings and makes new ones: the same ones for the same seed."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        made: Counter[tuple[Place, str]] = Counter()
        seen: Counter[Place] = Counter()
        self.many: Counter[int] = Counter()
        """How many slips a misspelling has, and how often."""
        for misspelling, word in pairs:
            found = slips(misspelling, word)
            if not found or any(max(end - start, len(new)) > WIDEST for start, end, new in found):
                continue
            self.many[len(found)] += 1
            seen.update(place for _, _, both in _places(word) for place in both)
            for start, end, new in found:
                made.update((place, new) for place in _both(word, start, end))
        self.likely: dict[Place, list[tuple[str, float]]] = defaultdict(list)
        for (place, new), count in made.items():
            share = 1 if place[0] else ELSEWHERE
            if place[0] or count >= RARE:
                self.likely[place].append((new, share * count / (seen[place] + RARE)))

    def __call__(self, word: str, copies: int, seed: int) -> list[str]:
        """So many misspellings, some of them the same; the word itself if no slip fits it, or if
        nothing were left of it."""
        options = [
            ((start, end, new), weight)
            for start, end, both in _places(word)
            for place in both
            for new, weight in self.likely.get(place, ())
        ]
        if not options:
            return [word] * copies
        possible, weights = zip(*options, strict=True)
        sums = list(accumulate(weights))
        numbers, often = zip(*sorted(self.many.items()), strict=True)
        dice = random.Random(f"{seed} {word}")
        return [
            _apply(word, dice.choices(possible, cum_weights=sums, k=number)) or word
            for number in dice.choices(numbers, often, k=copies)
        ]


def _places(word: str) -> Iterator[tuple[int, int, tuple[Place, Place]]]:
    """Every stretch that a slip may replace, also the empty ones between two letters."""
    for start in range(len(word) + 1):
        for end in range(start, min(len(word), start + WIDEST) + 1):
            yield start, end, _both(word, start, end)


def _both(word: str, start: int, end: int) -> tuple[Place, Place]:
    """A stretch with its neighbours, and without."""
    framed = f"^{word}$"
    old = word[start:end]
    return (framed[start], old, framed[end + 1]), ("", old, "")


def _apply(word: str, chosen: Iterable[Slip]) -> str:
    """The word with these slips, from its end; one that meets a slip before it in line is left."""
    free: list[Slip] = []
    for start, end, new in chosen:
        if all(end < other[0] or other[1] < start for other in free):
            free.append((start, end, new))
    for start, end, new in sorted(free, reverse=True):
        word = word[:start] + new + word[end:]
    return word
