"""What counting can do: interpolated n-gram models of characters, beside which networks stand."""

import argparse
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from regard.data.files import Part
from regard.data.readers import Report
from regard.recipe.config import load
from regard.tasks import language_model

ORDERS = range(1, 9)
RECIPE = "timemachine-lstm"


class Ngrams:
    """p_n(y | h) = (c(h y) + T(h) p_{n−1}(y | h′)) / (c(h) + T(h))

    h are the n − 1 characters before y, h′ those without the first, T(h) how many different ones
    follow h (Witten and Bell 1991); p₀ is the same for every character."""

    def __init__(self, text: str, order: int, characters: int) -> None:
        self.order, self.characters = order, characters
        self.after: dict[str, Counter[str]] = defaultdict(Counter)
        for place, character in enumerate(text):
            for length in range(min(order, place + 1)):
                self.after[text[place - length : place]][character] += 1

    def probability(self, character: str, before: str) -> float:
        chance = 1 / self.characters
        for length in range(min(self.order, len(before) + 1)):
            follow = self.after.get(before[len(before) - length :])
            if follow is None:
                break
            kinds = len(follow)
            chance = (follow[character] + kinds * chance) / (follow.total() + kinds)
        return chance

    def bits(self, text: str) -> float:
        """Bits per character; only the text itself is known before."""
        chances = (
            self.probability(text[n], text[max(0, n - self.order + 1) : n])
            for n in range(len(text))
        )
        return -sum(map(math.log2, chances)) / len(text)


def ngrams(options: argparse.Namespace) -> dict[str, Any]:
    """Bits per character on the part that the networks are scored on, for each order."""
    plan = language_model.plan(load(Path(RECIPE)).task)
    parts: list[Part] = ["train", "test"]
    train, test = (
        "".join(each.values[0] + "\n" for each in plan.examples(part, Report())) for part in parts
    )
    characters = len({*train, *test})
    found = {order: Ngrams(train, order, characters).bits(test) for order in ORDERS}
    for order, bits in found.items():
        print(f"order {order}: {bits:.3f} bits per character")
    return {"bits_per_character": found, "characters": len(test)}
