"""The rows of a part, encoded and stored in pieces: here, by other processes, on other machines.

A piece is made from a stretch of what was read, whoever makes it. What others leave undone, because
they were killed or met a defect, is made here, in the order of the data: so the first defect is the
one that is reported, and a lost process loses no line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
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
MOST = 256
"""Pieces of a part: each is several files of the store."""
Wait = Callable[[], None]
Help = Callable[[str, int], AbstractContextManager[Wait]]
"""A part, and how many of its pieces are missing ↦ processes that make some of them, and what waits
until they have."""


def _alone(part: str, missing: int) -> AbstractContextManager[Wait]:
    return nullcontext(lambda: None)


@dataclass(frozen=True, kw_only=True)
class Work:
    """Who makes the pieces of a part, beside this process."""

    help: Help = _alone
    tell: Callable[[str], None] = lambda text: None


class Piecework:
    """What the rows of a part are made of."""

    def __init__(
        self, plan: "Plan", place: Path, part: str, fields: Mapping[str, Any], raw: Raw,
        given: Iterable[str], blocks: int = 0,
    ) -> None:  # fmt: skip
        """`given` are the sides whose fields have learnt from another run's data, `blocks` how many
        a piece has, where somebody has decided that already."""
        self._plan, self._part, self._fields, self._raw = plan, part, fields, raw
        others = sorted(given)
        self.by = {side: BASE if side in others else TRAINING for side in fields}
        self._together = min(field.together for field in fields.values())
        usual = max(1, BLOCKS * min(self._together, BLOCK) // BLOCK, raw.rows // MOST)
        self._blocks = blocks or usual
        columns = columns_of(fields)
        key = key_of(
            raw.signature, columns, self.by, self._blocks,
            [field.vocabulary for field in fields.values()],
            [plan.data.max_length, plan.data.on_too_long, plan.limited],
        )  # fmt: skip
        count = -(-raw.rows // self._blocks)
        self.pieces = Pieces(
            place, part, columns, count, key, {"given": others, "blocks": self._blocks}
        )

    def make(self, numbers: Iterable[int]) -> None:
        """Encode and store pieces."""
        for number in numbers:
            report, counts = Report(), list[int]()

            def rows(number: int = number, report: Report = report) -> Iterator[dict[str, Flat]]:
                return self._rows(number, report, counts)  # noqa: B023 - it is used up at once

            def note(report: Report = report) -> dict[str, Any]:
                return {"used": sum(counts), "report": written_report(report)}  # noqa: B023

            self.pieces.make(number, rows, note)

    def _rows(self, number: int, report: Report, counts: list[int]) -> Iterator[dict[str, Flat]]:
        first = number * self._blocks
        for block in self._raw.blocks(self._together, range(first, first + self._blocks)):
            flat, used = self._plan.encoded(block, self._part, self._fields, self.by, report)
            counts.append(used)
            if len(next(iter(flat.values()))[1]):
                yield flat

    def help(self) -> None:
        """Make pieces that nobody else makes, as long as there are any. A defect is left to the
        process that was asked for all of them."""
        if self.pieces.is_begun():
            self.make(self.pieces.unclaimed())

    def all(self, work: Work, report: Report) -> int:
        """Every piece, joined to a store; how many examples the rows are of."""
        pieces = self.pieces
        if not pieces.begin():
            work.tell(
                f"{pieces.folder}: the data or what encodes it has changed since pieces of it were "
                "made: they are made again"
            )
        with work.help(self._part, len(pieces.missing())) as wait:
            try:
                self.make(pieces.unclaimed())
                wait()
            except UserError:  # the first one of all is the one to report
                pass
        self.make(pieces.missing())
        pieces.join()
        notes = pieces.notes()
        for note in notes:
            report.include(read_report(note["report"]))
        return sum(note["used"] for note in notes)


def columns_of(fields: Mapping[str, Any]) -> dict[str, Column]:
    """Those of all fields."""
    return {name: c for field in fields.values() for name, c in field.columns.items()}
