"""Fractions of the training files that are kept from learning, for parts without own files."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from regard.data import files
from regard.errors import RecipeError
from regard.recipe.values import Seed, Share

Texts = Callable[[], Iterable[str]]
"""What examples hold, one after the other; they can be asked for again."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What every way to choose them has."""

    validation: Share = 0.0
    """The fraction to choose by."""
    test: Share = 0.0
    """The fraction that `regard evaluate` scores."""

    def __post_init__(self) -> None:
        if self.validation + self.test >= 1:
            raise RecipeError(
                "validation: with test it must be below 1, or nothing is left to learn from"
            )

    def check(self, data: files.Config) -> None:
        """A part has files or a share, not both."""
        if self and data.streaming:
            raise RecipeError("held_out: data.streaming stores nothing: name files for other parts")
        for part in files.PARTS:
            if data.names(part) and self.share(part):
                raise RecipeError(
                    f"held_out.{part}: data.{part} names files; give one or the other"
                )

    def __bool__(self) -> bool:
        return self.validation + self.test > 0

    def parts(self, examples: Texts, labels: Texts | None = None) -> Iterator[files.Part]:
        """The part of each example of the training files, which are given by what they hold, first
        what is read and then what is predicted."""
        return ("train" for _ in examples())

    def has(self, data: files.Config, part: files.Part) -> bool:
        """Whether there is such a part."""
        return bool(data.names(part)) or self.share(part) > 0

    def share(self, part: files.Part) -> float:
        """The fraction of the training files that is held out for a part; 0 for train."""
        return {"train": 0.0, "validation": self.validation, "test": self.test}[part]


@dataclass(frozen=True, kw_only=True)
class ByContent(HeldOut):
    """Shares of the training files for parts that have no files of their own.

    Which part an example belongs to is a function of the seed and its text alone, so that equal
    texts are never in two parts, and another order or another training seed changes nothing.
    """

    seed: Seed = 1
    """Another seed, other examples."""

    def parts(self, examples: Texts, labels: Texts | None = None) -> Iterator[files.Part]:
        return (self._part(self._number(content) / 2**64) for content in examples())

    def _number(self, content: str) -> int:
        """Below 2⁶⁴."""
        digest = blake2b(f"{self.seed}\n{content}".encode(), digest_size=8).digest()
        return int.from_bytes(digest)

    def _part(self, place: float) -> files.Part:
        if place < self.test:
            return "test"
        return "validation" if place < self.test + self.validation else "train"


@dataclass(frozen=True, kw_only=True)
class ByLabel(ByContent):
    """The same, if it is wanted for each label by itself."""

    stratified: bool = False
    """Take the same fraction of each label, and one of its texts at least where it has three; what
    has one or two is learnt from."""

    def parts(self, examples: Texts, labels: Texts | None = None) -> Iterator[files.Part]:
        if not self.stratified or labels is None:
            return super().parts(examples, labels)
        of: dict[int, str] = {}  # of equal texts with several labels, the first by the alphabet
        for content, label in zip(examples(), labels(), strict=True):
            number = self._number(content)
            of[number] = min(label, of.get(number, label))
        groups: dict[str, list[int]] = {}
        for number in sorted(of):
            groups.setdefault(of[number], []).append(number)
        drawn = {n: part for each in groups.values() for n, part in self._drawn(each)}
        return (drawn[self._number(content)] for content in examples())

    def _drawn(self, numbers: list[int]) -> Iterator[tuple[int, files.Part]]:
        """The parts of a label's texts, which are in the order of their numbers."""
        most = len(numbers) // 3
        test, validation = (
            min(most, max(1, round(share * len(numbers)))) if share else 0
            for share in (self.test, self.validation)
        )
        for place, number in enumerate(numbers):
            later: files.Part = "validation" if place < test + validation else "train"
            yield number, "test" if place < test else later


@dataclass(frozen=True, kw_only=True)
class ByPlace(HeldOut):
    """Shares of the training files' end, in characters, for parts that have no files of their own.

    The last share is the test part, the one before it the validation part; a line belongs where
    its first character does.
    """

    def parts(self, examples: Texts, labels: Texts | None = None) -> Iterator[files.Part]:
        total, place = sum(len(line) + 1 for line in examples()), 0
        first, second = (1 - self.validation - self.test) * total, (1 - self.test) * total
        for line in examples():
            yield "train" if place < first else "validation" if place < second else "test"
            place += len(line) + 1


NOTHING = HeldOut()
"""For tasks whose parts always have files of their own."""
