"""What a model makes of three inputs of the validation part, at each validation: the same ones
throughout a run, so that one can watch it learn."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from regard.errors import UserError
from regard.recipe.parts import Part, module

COUNT = 3
LONGEST = 80
"""Characters of a text that are shown."""
WRITTEN = 20
"""Tokens of a continuation."""

Sampler = Callable[[Any], dict[str, str]]
"""(model) → texts."""


def sampler(task: Any, seed: int) -> Sampler | None:
    """What gives {"input_1": …, "wanted_1": …, "got_1": …, "input_2": …}; None where there is no
    validation part, or it is no longer where it was: nothing needs samples."""
    found: Any = None
    with suppress(UserError, OSError):
        found = task.references("validation")
    if not found or not found[0]:
        return None
    chosen = random.Random(seed).sample(range(len(found[0])), min(COUNT, len(found[0])))
    options: dict[str, Any] = {}
    if len(found) > 1:
        inputs, wanted = ([side[n] for n in chosen] for side in found)
    else:  # a text is both: its beginning is given, and how it goes on is wanted
        inputs, wanted = _cut([found[0][n] for n in chosen])
        options["length"] = WRITTEN
    greedy = Part("greedy", module("search", "greedy").Config())

    def sample(model: Any) -> dict[str, str]:
        try:
            got = [each.text for each in task.predict(model, inputs, greedy, **options)]
        except UserError:  # a series whose times are not kept with it: training goes on
            return {}
        rows = zip(inputs, wanted, got, strict=True)
        return {
            f"{name}_{n}": _short(text, last=name == "input" and task.reads_files)
            for n, row in enumerate(rows, 1)
            for name, text in zip(("input", "wanted", "got"), row, strict=True)
        }

    return sample


def _cut(texts: list[str]) -> tuple[list[str], list[str]]:
    """The first half of each text, or of its beginning, and what follows."""
    places = [min(len(text) // 2, LONGEST) for text in texts]
    pairs = [(text[:n], text[n : n + LONGEST]) for text, n in zip(texts, places, strict=True)]
    return [one for one, _ in pairs], [other for _, other in pairs]


def _short(text: str, *, last: bool = False) -> str:
    """A text on one line; of a table its header and first rows, or its last row."""
    lines = text.strip().splitlines()
    line = " ".join((lines[-1] if last and lines else " / ".join(lines)).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
