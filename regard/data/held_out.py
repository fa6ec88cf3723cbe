"""Fractions of the training files that are kept from learning, for parts without own files."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from regard.data import files
from regard.errors import RecipeError
from regard.recipe.values import Share


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What every way to choose them has."""

    validation: Share = 0.0
    """The fraction to choose by."""
    test: Share = 0.0
    """The fraction that `regard evaluate` scores."""

    def __post_init__(self) -> None:
        if self.validation + self.test >= 1:
            raise RecipeError("validation: with test it leaves nothing to learn from")

    def check(self, data: files.Config) -> None:
        """A part has files or a share, not both."""
        for part in ("validation", "test"):
            if getattr(data, part) and getattr(self, part):
                raise RecipeError(
                    f"held_out.{part}: data.{part} names files; give one or the other"
                )

    def __bool__(self) -> bool:
        return self.validation + self.test > 0

    def parts(self, examples: Callable[[], Iterable[str]]) -> Iterator[files.Part]:
        """The part of each example of the training files, which are given by what they hold."""
        return ("train" for _ in examples())

    def has(self, data: files.Config, part: files.Part) -> bool:
        """Whether there is such a part."""
        return bool(getattr(data, part)) or bool(getattr(self, part, 0))


NOTHING = HeldOut()
"""For tasks whose parts always have files of their own."""
