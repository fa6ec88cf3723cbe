"""BPE-dropout: the same text, cut into subwords in other ways each time (Provilkov et al. 2020).

BPE joins the two neighbours whose merge was learnt first, again and again. With dropout each merge
that could be made is left out with probability p, at every step anew; where none is left, the word
stays as it is then. A model that has seen a word cut in many ways knows more about what it is made
of, which helps where there is little text. What is not for training is cut as BPE does, p = 0.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random
from typing import Annotated

from regard.data.tokenizers import Tokenizer
from regard.errors import RecipeError
from regard.recipe.values import Range, Share

WAYS = 64
"""Ways to cut a word that are drawn once; each time it stands somewhere, one of them is taken."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """In how many ways the training text is cut into subwords."""

    dropout: Share = 0.0
    """Probability that a merge of BPE is left out; 0: a text is always cut in the same way."""
    copies: Annotated[int, Range(1, 1000)] = 8
    """How many copies of the training text are stored, each cut in its own way, where that is not
    0. An epoch goes through all of them."""


class Cutter:
    """Cuts texts at random."""

    def __init__(self, tokenizer: Tokenizer, dropout: float) -> None:
        model = json.loads(tokenizer.json)["model"]
        if model.get("type") != "BPE":
            raise RecipeError("cutting.dropout: it needs tokenizer.kind = 'bpe'")
        self._tokenizer, self._dropout = tokenizer, dropout
        self._numbers: dict[str, int] = model["vocab"]
        self._ranks = {tuple(pair): rank for rank, pair in enumerate(model["merges"])}
        self._ways = cache(self._draw)

    def encode(self, lines: Sequence[str], random: Random) -> list[list[int]]:
        """Symbols of each line in one of its ways, without start and end."""
        found = []
        for line in lines:
            words = [random.choice(self._ways(word)) for word in self._tokenizer.words(line)]
            found.append([symbol for word in words for symbol in word])
        return found

    def _draw(self, word: str) -> list[list[int]]:
        """Some ways to cut a word."""
        random = Random(word)
        return [[self._numbers[piece] for piece in self._cut(word, random)] for _ in range(WAYS)]

    def _cut(self, word: str, random: Random) -> list[str]:
        pieces = list(word)
        while True:
            possible = [
                (self._ranks[pair], place)
                for place, pair in enumerate(pairwise(pieces))
                if pair in self._ranks and random.random() >= self._dropout
            ]
            if not possible:
                return pieces
            _, place = min(possible)
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
