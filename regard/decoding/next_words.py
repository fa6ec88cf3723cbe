"""The words that may follow a beginning, ranked: words, not the tokens that they are made of.

    p(w | x) ∝ Σ p(t₁ … tₙ | x) · p(the word is over | x, t₁ … tₙ)    over the tokens that spell w

A word goes on as long as letters, digits, marks on letters, apostrophes and hyphens follow. It is
over before anything else: whitespace, another mark, the text's end. What may stand there instead
of a word, punctuation or the end, is listed, too, and all of it together has probability 1: tokens
that would make the last word of the beginning longer ("I" → "It") are left out: it is over.

The search is best first. What has been spelt of a word is at least as probable as any word that
begins so; so the most probable beginnings are made longer until no other can be among the best.
"""

import heapq
import unicodedata
from dataclasses import dataclass, field
from itertools import takewhile
from math import exp, inf, log
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.decoding.continuation import Continuer, read
from regard.types import DecoderState

TOGETHER = 32
"""Beginnings of words that are made longer at once."""
LONGEST = 24
"""Tokens of a word; a longer one is taken to be over."""
FLOOR = 1e-9
"""What is less probable is not followed."""
END = "<end>"


class Word(NamedTuple):
    """A word that may follow."""

    text: str
    probability: float


def is_inside(character: str) -> bool:
    """Whether a word goes on with it. Half a character, of which one byte is there, is taken for a
    part of one."""
    return (
        character.isalnum()
        or character in "'’-_\ufffd"
        or unicodedata.category(character).startswith("M")
    )


def next_words(continuer: Continuer, text: str, count: int) -> list[Word]:
    """The most probable words after a text; whitespace at its end says nothing."""
    search = _Search(continuer, text.rstrip())
    with torch.inference_mode():
        return search.best(count)


class _Vocabulary:
    """How the tokens of a vocabulary begin: (V,) each."""

    def __init__(self, continuer: Continuer) -> None:
        by = continuer.by
        some = next(n for n in range(len(by)) if n not in by.special)
        base = len(by.decode([some]))
        # After another token: the blank before a text's first word would not be seen.
        texts = ["" if n in by.special else by.decode([some, n])[base:] for n in range(len(by))]
        texts[continuer.end] = "\n"
        inner = [text.lstrip() for text in texts]
        pairs = zip(texts, inner, strict=True)
        self.blank = np.array([bool(text) and not each for text, each in pairs])
        """Whitespace alone."""
        self.parted = np.array([text[:1].isspace() for text in texts])
        """Begins with whitespace."""
        self.goes_on = np.array([bool(text) and is_inside(text[0]) for text in texts])
        """A word goes on with it."""
        self.begins = np.array([bool(each) and is_inside(each[0]) for each in inner])
        """A word begins with it, after whitespace, if there is any."""
        self.whole = np.array([all(map(is_inside, each)) for each in inner])
        """Nothing stands in it after a word's end."""


@dataclass(order=True)
class _Begun:
    """What has been spelt of a word."""

    cost: float
    """−log p."""
    tokens: tuple[int, ...]
    inside: bool = field(compare=False, default=False)
    """Whether a word has begun, or at most the whitespace before it."""


class _Search:
    def __init__(self, continuer: Continuer, text: str) -> None:
        self.continuer, self.vocabulary = continuer, _Vocabulary(continuer)
        self.prompt = continuer.tokens(text)
        self.over = continuer.fresh or not text or not is_inside(text[-1])
        """Whether a word may follow without whitespace."""
        self.found: dict[str, float] = {}
        self.queue = [_Begun(0.0, ())]
        self.longer = 0.0
        """p of all that makes the text's last word longer."""

    def best(self, count: int) -> list[Word]:
        row = self.continuer.opened(self.prompt)
        if window := self.continuer.window:
            row = row[-max(1, window - LONGEST) :]
        state = read(self.continuer.model, [row])
        while self.queue and self.queue[0].cost < self._limit(count):
            size = min(TOGETHER, len(self.queue))
            begun = [heapq.heappop(self.queue) for _ in range(size)]
            floor = max(FLOOR, exp(-self._limit(count)))
            for each, chances in zip(begun, self._follow(begun, state, row[-1]), strict=True):
                self._extend(each, chances * exp(-each.cost), floor)
        ranked = sorted(self.found.items(), key=lambda each: (-each[1], each[0]))[:count]
        return [Word(text, chance / (1 - self.longer)) for text, chance in ranked]

    def _limit(self, count: int) -> float:
        """−log p of the last of the best: what costs more is none of them."""
        if len(self.found) < count:
            return inf
        return -log(heapq.nlargest(count, self.found.values())[-1])

    def _follow(self, begun: list[_Begun], state: DecoderState, last: int) -> NDArray[np.float64]:
        """p of each token after each of them: (N, V)."""
        found: list[NDArray[np.float64]] = [np.empty(0)] * len(begun)
        model = self.continuer.model
        never = torch.tensor(self.continuer.unwritten, dtype=torch.int64, device=model.device)
        for length in {len(each.tokens) for each in begun}:
            chosen = [n for n, each in enumerate(begun) if len(each.tokens) == length]
            rows = [[last, *begun[n].tokens] for n in chosen]
            tokens = torch.tensor(rows, device=model.device)
            logits, _ = model.step(tokens, state.expand(len(rows)))
            chances = logits.float().index_fill(-1, never, -inf).softmax(-1).cpu().double().numpy()
            for n, row in zip(chosen, chances, strict=True):
                found[n] = row
        return np.stack(found)

    def _extend(self, begun: _Begun, chances: NDArray[np.float64], floor: float) -> None:
        """Count what is over, and keep what may become longer; `chances` are p of all of it."""
        kinds, end = self.vocabulary, self.continuer.end
        if begun.inside:
            over = ~kinds.goes_on
            self._add(begun.tokens, float(chances[over].sum()))
            goes_on, ended = ~over & kinds.whole, ~over & ~kinds.whole
        else:
            if self.continuer.ends and chances[end] > floor:
                self.found[END] = self.found.get(END, 0.0) + float(chances[end])
            if self.continuer.ends:
                chances[end] = 0.0
            if not begun.tokens and not self.over:
                longer = kinds.goes_on
                self.longer += float(chances[longer].sum())
                chances = np.where(longer, 0.0, chances)
            self._push(begun, kinds.blank, chances, floor, inside=False)
            goes_on = kinds.begins & kinds.whole
            ended = ~goes_on & ~kinds.blank
        self._push(begun, goes_on, chances, floor, inside=True)
        for token in np.flatnonzero(ended & (chances > floor)).tolist():
            self._add((*begun.tokens, token), float(chances[token]))

    def _push(
        self,
        begun: _Begun,
        which: NDArray[np.bool_],
        chances: NDArray[np.float64],
        floor: float,
        *,
        inside: bool,
    ) -> None:
        for token in np.flatnonzero(which & (chances > floor)).tolist():
            tokens = (*begun.tokens, token)
            if len(tokens) < LONGEST:
                heapq.heappush(self.queue, _Begun(-log(chances[token]), tokens, inside))
            elif inside:
                self._add(tokens, float(chances[token]))

    def _add(self, tokens: tuple[int, ...], chance: float) -> None:
        """The first word, or marks, that these tokens spell."""
        if chance <= 0:
            return
        spelt = self.continuer.text(self.prompt, tokens).strip()
        kind = bool(spelt) and is_inside(spelt[0])
        same = takewhile(lambda c: not c.isspace() and is_inside(c) == kind, spelt)
        text = "".join(same)
        self.found[text] = self.found.get(text, 0.0) + chance
