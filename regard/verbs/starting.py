"""The verb that begins: new."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from regard.console import streams
from regard.console.shell import command
from regard.errors import RecipeError, UserError
from regard.verbs.common import Flag, Maybe, say

if TYPE_CHECKING:
    from regard.checks.findings import Finding
    from regard.starting import Draft

Words = Annotated[tuple[str, ...], arg(metavar="[TASK] FILE ...", help_behavior_hint="")]
COSTS = ("cost.time", "cost.memory")
HOUR = 3600.0
"""Seconds: a first training takes no longer."""


def new(
    words: Positional[Words] = (),
    *,
    to: Maybe[Path] = None,
    columns: Maybe[str] = None,
    quick: Flag = False,
    force: Flag = False,
    json: Flag = False,
) -> None:
    """Look at your own files and write a first recipe for them.

    Says what is in the files (columns, delimiter, encoding, labels, languages, lengths), writes a
    recipe whose split, sizes and budget fit them, and says what training will cost and which score
    costs nothing. The task is classify, tag, translate, language_model, masked_language_model or
    forecast; without one it is guessed where the files are plain.

    Examples:
      regard new classify reviews.csv
      regard new translate train.en train.de --to mine.toml
      regard new tag train.conll dev.conll test.conll
      regard new forecast load.csv
      regard new pictures/
      regard new transcribe train.tsv
      regard new classify tickets.csv --columns queue,subject

    Args:
        words: A task, and the files that it is for, or a folder of pictures, one folder inside it
            for each label.
        to: The recipe to write; otherwise NAME.toml in this folder, called as the first file.
        columns: Names or numbers of columns: label,text or source,target or word,tag or variables.
        quick: Do not measure time and memory; `regard doctor` does.
        force: Write over a recipe that is there.
        json: All that was seen as JSON on stdout.
    """
    from regard import starting
    from regard.verbs import display

    task, files = _named(words)
    wanted = tuple(each.strip() for each in columns.split(",")) if columns else ()
    asked = starting.Asked(files, wanted)
    place = to or Path(f"{_stem(files[0])}.toml")
    if place.exists() and not force:
        raise UserError(
            f"{place} is there already: name another by --to, or write over it by --force"
        )
    streams.check_place(place)
    with display.waiting(f"looking at {', '.join(map(str, files))}"):
        task = task or starting.likeliest(asked)
        draft = starting.of(task).look(asked, place.parent)
    head = _head(draft, words, place)
    found = [] if quick else _measured(starting.written(draft, head), place)
    draft, found = _in_an_hour(draft, found)
    streams.put(place, starting.written(draft, head).encode())
    _report(draft, task, place, found, as_json=json)


def _named(words: Sequence[str]) -> tuple[str, tuple[Path, ...]]:
    """The task, if the first word is one and no file, and the files."""
    from regard.data.readers import check
    from regard.recipe.toml import NO_TEXT
    from regard.starting import of

    task = ""
    if words and not Path(words[0]).exists() and Path(words[0]).name.isidentifier():
        task, words = words[0], words[1:]
        of(task)
    if not words:
        raise RecipeError("new: which files? regard new TASK FILE …")
    files = tuple(map(Path, words))
    for file in files:
        if not file.is_dir():
            check(file)
        if NO_TEXT.search(str(file.resolve())):
            raise UserError(f"{file}: no recipe can hold this name: rename the file, in UTF-8")
    return task, files


def _stem(file: Path) -> str:
    """The name of a file before its first dot."""
    return file.name.partition(".")[0] or "recipe"


def _head(draft: "Draft", words: Sequence[str], place: Path) -> list[str]:
    lines = [
        f"{draft.title}. Written by `{command('new', *words)}`.",
        "",
        f"  {command('doctor', place)}",
        f"  {command('train', place)} && {command('evaluate', Path('runs') / place.stem)}",
    ]
    return [streams.printable(line) for line in lines]


def _measured(text: str, place: Path) -> "list[Finding]":
    """What the doctor says of the recipe, cost included."""
    import tomllib

    from regard import front
    from regard.verbs import display

    table: dict[str, Any] = tomllib.loads(text)
    table["data"]["folder"] = str(place.parent.resolve())
    with display.waiting("measuring a few updates"):
        return front.doctor(table, to=Path("runs") / place.stem)


def _in_an_hour(draft: "Draft", found: "list[Finding]") -> "tuple[Draft, list[Finding]]":
    """With as many epochs as an hour has room for, one at least, and what these take."""
    from regard.starting import shortened

    hours = sum(each.value or 0.0 for each in found if each.code == "cost.time") / HOUR
    shorter = shortened(draft, 1 / hours) if hours > 1 else draft
    before, after = _epochs(draft), _epochs(shorter)
    if after == before:
        return draft, found
    taken = hours * after / before
    short = "about an hour" if taken <= 1 else f"about {taken:.1f} hours"
    what = f"{short}; the {before} epochs that would suit the data take {hours:.1f} hours"
    return shorter, [replace(e, what=what) if e.code == "cost.time" else e for e in found]


def _epochs(draft: "Draft") -> int:
    keys = (key for section in draft.sections for key in section.keys)
    return next(int(key.value) for key in keys if key.name == "epochs")


def _report(
    draft: "Draft", task: str, place: Path, found: "Sequence[Finding]", *, as_json: bool
) -> None:
    """What was seen, what it costs, what to do next."""
    wrong = [each for each in found if each.severity != "note"]
    cost = {each.code: each.what for each in found if each.code in COSTS}
    steps = [command("doctor", place), command("train", place)]
    if as_json:
        say(
            {
                "task": task, "recipe": str(place), "seen": draft.facts, "cost": cost,
                "reference": draft.scores, "findings": [each.as_dict() for each in wrong],
                "next": steps,
            }
        )  # fmt: skip
        return
    for line in draft.seen:
        say(streams.printable(line))
    for code, what in cost.items():
        say(f"{code.removeprefix('cost.')}: {what}")
    for n, line in enumerate(draft.reference):
        say(f"{'to beat: ' if not n else '         '}{line}")
    for each in wrong:
        say(streams.printable(f"{each.severity}: {each}"))
    say(f"written: {place}")
    say("next:    " + "\n         ".join(steps))
