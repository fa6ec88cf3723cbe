"""Pictures and their texts: a table with a column of paths and one of texts."""

from pathlib import Path
from statistics import median

from regard.data import media
from regard.errors import UserError
from regard.starting import Asked, Draft, Key, Section, described, measures, pictures, table
from regard.starting.sizing import held_out, up

USUAL = 64
"""Words of a text, without being asked."""
SEEN = 150_000
"""Pictures that a first training reads, in all of its epochs together; these are 5 at least."""


def fits(asked: Asked) -> float:
    """Sure where a column has names of pictures, and another one texts that are no labels."""
    return described.fits(asked, described.PICTURE)


def look(asked: Asked, base: Path) -> Draft:
    """Pictures with a text each."""
    return draft(asked, base, "caption", "model.input", 0.05)


def draft(asked: Asked, base: Path, task: str, reader: str, share: float) -> Draft:
    """A recipe of a task whose part `reader` reads the pictures; so much is held out."""
    files = described.parts(asked)
    path = files["train"][0]
    found = table.read(path)
    image, text = columns = described.choose(found, described.PICTURE, asked.columns)
    cells = [cell for cell in image.cells if cell.strip()]
    places = [Path(media.located(cell, path)) for cell in cells[:: -(-len(cells) // 200)]]
    sizes, _, broken = pictures.opened(places)
    if not sizes:
        raise UserError(f"{path}: none of the pictures in {image.called} can be read")
    height, width = (round(median(side)) for side in zip(*sizes, strict=True))
    side, stem = pictures.side_of(max(height, width))
    words = measures.lengths([len(cell.split()) for cell in text.cells], "words")
    data = described.data(files, base, found, columns, ("image", "text"), bool(broken), "picture")
    if words.longest > USUAL:
        data.append(Key("max_length", up(words.longest, 16), "words of the longest texts"))
    epochs = max(5, min(60, round(SEEN / max(1, found.estimated))))
    unread = [f"  {broken} of {len(places)} that were opened cannot be read"] * bool(broken)
    return Draft(
        title=f"{found.estimated:,} pictures with texts",
        facts=found.facts() | {"height": height, "width": width, "broken": broken},
        seen=[
            *found.said(),
            f"  pictures in {image.called}: {height} × {width} pixels (median)",
            *unread,
            f"  texts in {text.called}: {words}",
        ],
        sections=[
            Section("", (Key("task", task),)),
            Section("data", tuple(data)),
            *held_out(files, "the same picture stays in one part", share),
            Section("source", (Key("kind", "image"), Key("size", [side, side]))),
            Section(
                reader,
                (Key("kind", "cnn"), Key("stem", stem), Key("norm", True), Key("position", True)),
            ),
            Section("train", (Key("epochs", epochs, "times through the data"),)),
        ],
        reference=["unknown before it is trained (every kind of picture differs)"],
    )
