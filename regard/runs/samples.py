"""What a model makes of a few examples of the validation part, at each validation: the same ones
throughout a run, so that one can watch it learn.

They are what the run keeps of that part, never the user's files, and outputs are searched for
greedily: a sample is a function of weights, seed and recipe, however often a run was interrupted.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.decoding.prediction import Choose, Sample
from regard.examples.preparation import watched
from regard.model import Model
from regard.recipe.config import Recipe
from regard.recipe.parts import Part, module
from regard.tasks import Searches, Task

LONGEST = 80
"""Characters of a text that are shown."""

Sampler = Callable[[Any], dict[str, str]]
"""(model) → {"input_1": …, "wanted_1": …, "got_1": …, "input_2": …}"""


@runtime_checkable
class Samples(Protocol):
    """A task whose samples are more than inputs and outputs of its fields."""

    def samples(self, model: Model, choose: Choose) -> list[Sample]:
        """What is shown of some of the examples, or places, of the validation part."""
        ...


def sampler(recipe: Recipe, task: Task, folder: Path) -> Sampler:
    """What samples a model; it gives nothing where the recipe wants none, or where the run keeps
    nothing to be shown."""
    count = recipe.train.samples

    def choose(size: int) -> list[int]:
        return sorted(random.Random(recipe.seed).sample(range(size), min(count, size)))

    if not count:
        return lambda model: {}
    if isinstance(task, Samples):
        return lambda model: _record(task.samples(model, choose))
    pairs = _pairs(task, folder)
    chosen = [pairs[n] for n in choose(len(pairs))]
    if not chosen:
        return lambda model: {}
    inputs, wanted = ([pair[side] for pair in chosen] for side in (0, 1))
    search = Part("none", None)
    if isinstance(recipe.task, Searches):
        search = Part("greedy", module("search", "greedy").Config())

    def sample(model: Any) -> dict[str, str]:
        got = [each.text for each in task.predict(model, inputs, search)]
        return _record([*map(Sample, inputs, wanted, got)])

    return sample


def _pairs(task: Task, folder: Path) -> list[tuple[str, str]]:
    """The inputs and outputs of the validation part that a run keeps as they are."""
    fields = [*task.fields.values()]
    found = watched(folder, task.fields) if len(fields) == 2 else None
    return [(fields[0].show(one), fields[1].show(other)) for one, other in found or ()]


def _record(samples: list[Sample]) -> dict[str, str]:
    rows = enumerate(samples, 1)
    return {f"{name}_{n}": short(x) for n, row in rows for name, x in row._asdict().items()}


def short(text: str) -> str:
    """The beginning of a text on one line, without what would change a terminal."""
    line = " ".join(text.split())
    line = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    return "".join(each if each.isprintable() else "�" for each in line)
