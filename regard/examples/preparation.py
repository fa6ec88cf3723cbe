"""From files to what training reads: each part is read once, fields learn, rows are stored.

    read     every example of a part, as its files have it      → raw.py
    check    what the doctor says of it, before anything is spent
    fit      what fields learn from the training part: a tokenizer, labels, …
    store    rows of arrays, too long ones left out or cut      → data/store.py

Each step leaves whole files or none, and finds those of an earlier try that was killed.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data import files, mixture, pieces
from regard.data.held_out import NOTHING, HeldOut
from regard.data.readers import Policy, Report
from regard.data.store import Column, Store, Writer
from regard.data.writer import joined
from regard.errors import RecipeError, UserError
from regard.examples.piecework import Piecework, Work, columns_of
from regard.examples.raw import Block, Raw, is_kept, keep
from regard.fields import Example, Field, Flat, Row

Fields = Mapping[str, Any]
"""Of the form of `Field`, by the side's name: inputs first, then what is predicted."""
Check = Callable[[Mapping[str, Raw]], None]
"""Called with what was read, before anything is learnt from it; it may refuse."""
STORE, WATCHED = "store", "watched"
SAMPLE = 100_000
"""Examples that are kept, as many of each source, while a run that streams is prepared."""
SHOWN = 20
"""Examples of the validation part that are kept where a task watches none."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the examples of a task come from files into its store."""

    fields: Fields
    data: files.Config
    read: Callable[[files.Part, Policy, Report], Iterable[Example]]
    """Every example of a part's own files."""
    policy: Policy = Policy(broken="skip", empty="skip")  # noqa: RUF009 - it is frozen
    """What becomes of what cannot be used: it is reported, and left out, refused or kept."""
    alone: Callable[[tuple[str, ...]], "Plan"] | None = None
    """The same plan for some of the training files."""
    held_out: HeldOut = NOTHING
    """Which of the training files' examples belong to parts without own files."""
    limited: bool = True
    """Whether data.max_length holds: not for running text."""
    joint: tuple[str, ...] = ()
    """Sides that learn together, as the texts of one vocabulary."""
    together: bool = False
    """Whether data.max_length holds for all sides together, and not for each of them."""
    answer: Callable[[Example], Example] = lambda example: example
    """What is learnt by outside of training, where there are several right answers."""
    also: Callable[[Row], Iterable[Row]] | None = None
    """Further rows for each row to learn from."""
    watched: int = 0
    """First examples of the validation part that are kept as they are; 0: a few of all."""
    validates: bool = True
    """Whether the rows of the validation part are stored: not where its texts are enough."""
    work: Work = Work()  # noqa: RUF009 - it is frozen
    """Who encodes the rows, beside this process."""

    def has(self, part: files.Part) -> bool:
        """Whether there is such a part."""
        return part == "train" or self.held_out.has(self.data, part)

    @property
    def parts(self) -> list[files.Part]:
        return [part for part in files.PARTS if self.has(part)]

    def examples(self, part: files.Part, report: Report) -> Iterator[Example]:
        """Those of a part: of its own files, or of its share of the training files."""
        own = part == "train" or self.data.names(part)
        found = iter(self.read(part if own else "train", self.policy, report))
        if (part != "train" and own) or not self.held_out:
            return found
        parts = self._parts(lambda: self.read("train", self.policy, Report()))
        return (example for example, its in zip(found, parts, strict=True) if its == part)

    def _parts(self, examples: Callable[[], Iterable[Example]]) -> Iterator[files.Part]:
        """Of which part each example of the training files is."""
        fields = [*self.fields.values()]
        first, last = fields[0], fields[-1]
        return self.held_out.parts(
            lambda: (first.content(each.values[0]) for each in examples()),
            lambda: (last.keep(each.values[-1]) for each in examples()),
        )

    def whole(self, part: files.Part, policy: Policy) -> list[Example]:
        """All examples of a part, which must be there."""
        if not self.has(part):
            other = "; regard evaluate and compare take --data FILE" if part == "test" else ""
            raise UserError(
                f"data.{part}: there is no such part: name its files, or set held_out.{part}{other}"
            )
        found = list(replace(self, policy=policy).examples(part, Report()))
        if not found:
            raise self._nothing(part)
        return found

    def _nothing(self, part: str) -> UserError:
        """Says that a part has no example, by the key that says what the part is."""
        if part != "train" and not self.data.names(part):
            return UserError(f"held_out.{part}: no example is drawn: take a larger fraction")
        return UserError(f"data.{part}: no example can be used")

    def prepare(
        self,
        folder: Path,
        given: Fields | None = None,
        check: Check | None = None,
    ) -> Report:
        """Put all that training needs into a folder; `given` are fields that have learnt from the
        data of another run."""
        given = given or {}
        for part in files.PARTS:
            self.data.paths(part)
        place = folder / STORE
        raw = self._read(place)
        for name, found in raw.items():
            if not len(found):
                raise self._nothing(name)
        if check is not None:
            check(raw)
        for found in (raw[part] for part in ("train", "validation") if part in raw):
            self._refuse(found.report)
        fitted = self._fitted(folder, raw["train"], given)
        report, held_out = raw["train"].report, Report()
        if self.data.streaming:
            report = self._stream(folder, fitted)
        else:
            report.used = self._store(place, "train", fitted, raw["train"], given, report)
        if "validation" in raw:
            own = bool(self.data.validation)  # a share is reported with the rest
            held_out = raw["validation"].report if own else Report()
            if self.validates:
                self._store(place, "validation", fitted, raw["validation"], given, held_out)
            self._watch(place, raw["validation"])
        self.finish(folder, fitted, raw, held_out)
        report.include(held_out)
        # Indexes go first: what has lost its report in a kill must not be taken for whole.
        read = [*place.glob("raw_*"), *place.glob(".raw_*")]
        for path in sorted(read, key=lambda path: path.suffix != ".json"):
            path.unlink()
        for part in ("train", "validation"):
            shutil.rmtree(place / f".{part}", ignore_errors=True)
        return report

    def helper(self, folder: Path, part: str) -> Piecework | None:
        """Who can encode rows of a part that another process prepares in a folder; None if there is
        nothing to be encoded."""
        place = folder / STORE
        if (found := pieces.begun(place, part)) is None:
            return None
        fields = {side: field.load(folder) for side, field in self.fields.items()}
        return Piecework(self, place, part, fields, self._kept(place)[part], **found["about"])

    def finish(self, folder: Path, fields: Fields, raw: Mapping[str, Raw], report: Report) -> None:
        """What a task keeps besides, while all that was read is still there."""

    def _read(self, place: Path) -> dict[str, Raw]:
        """All parts, each file once; no test part of its own files that cannot be used, which is
        nothing to training."""
        for part in self.parts:
            if part == "train" or self.data.names(part):
                report, few = Report(), part == "train" and self.data.streaming
                try:
                    examples = self._sample(report) if few else self.read(part, self.policy, report)
                    keep(place, part, self.fields, examples, report)
                except UserError:
                    if part != "test":
                        raise
        return self._kept(place)

    def _sample(self, report: Report) -> Iterator[Example]:
        """The first examples of each source: of n sources SAMPLE / n."""
        first = next(iter(self.read("train", self.policy, Report())), None)
        names, width = self.data.train, len(first.files) if first else 1
        count = len(names) // width
        if self.alone is None or count < 2:
            yield from islice(self.read("train", self.policy, report), SAMPLE)
            return
        for number in range(count):
            plan = self.alone(names[number * width : (number + 1) * width])
            yield from islice(plan.read("train", self.policy, report), max(1, SAMPLE // count))

    def _kept(self, place: Path) -> dict[str, Raw]:
        """All parts that were read."""
        own = [part for part in self.parts if part == "train" or self.data.names(part)]
        found = {
            part: Raw(place, part, self.fields)
            for part in own
            if part != "test" or is_kept(place, part)
        }
        if self.held_out:
            every = found["train"]
            belongs = self._belonging(place, every)
            for number, part in enumerate(files.PARTS):
                if part == "train" or (self.has(part) and not self.data.names(part)):
                    found[part] = every.only(belongs == number)
        # Nor one of which nothing is drawn.
        return {part: raw for part, raw in found.items() if part != "test" or len(raw)}

    def _belonging(self, place: Path, every: Raw) -> NDArray[np.uint8]:
        """(N,): the number of the part of each example of the training files; kept while a run is
        prepared."""
        with Writer(place, "raw_parts", {"part": Column("u1")}) as writer:
            if not writer.complete:
                found = [files.PARTS.index(part) for part in self._parts(lambda: every)]
                writer.add([{"part": np.array(found, np.uint8)}][writer.done :])
        return Store(place, "raw_parts")[0]["part"]

    def _refuse(self, report: Report) -> None:
        """Refuse what the recipe says is to be refused: the first of it."""
        found = [each[0] for each in report.findings.values()]
        for first in sorted(found, key=lambda each: (str(each.path), each.line)):
            key, rule = self.data.rule(first.what)
            if rule == "refuse":
                raise UserError(f'{first}. With {key} = "skip" such lines are left out')

    def _fitted(self, folder: Path, raw: Raw, given: Fields) -> Fields:
        """The fields with what they learn; what an earlier try has left is whole."""
        found = {}
        for side, field in self.fields.items():
            if side in given:
                found[side] = given[side]
            elif side in self.joint[1:]:
                found[side] = field.share(found[self.joint[0]])
            else:
                sides = self.joint if side in self.joint else (side,)
                found[side] = _learnt(field, folder) or field.fit(raw.values(sides))
        for field in found.values():
            field.save(folder)
        return found

    def _store(
        self, place: Path, part: str, fields: Fields, raw: Raw, given: Fields, report: Report
    ) -> int:
        """Write the rows of a part; how many examples they are of."""
        made = Piecework(self, place, part, fields, raw, given)
        count = made.all(self.work, report)
        if self.data.mixed and part == "train":
            self._keep_sources(place, made.sources)
        if not count:
            longest = self.data.max_length
            raise RecipeError(f"data.max_length: no example of data.{part} has ≤ {longest} tokens")
        store = Store(place, part)
        for side, field in fields.items():
            field.suffices(store, part, made.by[side])
        return count

    def _stream(self, folder: Path, fields: Fields) -> Report:
        """Read all of the training part, of which nothing but lengths is stored."""
        from regard.examples import streamed

        report = Report()
        report.used = streamed.keep(self, folder, fields, report)
        self._refuse(report)
        if not report.used:
            longest = self.data.max_length
            raise RecipeError(f"data.max_length: no example of data.train has ≤ {longest} tokens")
        return report

    def _keep_sources(self, place: Path, rows: Mapping[int, int]) -> None:
        """Of each source, how many rows it has: at least one, if it is to be drawn from."""
        named = self.data.paths("train")
        count = self.data.sources(len(named) // (max(rows, default=0) + 1))
        for number in range(count):
            if not rows.get(number):
                raise UserError(
                    f"data.{self.data.mixed}: no example of source {number + 1} can be used"
                )
        mixture.keep(place, [rows[number] for number in range(count)])

    def source_of(self, paths: tuple[Path, ...]) -> int:
        """The number of the source that an example's files are."""
        named = self.data.paths("train")
        if paths[0] not in named:
            raise RecipeError(f"data.{self.data.mixed}: {paths[0]} is no source that can be mixed")
        return named.index(paths[0]) // len(paths)

    def encoded(
        self, block: Block, part: str, fields: Fields, by: Mapping[str, str], report: Report
    ) -> tuple[dict[str, Flat], NDArray[np.bool_]]:
        """The rows of a block's examples, and of which of these they are."""
        flat = self._encoded(block, part, fields, by)
        return self._admitted(flat, block, part, fields, report)

    def _encoded(
        self, block: Block, part: str, fields: Fields, by: Mapping[str, str]
    ) -> dict[str, Flat]:
        """The arrays of a block's examples."""
        columns = block.columns
        if part != "train":
            answered = (self.answer(example).values for example in block.examples())
            columns = [list(column) for column in zip(*answered, strict=True)]
        flat: dict[str, Flat] = {}
        for (side, field), values in zip(fields.items(), columns, strict=True):
            field.accept(values, lambda n: block[n].place, part, by[side])
            flat |= field.encode_flat(values)
        return flat

    def _admitted(
        self, flat: dict[str, Flat], block: Block, part: str, fields: Fields, report: Report
    ) -> tuple[dict[str, Flat], NDArray[np.bool_]]:
        """Those that are not too long, or are cut, as the recipe says; of which examples they are,
        since more rows may come of one."""
        long = self._long(flat, fields, block, report) if self.limited else {}
        kept = np.array([long.get(n, True) for n in range(len(block))])
        also = self.also if part == "train" else None
        if not kept.all():
            flat = _chosen(flat, kept)
        if also is None and not any(long.values()):
            return flat, kept
        rows: list[Row] = []
        for row in _rows(flat):
            for field in fields.values():
                row |= field.cut(row, self.data.max_length)
            rows += [row, *also(row)] if also else [row]
        return joined(rows, columns_of(fields)), kept

    def _long(
        self, flat: dict[str, Flat], fields: Fields, block: Block, report: Report
    ) -> dict[int, bool]:
        """The numbers of examples that are too long; True for one that is admitted, to be cut."""
        found, most = {}, self.data.max_length
        sides = [(n, each.sizes(flat)) for n, each in enumerate(fields.values())]
        sizes = {n: size for n, size in sides if size is not None}
        if not sizes:
            return {}
        for n in np.flatnonzero(np.max([*sizes.values()], 0) > most).tolist():
            side = max(sizes, key=lambda each: sizes[each][n])
            shown = [*fields.values()][side].show(block.columns[side][n])
            where = block[n].where(side)
            found[n] = self.data.admits(int(sizes[side][n]), *where, shown, report)
        return found

    def _watch(self, place: Path, raw: Raw) -> None:
        """Keep examples of the validation part as they stand."""
        # From all over it: files may be sorted by their labels.
        chosen = {n * len(raw) // SHOWN for n in range(SHOWN)}
        with Writer(place, WATCHED, {side: Column("u1") for side in self.fields}) as writer:
            if not writer.complete:
                some = (each for n, each in enumerate(raw) if n in chosen)
                found = islice(raw, self.watched) if self.watched else some
                writer.add(islice(map(self._lines, found), writer.done, None))

    def _lines(self, example: Example) -> dict[str, Any]:
        pairs = zip(self.fields.items(), example.values, strict=True)
        return {s: np.frombuffer(f.keep(value).encode(), np.uint8) for (s, f), value in pairs}


def watched(folder: Path, fields: Fields) -> list[tuple[Any, ...]] | None:
    """The values of the validation part that a run keeps as they are, if it does."""
    place = folder / STORE
    if (place / f"{WATCHED}.json").is_file():
        store = Store(place, WATCHED)
        texts = [store.texts(side) for side in fields]
    else:  # as earlier versions kept them, if they did
        names = [f"validation.{side}" for side in fields] if len(fields) > 1 else ["validation"]
        if not any(any(place.glob(f"{name}.text.*")) for name in names):
            return None
        texts = [Store(place, name).texts("text") for name in names]
    if len(set(map(len, texts))) > 1:
        raise UserError(f"{place}: not as many texts on each side. Start a new run from the recipe")
    columns = (map(field.kept, lines) for field, lines in zip(fields.values(), texts, strict=True))
    return list(zip(*columns, strict=True))


def _learnt(field: Field, folder: Path) -> Field | None:
    """What an earlier try has left of a field, if it is whole."""
    try:
        return field.load(folder)
    except UserError:
        return None


def _chosen(flat: Mapping[str, Flat], rows: NDArray[np.bool_]) -> dict[str, Flat]:
    """Those of some rows."""
    return {
        name: (values[np.repeat(rows, lengths)], lengths[rows])
        for name, (values, lengths) in flat.items()
    }


def _rows(flat: Mapping[str, Flat]) -> Iterator[dict[str, Any]]:
    """One after the other."""
    ends = {name: np.cumsum(lengths)[:-1] for name, (_, lengths) in flat.items()}
    split = (np.split(values, ends[name]) for name, (values, _) in flat.items())
    return (dict(zip(flat, row, strict=True)) for row in zip(*split, strict=True))
