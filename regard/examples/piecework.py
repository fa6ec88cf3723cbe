"""The rows of a part, encoded and stored in pieces: here, by other processes, on other machines.

A piece is made from a stretch of what was read, whoever makes it. What others leave undone, because
they were killed or met a defect, is made here, in the order of the data: so the first defect is the
one that is reported, and a lost process loses no line.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
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
            [plan.data.max_length, plan.data.on_too_long, plan.limited, bool(plan.data.mixed)],
        )  # fmt: skip
        count = -(-raw.rows // self._blocks)
        self.sources: Counter[int] = Counter()
        """How many rows each source has, once all are joined, where sources are mixed."""
        self.pieces = Pieces(
            place, part, columns, count, key, {"given": others, "blocks": self._blocks}
        )

    def make(self, numbers: Iterable[int]) -> None:
        """Encode and store pieces."""
        for number in numbers:
            noted = _Noted()
            self.pieces.make(number, partial(self._rows, number, noted), noted.as_table)

    def _rows(self, number: int, noted: "_Noted") -> Iterator[dict[str, Flat]]:
        first = number * self._blocks
        for block in self._raw.blocks(self._together, range(first, first + self._blocks)):
            flat, kept = self._plan.encoded(block, self._part, self._fields, self.by, noted.report)
            rows, used = len(next(iter(flat.values()))[1]), int(kept.sum())
            noted.used += used
            if self._plan.data.mixed and self._part == "train":
                for paths, count in Counter(compress(block.files, kept.tolist())).items():
                    noted.sources[self._plan.source_of(paths)] += count * rows // used
            if rows:
                yield flat

    def help(self, numbers: Iterable[int] | None = None) -> None:
        """Make pieces that nobody else makes, as long as there are any, or those of these that are
        not made. A defect is left to the process that was asked for all of them."""
        if not self.pieces.is_begun():
            return
        if numbers is None:
            self.make(self.pieces.unclaimed())
        else:
            self.make(number for number in numbers if not self.pieces.is_made(number))

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
            for number, count in note["sources"]:
                self.sources[number] += count
        return sum(note["used"] for note in notes)


@dataclass
class _Noted:
    """What is noted of a piece while it is made."""

    used: int = 0
    report: Report = field(default_factory=Report)
    sources: Counter[int] = field(default_factory=Counter)

    def as_table(self) -> dict[str, Any]:
        sources = [[number, count] for number, count in sorted(self.sources.items())]
        return {"used": self.used, "report": written_report(self.report), "sources": sources}


def columns_of(fields: Mapping[str, Any]) -> dict[str, Column]:
    """Those of all fields."""
    return {name: c for field in fields.values() for name, c in field.columns.items()}
