"""Sounds and their texts: a table with a column of paths and one of texts."""

from pathlib import Path

from regard.data import media
from regard.starting import Asked, Draft, Key, Section, described, measures, sounds, table
from regard.starting.sizing import held_out, up

USUAL = 400
"""Characters of a text, without being asked."""


def fits(asked: Asked) -> float:
    """Sure where a column has names of sounds, and another one texts that are no labels."""
    return described.fits(asked, described.SOUND)


def look(asked: Asked, base: Path) -> Draft:
    """Sounds with a text each."""
    files = described.parts(asked)
    path = files["train"][0]
    found = table.read(path)
    audio, text = columns = described.choose(found, described.SOUND, asked.columns)
    heard = sounds.listen([media.located(cell, path) for cell in audio.cells if cell.strip()])
    sizes = measures.lengths([*map(len, text.cells)], "characters")
    broken = bool(heard.broken)
    data = described.data(files, base, found, columns, ("audio", "text"), broken, "sound")
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
