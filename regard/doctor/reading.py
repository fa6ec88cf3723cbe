"""The data of a recipe as it is: defects are noted, none is refused."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data import files, labelled
from regard.data.files import Part as Name
from regard.data.readers import Finding as Defect, Policy, Report, lines, parallel
from regard.data.texts import Texts
from regard.checks.findings import Finding, Severity, counted, finding
from regard.errors import UserError
from regard.recipe.config import Recipe
from regard.recipe.parts import module

USUAL = 200
"""Characters of an example."""
SKIP = Policy(broken="skip", empty="skip")
UNEQUAL = "unequal numbers of lines"
Where = tuple[Path, int]


class Example(NamedTuple):
    """One example: where each of its texts stands, the texts, and its labels."""

    where: tuple[Where, ...]
    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Side:
    """The texts of one side of a part, in order."""

    name: str
    lines: list[str]
    where: list[Where]

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, n: int) -> str:
        path, number = self.where[n]
        return f"{path}:{number}"

    def sample(self, most: int) -> list[str]:
        """At most so many lines, evenly out of all."""
        return self.lines[:: -(-len(self.lines) // most) or 1]


@dataclass(frozen=True)
class Part:
    """A part of the data: its texts side by side, and where there are any its labels."""

    name: Name
    sides: tuple[Side, ...]
    labels: list[tuple[str, ...]]
    whole: bool
    """Whether all of it was read."""

    def __len__(self) -> int:
        return len(self.sides[0])

    @property
    def key(self) -> str:
        return f"data.{self.name}"


def read(recipe: Recipe, name: Name, limit: int) -> tuple[Part | None, list[Finding]]:
    """A part, and its defects; None for one that the recipe does not have, or cannot be read."""
    report = Report()
    try:
        stream = _examples(recipe, name, report)
        found = list(_first(stream, limit))
        whole = next(stream, None) is None
    except UserError as error:
        return _failed(recipe, name, error, limit)
    if not found:
        return None, []
    part = _part(recipe, name, found, whole)
    findings = _defects(recipe, name, report, len(found))
    if not whole:
        what = f"only its first {len(found):,} examples were looked at"
        findings.append(finding("data.sampled", part.key, what))
    return part, findings


def _first(stream: Iterator[Example], limit: int) -> Iterator[Example]:
    """So many examples, or as many characters as that many usual ones have."""
    characters = 0
    for example in islice(stream, limit):
        yield example
        characters += sum(map(len, example.texts))
        if characters > USUAL * limit:
            return


def _part(recipe: Recipe, name: Name, found: Sequence[Example], whole: bool) -> Part:
    names = module("tasks", recipe.kind).SIDES
    columns = zip(*(each.texts for each in found), strict=True)
    places = zip(*(each.where for each in found), strict=True)
    sides = [
        Side(side, list(column), list(where))
        for side, column, where in zip(names, columns, places, strict=False)
    ]
    return Part(name, tuple(sides), [each.labels for each in found], whole)


def _examples(recipe: Recipe, name: Name, report: Report) -> Iterator[Example]:
    """The examples of a part, as the recipe's task reads them; none if there is no such part."""
    config = recipe.task
    match recipe.kind:
        case "translate":
            return _pairs(config, name, report)
        case "language_model":
            data = replace(config.data, on_bad_line="skip", on_empty="skip")
            texts = Texts(data, config.held_out, config.unit == "stream")
            found = texts.lines(name, report) if texts.has(name) else iter(())
            return (Example(((line.path, line.number),), (line.text,)) for line in found)
        case "classify" if config.held_out.has(config.data, name):
            return _texts(config, name, report)
        case "tag" if config.held_out.has(config.data, name):
            return _sentences(config, name, report)
    return iter(())


def _pairs(config: Any, name: Name, report: Report) -> Iterator[Example]:
    data = config.data
    if not (paths := data.paths(name)):
        return
    first, last = paths[0], paths[-1]
    columns = data.columns or ("source", "target")
    for line, (source, target) in parallel(paths, columns, SKIP, report, header=data.header):
        said = target if name == "train" else config.evaluation.answers(target)[0]
        yield Example(((first, line), (last, line)), (source, said))


def _texts(config: Any, name: Name, report: Report) -> Iterator[Example]:
    data, held_out = config.data, config.held_out
    separator = config.labels.separator if config.labels.kind == "several" else ""
    paths = held_out.paths(data, name)
    for text in labelled.texts(
        paths, data.columns, SKIP, report, header=data.header, separator=separator
    ):
        if held_out.holds(data, name, text.text):
            yield Example(((text.path, text.line),), (text.text,), text.labels)


def _sentences(config: Any, name: Name, report: Report) -> Iterator[Example]:
    data, held_out = config.data, config.held_out
    real = config.labels.kind == "real"
    paths = held_out.paths(data, name)
    for each in labelled.sentences(paths, data.columns, SKIP, report, name, real=real):
        if held_out.holds(data, name, " ".join(each.words)):
            labels = () if real else each.tags
            yield Example(((each.path, each.line),), (" ".join(each.words),), labels)


# What the readers met


def _defects(recipe: Recipe, name: Name, report: Report, used: int) -> list[Finding]:
    """A finding for each kind of defect, as bad as what the recipe says to do with it."""
    data = recipe.task.data
    running = getattr(recipe.task, "unit", "") == "stream"
    found = []
    for what, count in report.counts.items():
        first: Defect = report.findings[what][0]
        code, rule = _code(what, data)
        if code == "data.empty" and running:
            continue  # an empty line of running text is one of its lines
        severity: Severity = "error" if rule == "refuse" else "warning"
        text = f"{what}: {counted(count, used + count)} of data.{name}"
        left = "" if rule == "refuse" else ", left out"
        place = f"{first.path}:{first.line}"
        found.append(finding(code, place, text + left, first.excerpt, severity))
    return found


def _code(what: str, data: files.Config) -> tuple[str, str]:
    """The kind of finding that a defect is, and the rule that the recipe has for it."""
    if what.startswith("empty "):
        return "data.empty", data.on_empty
    if what == "not UTF-8":
        return "text.encoding", data.on_bad_line
    control = what.startswith(("control", "half a surrogate"))
    return "text.control" if control else "data.broken", data.on_bad_line


def _failed(
    recipe: Recipe, name: Name, error: UserError, limit: int
) -> tuple[Part | None, list[Finding]]:
    """What cannot be read; of files with unequal numbers of lines, the lines that both have."""
    key = f"data.{name}"
    if UNEQUAL not in str(error):
        return None, [finding("data.unreadable", key, str(error))]
    paths = recipe.task.data.paths(name)
    try:
        columns = [list(islice(lines(path, {}), limit)) for path in paths]
    except UserError as worse:  # one of them is no text, so its lines mean nothing
        return None, [finding("data.unreadable", key, str(worse))]
    found = [
        Example(tuple((path, n) for path in paths), row)
        for n, row in enumerate(zip(*columns, strict=False), 1)
    ]
    part = _part(recipe, name, found, True) if found else None
    return part, [finding("pairs.lines", key, str(error))]
