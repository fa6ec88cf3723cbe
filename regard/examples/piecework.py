"""The rows of a part, encoded and stored in pieces: here, by other processes, on other machines.

A piece is made from a stretch of what was read, whoever makes it. What others leave undone, because
they were killed or met a defect, is made here, in the order of the data: so the first defect is the
one that is reported, and a lost process loses no line.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data.labels import BASE, TRAINING
from regard.data.pieces import Pieces, key_of
from regard.data.readers import Report
from regard.data.store import Column
from regard.errors import UserError
from regard.examples.raw import BLOCK, Raw, read_report, written_report
from regard.fields import Flat

if TYPE_CHECKING:
    from regard.examples.preparation import Plan

BLOCKS = 64
"""Of raw examples, in a piece of texts; of larger examples fewer."""
POLL = 0.5
"""Seconds between two looks at what other machines have made."""
Spread = Callable[[str, Sequence[int]], tuple[Sequence[int], Callable[[], None]]]
"""A part and its missing pieces ↦ those that are left to this process, and what waits for the
others."""


def _alone(part: str, numbers: Sequence[int]) -> tuple[Sequence[int], Callable[[], None]]:
    return numbers, lambda: None


@dataclass(frozen=True, kw_only=True)
class Work:
    """Who makes the pieces of a part."""

    share: int = 0
    shares: int = 1
    """Of all machines that build the same store, this is number `share`, from 0. The first one
    reads the data, learns what fields learn, and joins the pieces."""
    spread: Spread = _alone
    tell: Callable[[str], None] = lambda text: None

    def mine(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers if number % self.shares == self.share]


class Piecework:
    """What the rows of a part are made of."""

    def __init__(
        self, plan: "Plan", place: Path, part: str, fields: Mapping[str, Any], raw: Raw,
        given: Iterable[str],
    ) -> None:  # fmt: skip
        """`given` are the sides whose fields have learnt from another run's data."""
        self._plan, self._part, self._fields, self._raw = plan, part, fields, raw
        self.by = {side: BASE if side in given else TRAINING for side in fields}
        self._together = min(field.together for field in fields.values())
        self._blocks = max(1, BLOCKS * self._together // BLOCK) if self._together < BLOCK else BLOCKS
        columns = columns_of(fields)
        key = key_of(
            raw.signature, {name: each for name, each in columns.items()}, self.by,
            [field.vocabulary for field in fields.values()],
            [plan.data.max_length, plan.data.on_too_long, plan.limited],
        )  # fmt: skip
        count = -(-raw.rows // self._blocks)
        self.pieces = Pieces(place, part, columns, count, key)

    def make(self, numbers: Iterable[int]) -> None:
        """Encode and store pieces."""
        for number in numbers:
            report, counts = Report(), [0]
            self.pieces.make(
                number,
                lambda number=number, report=report, counts=counts: self._rows(
                    number, report, counts
                ),
                lambda report=report, counts=counts: {
                    "used": sum(counts), "report": written_report(report)
                },
            )  # fmt: skip

    def _rows(self, number: int, report: Report, counts: list[int]) -> Iterator[dict[str, Flat]]:
        first = number * self._blocks
        for block in self._raw.blocks(self._together, range(first, first + self._blocks)):
            flat, used = self._plan.encoded(block, self._part, self._fields, self.by, report)
            counts.append(used)
            if len(next(iter(flat.values()))[1]):
                yield flat

    def all(self, work: Work, report: Report) -> int:
        """Every piece, joined to a store; how many examples the rows are of."""
        pieces = self.pieces
        if not pieces.begin():
            work.tell(
                f"{pieces.folder}: the data or what encodes it has changed since pieces of it were "
                "made: they are made again"
            )
        pieces.drop_damaged()
        mine, wait = work.spread(self._part, work.mine(pieces.missing()))
        try:
            self.make(mine)
        except UserError:
            if work.shares > 1:
                raise
        wait()
        self.make(pieces.missing(work.mine(range(pieces.count))))
        if left := pieces.missing():
            shares = sorted({number % work.shares + 1 for number in left})
            who = ", ".join(f"{share}/{work.shares}" for share in shares)
            work.tell(f"waiting for {len(left):,} pieces of the data of --part {who}")
        while pieces.missing():
            time.sleep(POLL)
        pieces.join()
        notes = pieces.notes()
        for note in notes:
            report.include(read_report(note["report"]))
        return sum(note["used"] for note in notes)


def columns_of(fields: Mapping[str, Any]) -> dict[str, Column]:
    """Those of all fields."""
    return {name: c for field in fields.values() for name, c in field.columns.items()}
