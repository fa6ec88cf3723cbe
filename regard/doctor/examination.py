"""All that the doctor looks at, for a recipe: in full, or what each training can afford."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from regard.console.shell import quoted
from regard.data import files, series as readings
from regard.data.labels import Labels
from regard.doctor import cost, coverage, examples, labels, pairs, series, text
from regard.checks.findings import FIRM, KINDS, Finding, Severity, finding, merged, of, ranked
from regard.doctor.reading import Part, read
from regard.errors import RecipeError, UserError
from regard.recipe.config import Recipe
from regard.recipe.parts import resume
from regard.runs import Run
from regard.train import checkpoint

FULL, SHORT = 1_000_000, 30_000
"""Examples of a part that are looked at."""
SERIOUS = 50
"""Fewer updates are a trial, whose schedule does not matter."""


class Refused(UserError):
    """The data has errors, and the recipe does not say that they may pass."""


def examine(recipe: Recipe, folder: Path, given: Run | None = None) -> list[Finding]:
    """Everything: the data, the tokenizer, and two steps of training, on a copy of it all.

    `folder` is where training would write, `given` the run whose model it would go on with.
    """
    parts, found = _data(recipe, FULL, given)
    with TemporaryDirectory(prefix="regard-doctor-", ignore_cleanup_errors=True) as place:
        try:
            run = Run.create(Path(place) / "run", recipe, given)
        except UserError as error:
            found += coverage.long(recipe, parts, {})
            found += _refused(error, given, found)
        else:
            by = coverage.tokenizers(run.task)
            if by:
                found += coverage.check(recipe, parts, by)
                found += coverage.long(recipe, parts, by)
            found += cost.check(run, folder)
    return ranked(_allowed(recipe, found))


def _refused(error: UserError, given: Run | None, found: list[Finding]) -> list[Finding]:
    """What training would refuse; not again what an error among those found says already."""
    if of("error", found):
        return []
    if given is not None and "model: " in str(error):
        return [finding("checkpoint.model", given.folder, str(error))]
    return [finding("recipe.refused", "recipe", str(error))]


def quick_check(recipe: Recipe, given: Run | None = None) -> list[Finding]:
    """The cheap part: what every training begins with."""
    parts, found = _data(recipe, SHORT, given)
    found += coverage.long(recipe, parts, {})
    return ranked(_allowed(recipe, found))


def passed(found: list[Finding]) -> list[Finding]:
    """The warnings, if nothing is an error.

    What cannot be read at all is left to training, which refuses it in its own words.
    """
    errors = [each for each in of("error", found) if each.code != "data.unreadable"]
    if errors:
        listed = "\n".join(f"  {each}" for each in errors)
        codes = [f'"{code}"' for code in dict.fromkeys(each.code for each in errors)]
        firm = any(each.code.startswith(FIRM) for each in errors)
        allow = quoted(f"train.allow=[{', '.join(codes)}]")
        let = "" if firm else f" To train all the same: {allow}."
        raise Refused(f"the data has errors.{let} `regard doctor` shows more.\n{listed}")
    return of("warning", found)


def room(run: Run) -> list[Finding]:
    """Whether the disk can hold a new run: a warning if hardly, an error if not."""
    found = list(_allowed(run.recipe, list(cost.disk(run, run.folder))))
    for each in of("error", found):
        raise Refused(f"{each}. The run is prepared: {resume(run.folder)}")
    return of("warning", found)


def resumable(run: Run) -> list[Finding]:
    """Whether a run can go on: its checkpoints, its vocabulary, and what the rest will cost."""
    found: list[Finding] = []
    newest, faults = checkpoint.newest(run.checkpoints)
    for fault in faults:
        severity: Severity = "warning" if newest else "error"
        found.append(finding("checkpoint.damaged", run.checkpoints, fault, severity=severity))
    try:
        if newest is not None:
            run.model("last")
        found += cost.check(run, run.folder)
    except UserError as error:
        found.append(finding("checkpoint.model", run.folder, str(error)))
    return ranked(_allowed(run.recipe, found))


def _allowed(recipe: Recipe, found: list[Finding]) -> Iterator[Finding]:
    """Errors that the recipe lets pass become warnings."""
    allow = recipe.train.allow
    for code in allow:
        if code not in KINDS:
            near = difflib.get_close_matches(code, KINDS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "; docs/doctor.md has them all"
            with recipe.place.located():
                raise RecipeError(f"train.allow: there is no finding {code!r}{hint}")
    for each in found:
        let = each.severity == "error" and each.code in allow
        yield replace(each, severity="warning", advice="train.allow lets it pass") if let else each


# Data


def _data(recipe: Recipe, limit: int, given: Run | None) -> tuple[list[Part], list[Finding]]:
    """The parts that can be read, and what is to be said about them and the schedule."""
    if recipe.kind == "forecast":
        return [], [*_schedule(recipe), *_series(recipe.task.data)]
    found = list(_schedule(recipe))
    parts: list[Part] = []
    for name in files.PARTS:
        part, defects = read(recipe, name, limit)
        found += defects
        parts += [part] if part else []
    if parts:
        found += _texts(recipe, parts, given)
    return parts, merged(found)


def _schedule(recipe: Recipe) -> Iterator[Finding]:
    warmup, updates = recipe.train.schedule.warmup, recipe.train.updates
    if updates >= SERIOUS and warmup > updates / 2:
        what = f"the learning rate rises for {warmup:,.0f} updates, and training has {updates:,}"
        yield finding("cost.warmup", "train.schedule.warmup", what)


def _series(config: readings.Config) -> Iterator[Finding]:
    try:
        yield from series.check(config)
    except UserError as error:
        yield finding("data.unreadable", "data.file", str(error))


def _texts(recipe: Recipe, parts: Sequence[Part], given: Run | None) -> Iterator[Finding]:
    lowercase = recipe.task.tokenizer.lowercase
    train = next((part for part in parts if part.name == "train"), None)
    shown = ", ".join(f"{part.name} {len(part):,}{'' if part.whole else '+'}" for part in parts)
    yield finding("data.counts", "data", f"examples: {shown}")
    for part in parts:
        yield from examples.header(part)
        yield from text.check(part)
    yield from text.markup(parts)
    yield from text.compare(parts, lowercase=lowercase)
    if all(len(part.sides) == 2 for part in parts):
        yield from pairs.check(parts)
    if getattr(recipe.task, "unit", "") != "stream":
        if train is not None:
            yield from examples.repeated(train)
        yield from examples.leaked(parts)
    # The beginning of a file that is sorted by label says nothing of the labels.
    if any(any(part.labels) for part in parts) and all(part.whole for part in parts):
        single = recipe.kind == "classify"
        known = Labels.load(given.folder).names if given else ()
        yield from labels.check(parts, unseen=recipe.task.labels.unseen, single=single, known=known)
