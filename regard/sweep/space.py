"""What a sweep tries: a range or some choices for each of a few keys of a recipe.

train.optimizer.learning_rate=log:1e-4:1e-2   between both, evenly by their logarithm
model.dropout=0.1:0.4                         between both; whole numbers where the key has them
model.encoder.kind=rnn,transformer            one of these
train.updates=500                             all else is a plain change of the recipe
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.errors import RecipeError
from regard.recipe import config
from regard.recipe.config import Recipe

Values = dict[str, Any]
"""{key: value}: a number of a range, the text of a choice."""
Load = Callable[[Sequence[str]], Recipe]
"""The recipe with these changes, checked."""

NUMBER = r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"(log:)?({NUMBER}):({NUMBER})")
COMMA = re.compile(r",(?![^\[{]*[\]}])")
"""Between two choices, and not inside of a list."""
FIXED = ("task", "train.metric", "data.validation", "data.folder", "data.set")
"""Keys that trials must share: their scores could not be compared."""
DIGITS = 4
"""Of a value that is drawn: nobody wants to read more of them in a recipe."""
MOST = 10_000
"""Points of a space that are counted: of a larger one, no sweep tries all."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """Numbers from `low` to `high`."""

    key: str
    low: float
    high: float
    log: bool = False
    integer: bool = False

    @property
    def ends(self) -> list[str]:
        return [self.text(self.low), self.text(self.high)]

    @property
    def points(self) -> Sequence[Any] | None:
        """All values, where there are not too many to count."""
        few = self.integer and self.high - self.low < MOST
        return range(int(self.low), int(self.high) + 1) if few else None

    def __contains__(self, value: Any) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and self.low <= value <= self.high

    def rounded(self, value: float) -> float:
        if self.integer:
            return int(value)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    def text(self, value: Any) -> str:
        return repr(int(value) if self.integer else value)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Some values, each as it is written on the command line."""

    key: str
    texts: tuple[str, ...]

    @property
    def ends(self) -> list[str]:
        return [*self.texts]

    @property
    def points(self) -> Sequence[Any] | None:
        return self.texts

    def __contains__(self, value: Any) -> bool:
        return value in self.texts

    def rounded(self, value: Any) -> Any:
        return value

    def text(self, value: Any) -> str:
        return str(value)


Dimension = Range | Choice


@dataclass(frozen=True)
class Space:
    """The keys that are varied."""

    dimensions: tuple[Dimension, ...]

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.dimensions)

    @property
    def points(self) -> list[Values] | None:
        """All that can be tried, where it can be counted."""
        each = [dimension.points for dimension in self]
        if any(points is None for points in each):
            return None
        counted = [points for points in each if points is not None]
        if math.prod(map(len, counted)) > MOST:
            return None
        keys = [dimension.key for dimension in self]
        return [dict(zip(keys, p, strict=True)) for p in itertools.product(*counted)]

    def overrides(self, values: Mapping[str, Any]) -> list[str]:
        """The changes to a recipe that values are."""
        return [f"{each.key}={each.text(values[each.key])}" for each in self]

    def own(self, recipe: Recipe) -> Values | None:
        """The recipe's own values, where all of them lie in the space."""
        there = config.flat(config.resolved_table(recipe))
        found: Values = {}
        for each in self:
            value = there.get(each.key)
            if isinstance(each, Choice):
                value = next((t for t in each.texts if _same(t, value)), None)
            if value is None or value not in each:
                return None
            found[each.key] = value
        return found

    def as_list(self) -> list[dict[str, Any]]:
        return [asdict(each) for each in self]


def of_list(found: Sequence[Mapping[str, Any]]) -> Space:
    """The space that `as_list` wrote."""
    made: list[Dimension] = []
    for each in found:
        if "texts" in each:
            made.append(Choice(key=str(each["key"]), texts=tuple(map(str, each["texts"]))))
        else:
            made.append(Range(**each))
    return Space(tuple(made))


def split(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """The plain changes of a recipe, and those that are to be varied."""
    varied = [each for each in overrides if _is_varied(each.partition("=")[2].strip())]
    return [each for each in overrides if each not in varied], varied


def _is_varied(text: str) -> bool:
    if text.startswith("log:") or RANGE.fullmatch(text):
        return True
    return text[:1] not in ("[", "{", '"', "'", "") and bool(COMMA.search(text))


def space(varied: Sequence[str], load: Load) -> Space:
    """The space of such changes. Both ends of each range and each choice must be what the recipe
    takes, with each kind of part that is a choice, too."""
    if not varied:
        raise RecipeError(
            "sweep: nothing is varied; give a key a range or choices, such as "
            "train.optimizer.learning_rate=log:1e-4:1e-2"
        )
    found = [_read(each) for each in varied]
    keys = [each.key for each in found]
    for key in keys:
        if keys.count(key) > 1:
            raise RecipeError(f"command line: {key}: it is varied twice")
        if key in FIXED:
            raise RecipeError(f"command line: {key}: trials could not be compared: it is fixed")
    kinds = [each for each in found if isinstance(each, Choice) and each.key.endswith("kind")]
    made: list[Dimension] = []
    for each in found:
        others = [[f"{k.key}={text}" for text in k.texts] for k in kinds if k is not each]
        checked = [
            load([*others_now, f"{each.key}={end}"])
            for others_now in itertools.product(*others)
            for end in each.ends
        ]
        made.append(_with_type(each, checked[0]))
    return Space(tuple(made))


def _read(override: str) -> Dimension:
    key, _, text = (part.strip() for part in override.partition("="))
    if match := RANGE.fullmatch(text):
        low, high, log = _number(match[2]), _number(match[3]), bool(match[1])
        if not low < high:
            raise RecipeError(f"command line, {override}: {match[2]} is not below {match[3]}")
        if log and low <= 0:
            raise RecipeError(f"command line, {override}: 0 and below have no logarithm")
        whole = isinstance(low, int) and isinstance(high, int)
        return Range(key=key, low=low, high=high, log=log, integer=whole)
    if text.startswith("log:"):
        raise RecipeError(f"command line, {override}: wanted log:LOW:HIGH, two numbers")
    texts = tuple(part.strip() for part in COMMA.split(text))
    if "" in texts or len(set(texts)) < len(texts):
        raise RecipeError(f"command line, {override}: choices are empty or twice there")
    return Choice(key=key, texts=texts)


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _with_type(dimension: Dimension, recipe: Recipe) -> Dimension:
    """A range of whole numbers, where the recipe's key has them."""
    if isinstance(dimension, Choice):
        return dimension
    value = config.flat(config.resolved_table(recipe)).get(dimension.key)
    integer = isinstance(value, int)
    low, high = (int(n) if integer else float(n) for n in (dimension.low, dimension.high))
    return Range(key=dimension.key, low=low, high=high, log=dimension.log, integer=integer)


def _same(text: str, value: Any) -> bool:
    """Whether a choice, as it is written, is a recipe's value."""
    return bool(config.value(text) == value)
