"""Strings that end an output: it ends before the first of them.

A string may begin inside a token and end inside another, so what is looked at is text, not tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

from regard.search import Hypothesis

MARGIN = 8
"""Tokens before those that are looked at: a character, and the blank of a first word, are whole."""


@dataclass(frozen=True)
class Stops:
    """The strings, and how tokens become text."""

    strings: tuple[str, ...]
    decode: Callable[[Sequence[int]], str]

    def __bool__(self) -> bool:
        return bool(self.strings)

    def over(self, context: Sequence[int], written: Sequence[int]) -> bool:
        """Whether the last token that was written after `context` completes one of them."""
        # A token has a byte at least.
        looked = max((len(each.encode()) for each in self.strings), default=0) + 1
        tail = written[-looked - MARGIN :]
        if len(tail) < len(written):
            text = self.decode(tail)
        else:
            before = context[-MARGIN:]
            text = self.decode([*before, *tail])[len(self.decode(before)) :]
        return any(each in text for each in self.strings)

    def cut(self, text: str) -> str:
        """What stands before the first of them."""
        places = [place for each in self.strings if (place := text.find(each)) >= 0]
        return text[: min(places)] if places else text

    def settled(self, text: str) -> str:
        """What is surely a part of the output, whatever follows: its last character may be half
        written, and so may one of the strings."""
        whole = self.cut(text.rstrip("\ufffd"))
        begun = (
            length
            for each in self.strings
            for length in range(min(len(each) - 1, len(whole)), 0, -1)
            if whole.endswith(each[:length])
        )
        return whole[: len(whole) - max(begun, default=0)]

    def shortened(self, context: Sequence[int], found: Hypothesis) -> Hypothesis:
        """Without the tokens that write nothing before the first of them; such an output has no
        end of its own."""
        before = self.decode(context)

        def said(count: int) -> str:
            return self.decode([*context, *found.tokens[:count]]).removeprefix(before)

        whole = said(len(found.tokens))
        text = self.cut(whole)
        if text == whole:
            return found
        count = next(n for n in range(len(found.tokens) + 1) if said(n).startswith(text))
        kept = found.log_probs[:count]
        return Hypothesis(found.tokens[:count], fsum(kept), kept, False)
