"""Pairs of texts: read from files, cut into tokens, stored to be learnt from."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.data import files
from regard.data.readers import Broken, Finding, Policy, Report, lines, parallel
from regard.data.store import TokenStore
from regard.data.tokenizers import UNKNOWN, Tokenizer
from regard.errors import RecipeError, UserError

SIDES = ("source", "target")
BLOCK = 2048
GIVEN = Path("choices")
"""What stands for a file's name where texts are given without one."""
Row = tuple[list[int], ...]
Pair = tuple[int, tuple[str, ...]]
"""The number of a line, and its two sides."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Which way the pairs are learnt."""

    both_directions: bool = False
    """Also from target to source. Which way is meant, the model sees by the source's language: a
    beginning for one that has little text to learn from (`regard train … --from`), or an end."""


@dataclass(frozen=True)
class Pairs:
    """The pairs that a recipe names."""

    data: files.Config
    ways: Config
    answers: Callable[[str], list[str]]
    """The right answers that a target holds, outside of training."""

    def rows(self, part: files.Part, policy: Policy, report: Report) -> Iterator[Pair]:
        """The pairs of a part."""
        data = self.data
        return parallel(data.paths(part), data.columns or SIDES, policy, report, header=data.header)

    def store(
        self,
        part: files.Part,
        folder: Path,
        by: Sequence[Tokenizer],
        read: Iterable[Pair],
        report: Report,
    ) -> None:
        """Write the tokens of a part's pairs, which have been read: a tokenizer for each side. Of
        several right answers outside of training, the first is stored."""
        if part != "train":
            read = ((line, (source, self.answers(y)[0])) for line, (source, y) in read)
        rows = self._encoded(self.data.paths(part), by, iter(read), report)
        if part == "train":
            rows = self._both_ways(rows)
        TokenStore.write(folder, [f"{part}.{side}" for side in SIDES], max(map(len, by)), rows)
        if not len(TokenStore(folder, f"{part}.source")):
            longest = self.data.max_length
            raise RecipeError(f"data.max_length: no pair of data.{part} has ≤ {longest} tokens")

    def _both_ways(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            yield row
            if self.ways.both_directions:
                yield row[::-1]

    def _encoded(
        self, paths: list[Path], by: Sequence[Tokenizer], stream: Iterator[Pair], report: Report
    ) -> Iterator[Row]:
        """Tokens of each pair; what is too long is dealt with as the recipe says."""
        data = self.data
        while block := list(islice(stream, BLOCK)):
            sides = zip(*(fields for _, fields in block), strict=True)
            encoded = [each.encode(list(side)) for each, side in zip(by, sides, strict=True)]
            for (line, fields), row in zip(block, zip(*encoded, strict=True), strict=True):
                longer = max(range(len(row)), key=lambda side: len(row[side]))
                path = paths[min(longer, len(paths) - 1)]
                if data.admits(len(row[longer]), path, line, fields[longer], report):
                    yield tuple(symbols[: data.max_length] for symbols in row)
                else:
                    report.used -= 1


def listed(
    source: Path | Sequence[str], by: Tokenizer, longest: int, report: Report
) -> dict[str, list[int]]:
    """Texts, or those of a file, one to a line, and the tokens of each. What a model
    cannot write is reported and left out."""
    broken: Broken = {}
    path, given = (source, lines(source, broken)) if isinstance(source, Path) else (GIVEN, source)
    texts = [line.strip() for line in given]
    found: dict[str, list[int]] = {}
    for number, (text, symbols) in enumerate(zip(texts, by.encode(texts), strict=True), 1):
        if number in broken:
            raise UserError(str(broken[number]))
        if UNKNOWN in symbols:
            report.add(Finding(path, number, "tokens that no training text has", text[:60]))
        elif len(symbols) > longest:
            what = f"more than {longest} tokens (data.max_length)"
            report.add(Finding(path, number, what, text[:60]))
        elif text:
            found[text] = symbols
    if not found:
        raise UserError(f"{path}: there is no text that could be written")
    return found
