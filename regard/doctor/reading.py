"""The data of a recipe as it is: defects are noted, none is refused."""

from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from itertools import islice

from regard.checks import examples
from regard.checks.findings import Finding, Severity, counted, finding
from regard.checks.sides import Part, Side
from regard.data import files
from regard.data.files import Part as Name
from regard.data.readers import Report, lines
from regard.errors import UserError
from regard.examples.preparation import Plan
from regard.examples.raw import Raw
from regard.fields import Example

USUAL = 200
"""Characters of an example."""
NONE: frozenset[str] = frozenset()
UNEQUAL = "unequal numbers of lines"


def read(
    plan: Plan, raw: Mapping[str, Raw], name: Name, limit: int, wanted: AbstractSet[str] = NONE
) -> tuple[Part | None, list[Finding]]:
    """A part, and its defects; None for one that cannot be read. What was read of it to prepare a
    run (`raw`) need not be read again. Beyond `limit`, examples are only counted, and compared with
    the keys that are `wanted`."""
    report = raw[name].report if name in raw else Report()
    try:
        stream = iter(raw[name]) if name in raw else plan.examples(name, report)
        found = list(_first(plan, stream, limit))
        beyond, more = _rest(plan, stream, wanted)
    except UserError as error:
        return _failed(plan, name, error, limit)
    if not found:
        return None, []
    part = replace(
        _part(plan, name, found, not more), total=len(found) + more, beyond=frozenset(beyond)
    )
    findings = []
    if name == "train" or plan.data.names(name):  # a share is reported with the rest
        findings = _defects(plan.data, name, report, part.total)
    if more:
        what = f"only the first {len(found):,} of its {part.total:,} examples were looked at"
        findings.append(finding("data.sampled", part.key, what))
    return part, findings


def _rest(plan: Plan, stream: Iterator[Example], wanted: AbstractSet[str]) -> tuple[set[str], int]:
    """Of the examples that are left, those keys that are wanted; and how many there are."""
    beyond, count = set[str](), 0
    fields = [(n, field) for n, field in enumerate(plan.fields.values()) if field.distinctive]
    first, field = fields[0] if fields else (0, None)
    for example in stream:
        count += 1
        # Where a whole example is wanted, its first side is, too: few need a second look.
        if wanted and field and examples.key([field.show(example.values[first])]) in wanted:
            lines = [field.show(example.values[n]) for n, field in fields]
            beyond |= {examples.key(lines), examples.key(lines[:1])} & wanted
    return beyond, count


def _first(plan: Plan, stream: Iterator[Example], limit: int) -> Iterator[Example]:
    """So many examples, or as many characters as that many usual ones have."""
    characters, fields = 0, list(plan.fields.values())
    for example in islice(stream, limit):
        yield example
        pairs = zip(fields, example.values, strict=True)
        characters += sum(len(f.keep(value)) for f, value in pairs if f.distinctive)
        if characters > USUAL * limit:
            return


def _part(plan: Plan, name: Name, found: Sequence[Example], whole: bool) -> Part:
    if name != "train":
        found = [plan.answer(each) for each in found]
    columns = zip(*(each.values for each in found), strict=True)
    only = sum(field.distinctive for field in plan.fields.values()) == 1
    sides = [
        Side(side, list(column), [each.where(n) for each in found], f.show, only)
        for n, ((side, f), column) in enumerate(zip(plan.fields.items(), columns, strict=True))
    ]
    return Part(name, tuple(sides), whole)


# What the readers found


def _defects(data: files.Config, name: Name, report: Report, used: int) -> list[Finding]:
    """A finding for each kind of defect, as bad as what the recipe says to do with it.

    Its count is one of all lines of the part's files, those of shares of it (held_out) included.
    """
    found = []
    total = max(used, report.used) + sum(report.counts.values())
    for what, count in report.counts.items():
        first = report.findings[what][0]
        rule = data.rule(what)[1]
        severity: Severity = "error" if rule == "refuse" else "warning"
        text = f"{what}: {counted(count, total)} of data.{name}"
        left = "" if rule == "refuse" else ", left out"
        place = f"{first.path}:{first.line}"
        found.append(finding(_code(what), place, text + left, first.excerpt, severity))
    return found


def _code(what: str) -> str:
    """The kind of finding that a defect is."""
    if what.startswith("empty "):
        return "data.empty"
    if what == "not UTF-8":
        return "text.encoding"
    control = what.startswith(("control", "half a surrogate"))
    return "text.control" if control else "data.broken"


def _failed(
    plan: Plan, name: Name, error: UserError, limit: int
) -> tuple[Part | None, list[Finding]]:
    """What cannot be read; of files with unequal numbers of lines, the lines that both have."""
    key = f"data.{name}"
    if UNEQUAL not in str(error) or len(plan.data.names(name)) != len(plan.fields):
        return None, [finding("data.unreadable", key, str(error))]
    paths = plan.data.paths(name)
    try:
        columns = [list(islice(lines(path, {}), limit)) for path in paths]
    except UserError as worse:  # one of them is no text, so its lines mean nothing
        return None, [finding("data.unreadable", key, str(worse))]
    found = [Example(tuple(paths), n, row) for n, row in enumerate(zip(*columns, strict=False), 1)]
    part = _part(plan, name, found, True) if found else None
    return part, [finding("pairs.lines", key, str(error))]
