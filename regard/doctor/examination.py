"""All that the doctor looks at, for a recipe: in full, or what each training can afford."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.checks import examples, pairs, text
from regard.checks.findings import FIRM, KINDS, SEVERITIES, Finding, Severity, finding
from regard.checks.sides import Part, training
from regard.console.shell import quoted
from regard.doctor import cost
from regard.doctor.reading import read
from regard.errors import RecipeError, UserError
from regard.examples.preparation import Fields
from regard.examples.raw import Raw
from regard.fields import text as texts
from regard.recipe.config import Recipe
from regard.recipe.parts import module, resume
from regard.runs import Run, transfer
from regard.tasks import Examines
from regard.train import checkpoint

FULL, SHORT = 1_000_000, 30_000
"""Examples of a part that are looked at."""
MERGED = ("text.", "data.empty", "data.long", "data.sampled")
"""Findings that are reported once, however many sides and parts have them."""
SERIOUS = 50
"""Fewer updates are a trial, whose schedule does not matter."""


class Refused(UserError):
    """The data has errors, and the recipe does not say that they may pass."""


def examine(recipe: Recipe, folder: Path) -> list[Finding]:
    """Everything: the data, the tokenizer, and two steps of training, on a copy of it all.

    `folder` is where training would write.
    """
    plan = plan_of(recipe)
    parts, found = _data(recipe, plan, FULL, {})
    with TemporaryDirectory(prefix="regard-doctor-", ignore_cleanup_errors=True) as place:
        try:
            run = Run.create(Path(place) / "run", recipe)
        except UserError as error:
            found += _long(plan, plan.fields, parts)
            found += _refused(error, recipe, found)
        else:
            for side, field in run.task.fields.items() if parts else ():
                found += field.covers([part.only(side) for part in parts])
            found += _long(plan, run.task.fields, parts)
            found += cost.check(run, folder)
    return ranked(_allowed(recipe, found))


def _refused(error: UserError, recipe: Recipe, found: list[Finding]) -> list[Finding]:
    """What training would refuse; not again what an error among those found says already."""
    if of("error", found):
        return []
    if recipe.model.weights and "model: " in str(error):
        return [finding("checkpoint.model", recipe.model.weights, str(error))]
    return [finding("recipe.refused", "recipe", str(error))]


def quick_check(
    recipe: Recipe, plan: Any = None, raw: Mapping[str, Raw] | None = None
) -> list[Finding]:
    """The cheap part: what every training begins with; `raw` is what a plan has read already."""
    plan = plan or plan_of(recipe)
    parts, found = _data(recipe, plan, SHORT, raw or {})
    found += _long(plan, plan.fields, parts)
    return ranked(_allowed(recipe, found))


def plan_of(recipe: Recipe) -> Any:
    """How the task's examples come from files."""
    return module("tasks", recipe.kind).plan(recipe.task)


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
    own = (field.findings for field in plan_of(recipe).fields.values())
    known = [*KINDS, *(code for codes in own for code in codes)]
    for code in allow:
        if code not in known:
            near = difflib.get_close_matches(code, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "; docs/doctor.md has them all"
            with recipe.place.located():
                raise RecipeError(f"train.allow: there is no finding {code!r}{hint}")
    for each in found:
        let = each.severity == "error" and each.code in allow
        yield replace(each, severity="warning", advice="train.allow lets it pass") if let else each


# Data


def _data(
    recipe: Recipe, plan: Any, limit: int, raw: Mapping[str, Raw]
) -> tuple[list[Part], list[Finding]]:
    """The parts that can be read, and what is to be said about them and the schedule."""
    found, parts = [*_schedule(recipe), *_parts(plan)], list[Part]()
    wanted = set[str]()
    # Training data comes last: what other parts have is then looked for in all of it.
    for name in reversed(plan.parts):
        part, defects = read(plan, raw, name, limit, wanted)
        found = [*defects, *found]
        parts = [part, *parts] if part else parts
        if part and plan.limited and name != "train":
            wanted |= examples.wanted(_telling(plan, part))
    try:
        found += _examples(plan, parts, _bases(recipe, plan))
        task = module("tasks", recipe.kind)
        found += task.examine(recipe, plan, parts) if isinstance(task, Examines) else ()
    except UserError as error:
        found.append(finding("data.unreadable", "data.file", str(error)))
    return parts, merged(found)


def _schedule(recipe: Recipe) -> Iterator[Finding]:
    warmup, updates = recipe.train.schedule.warmup, recipe.train.updates
    if updates >= SERIOUS and warmup > updates / 2:
        what = f"the learning rate rises for {warmup:,.0f} updates, and training has {updates:,}"
        yield finding("cost.warmup", "train.schedule.warmup", what)


def _parts(plan: Any) -> Iterator[Finding]:
    """Parts that are not there, so that nobody knows how good a model is."""
    read = bool(plan.fields)  # some tasks make up what they learn from
    lacks = [part for part in ("validation", "test") if read and not plan.has(part)]
    if len(lacks) == 2:
        what = "there is neither a validation nor a test part: nothing says how good the model is"
        yield finding("data.parts", "data", what)
    elif lacks:
        use = "no checkpoint is chosen by it" if lacks == ["validation"] else "nothing is scored"
        yield finding("data.parts", "data", f"there is no {lacks[0]} part: {use}", severity="note")


def _bases(recipe: Recipe, plan: Any) -> dict[str, Path]:
    """The sides whose fields another run has taught, and the folder of that run."""
    try:
        base = transfer.base_of(recipe)
        sides = transfer.fields_of(recipe, base, plan.fields) if base else {}
    except UserError:
        return {}  # refused where the run is made
    return dict.fromkeys(sides, base.folder) if base else {}


def _examples(plan: Any, parts: Sequence[Part], bases: Mapping[str, Path]) -> Iterator[Finding]:
    """What is to be said of whole examples, and what each field says of its own values."""
    if parts:
        shown = ", ".join(f"{part.name} {part.total or len(part):,}" for part in parts)
        yield finding("data.counts", "data", f"examples: {shown}")
        for part in parts:
            yield from examples.header(part)
    elif plan.parts:
        return
    sides = [*plan.fields]
    for side, field in plan.fields.items():
        # Labels are seen beside what has them.
        own = (side,) if field.distinctive else dict.fromkeys((sides[0], side))
        yield from field.check([part.only(*own) for part in parts], bases.get(side))
    if not parts:
        return
    telling = [_telling(plan, part) for part in parts]
    both = [side for side, field in plan.fields.items() if isinstance(field, texts.Field)]
    if len(both) == 2:
        together = [part.only(*both) for part in parts]
        yield from pairs.check(together)
        if (train := training(together)) and not plan.fields[both[0]].config.lowercase:
            yield from text.sides(train)
    if plan.limited:  # running text may well say a thing twice
        if (train := training(telling)) is not None:
            yield from examples.repeated(train)
        yield from examples.leaked(telling)


def _telling(plan: Any, part: Part) -> Part:
    """A part with what its examples are told apart by: not labels."""
    return part.only(*(side for side, field in plan.fields.items() if field.distinctive))


def _long(plan: Any, fields: Fields, parts: Sequence[Part]) -> Iterator[Finding]:
    """Examples that have more positions than data.max_length, as far as that is known."""
    if plan.limited and parts:
        measures = {side: field.at_least for side, field in fields.items()}
        yield from examples.long(parts, measures, plan.data, together=plan.together)


# Lists of findings


def ranked(found: Iterable[Finding]) -> list[Finding]:
    """The worst first."""
    return sorted(found, key=lambda each: SEVERITIES.index(each.severity))


def merged(found: Iterable[Finding]) -> list[Finding]:
    """One finding for what is the same on several sides and parts: the other places follow it."""
    kept: dict[tuple[str, ...], Finding] = {}
    for each in found:
        alike = each.code.startswith(MERGED)
        key = (each.code, each.severity) if alike else (each.code, each.place, each.what)
        first = kept.setdefault(key, each)
        if each.place not in first.what and each.place != first.place:
            kept[key] = replace(first, what=f"{first.what}; also {each.place}")
    return list(kept.values())


def of(severity: Severity, found: Iterable[Finding]) -> list[Finding]:
    return [each for each in found if each.severity == severity]
