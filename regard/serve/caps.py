"""CTranslate2 for sentences that come few at a time.

One call of it has one cap on the length of outputs, and each sentence has a cap of its own: of
thirty sentences hardly three can be searched together. Here their caps are rounded up, so that most
can. What reaches its own cap is searched once more, with that cap: only where a hypothesis would
have won unfinished at the cap, and lost as it went on, is the output another, a finished one. What
a sentence's cap is rounded to depends on itself alone: neither on its company nor on what came
before.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from regard.decoding.translation import Finder
from regard.front import Predictor
from regard.recipe.parts import Part
from regard.search import Hypothesis, Request

ROUNDING = 16
"""Tokens."""


class Served(Predictor):
    """A trained model that many ask at once."""

    def finder(self, search: Part, *, prefixes: bool = False, details: bool = True) -> Any:
        found = super().finder(search, prefixes=prefixes, details=details)
        return None if found is None else partial(_found, found)


def _found(
    find: Finder, sources: list[list[int]], request: Request, search: Part
) -> list[list[Hypothesis]]:
    caps = [int(cap) for cap in request.caps]
    rounded = [-(-cap // ROUNDING) * ROUNDING if cap > 0 else cap for cap in caps]
    found = find(sources, replace(request, caps=rounded), search)
    late = [
        n
        for n, best in enumerate(found)
        if rounded[n] != caps[n] and any(_reaches(h, caps[n]) for h in best)
    ]
    if late:
        own = replace(_part(request, late), caps=[caps[n] for n in late])
        for n, best in zip(late, find([sources[n] for n in late], own, search), strict=True):
            found[n] = best
    return found


def _reaches(found: Hypothesis, cap: int) -> bool:
    """Whether a search with this cap might have ended otherwise."""
    return not found.finished or len(found.tokens) >= cap


def _part(request: Request, some: list[int]) -> Request:
    """What is asked for some of the sentences."""
    numbers = None if request.numbers is None else tuple(request.numbers[n] for n in some)
    prefixes = None if request.prefixes is None else tuple(request.prefixes[n] for n in some)
    return replace(request, numbers=numbers, prefixes=prefixes, caps=[1] * len(some))
