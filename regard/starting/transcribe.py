"""Sounds and their texts: a table with a column of paths and one of texts."""

from collections.abc import Sequence
from pathlib import Path

from regard.data import media, sound
from regard.errors import RecipeError, UserError
from regard.starting import Asked, Draft, Key, Section, measures, sounds, table
from regard.starting.sizing import held_out, up
from regard.starting.table import Column, Table

USUAL = 400
"""Characters of a text, without being asked."""


def fits(asked: Asked) -> float:
    """Sure where a column has names of sounds, and another one texts that are no labels."""
    try:
        _, text = choose(table.read(asked.files[0]), asked.columns)
    except (UserError, OSError):
        return 0.0
    return 0.5 if text.few else 0.99


def choose(found: Table, given: Sequence[str] = ()) -> tuple[Column, Column]:
    """The columns of sounds and of texts."""
    if given:
        if len(given) != 2:
            raise RecipeError(f"--columns: the sound's and the text's are wanted, not {len(given)}")
        first, second = map(found.column, given)
        return first, second
    paths = [column for column in found.columns if _sounds(column)]
    rest = [column for column in found.columns if column not in paths]
    if len(paths) != 1 or not rest:
        names = ",".join(column.name or str(column.number) for column in found.columns)
        raise UserError(
            f"{found.path}: which columns are sound and text? Say by --columns SOUND,TEXT; there "
            f"are {names}"
        )
    return paths[0], max(rest, key=lambda column: (column.name.lower() == "text", column.words))


def _sounds(column: Column) -> bool:
    """Whether most cells are names of sounds."""
    cells = [cell.strip().lower() for cell in column.cells[:200] if cell.strip()]
    return 2 * sum(cell.endswith(sound.SUFFIXES) for cell in cells) > len(cells) > 0


def look(asked: Asked, base: Path) -> Draft:
    """Sounds with a text each."""
    files = table.parts(asked.files)
    for part, names in files.items():
        if len(names) > 1:
            raise RecipeError(f"new: {part} has {len(names)} files; one table is wanted for it")
    path = files["train"][0]
    found = table.read(path)
    audio, text = choose(found, asked.columns)
    heard = sounds.listen([media.located(cell, path) for cell in audio.cells if cell.strip()])
    sizes = measures.lengths([*map(len, text.cells)], "characters")
    data = [Key(part, table.named(names, base)) for part, names in files.items()]
    data += found.keys((audio, text), ("audio", "text"))
    if heard.broken:
        data.append(Key("on_bad_line", "skip", "some sounds cannot be read: they are left out"))
    if sizes.longest > USUAL:
        data.append(Key("max_length", up(sizes.longest, 64), "characters of the longest texts"))
    speech = measures.language(text.cells)
    return Draft(
        title=f"{found.estimated:,} sounds with texts{f', {speech}' if speech else ''}",
        facts=found.facts() | {"audio": audio.name or audio.number, **heard.facts()},
        seen=[*found.said(), *heard.said(), f"  texts in {text.called}: {sizes}"],
        sections=[
            Section("", (Key("task", "transcribe"),)),
            Section("data", tuple(data)),
            *held_out(files, "the same sound stays in one part", 0.05),
            *heard.sections(),
            Section(
                "train",
                (Key("epochs", heard.epochs(found.estimated), "times through the data"),),
            ),
        ],
        reference=["unknown before it is trained (every language and recording differs)"],
    )
