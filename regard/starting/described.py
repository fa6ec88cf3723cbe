"""Tables with a column of paths, of sounds or pictures, and one of texts."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard.data import pictures as of_pictures, sound
from regard.errors import RecipeError, UserError
from regard.starting import Asked, Key, table
from regard.starting.table import Column, Table


class Kind(NamedTuple):
    """What the paths are of."""

    name: str
    suffixes: tuple[str, ...]


SOUND = Kind("sound", tuple(sound.SUFFIXES))
PICTURE = Kind("picture", tuple(of_pictures.SUFFIXES))


def fits(asked: Asked, kind: Kind) -> float:
    """Sure where a column has names of such files, and another one texts that are no labels."""
    try:
        _, text = choose(table.read(asked.files[0]), kind, asked.columns)
    except (UserError, OSError):
        return 0.0
    return 0.5 if text.few else 0.99


def choose(found: Table, kind: Kind, given: Sequence[str] = ()) -> tuple[Column, Column]:
    """The columns of paths and of texts."""
    what = kind.name
    if given:
        if len(given) != 2:
            raise RecipeError(
                f"--columns: the {what}'s and the text's are wanted, not {len(given)}"
            )
        first, second = map(found.column, given)
        return first, second
    paths = [column for column in found.columns if named(column, kind)]
    rest = [column for column in found.columns if column not in paths]
    if len(paths) != 1 or not rest:
        names = ",".join(column.name or str(column.number) for column in found.columns)
        raise UserError(
            f"{found.path}: which columns are {what} and text? Say by --columns "
            f"{what.upper()},TEXT; there are {names}"
        )
    return paths[0], max(rest, key=lambda column: (column.name.lower() == "text", column.words))


def named(column: Column, kind: Kind) -> bool:
    """Whether most cells are names of such files."""
    cells = [cell.strip().lower() for cell in column.cells[:200] if cell.strip()]
    return 2 * sum(cell.endswith(kind.suffixes) for cell in cells) > len(cells) > 0


def parts(asked: Asked) -> dict[str, list[Path]]:
    """One table for each part."""
    files = table.parts(asked.files)
    for part, names in files.items():
        if len(names) > 1:
            raise RecipeError(f"new: {part} has {len(names)} files; one table is wanted for it")
    return files


def data(
    files: dict[str, list[Path]],
    base: Path,
    found: Table,
    columns: tuple[Column, Column],
    usual: tuple[str, str],
    broken: bool,
    what: str,
) -> list[Key]:
    """The section of the data."""
    keys = [Key(part, table.named(names, base)) for part, names in files.items()]
    keys += found.keys(columns, usual)
    if broken:
        keys.append(Key("on_bad_line", "skip", f"some {what}s cannot be read: they are left out"))
    return keys
