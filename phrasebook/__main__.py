"""python -m phrasebook: write the corpora that the package ships (regard/data/phrasebook-*)."""

import lzma
from pathlib import Path

from phrasebook import LANGUAGES, Languages, Part, pairs

HERE = Path(__file__).resolve().parents[1] / "regard" / "data"
COUNTS: dict[Part, int] = {"train": 20_000, "validation": 1_000, "test": 1_000}


def text(languages: Languages) -> str:
    """A line for each pair: its part, the sentence, its translation."""
    lines = [
        f"{part}\t{source}\t{target}\n"
        for part, count in COUNTS.items()
        for source, target in pairs(languages, part, count, seed=1)
    ]
    return "".join(lines)


def main() -> None:
    for languages in LANGUAGES:
        path = HERE / f"phrasebook-{languages}.tsv.xz"
        path.write_bytes(lzma.compress(text(languages).encode(), preset=9))
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
