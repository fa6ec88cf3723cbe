"""Data sets of sounds that are made from others, or from nothing.

    digits     tables of the recordings of fsdd: official test, and each speaker left out
    strings    three to five recordings of a speaker, joined with gaps
    tones      a code of tones and chirps (tones.py)

Draws are a pure function of the seed: the files are the same wherever they are made.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data import tones as code
from regard.data.derived import SEED
from regard.errors import UserError

NAME = re.compile(r"(\d)_([a-z]+)_(\d+)\.wav")
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEST, VALIDATION = range(5), range(5, 8)
"""Which of a speaker's recordings of a digit: the first five are the official test."""
STRINGS = {"train": 3000, "validation": 300, "test": 500}
GAPS = (0.0, 0.3)
"""Seconds of silence between two digits, from and to."""

Fetch = Callable[[str], Path]


class Recording(NamedTuple):
    digit: int
    speaker: str
    take: int
    path: Path

    @property
    def part(self) -> str:
        if self.take in TEST:
            return "test"
        return "validation" if self.take in VALIDATION else "train"


def recordings(folder: Path) -> list[Recording]:
    """All of fsdd, by their names."""
    found = []
    for path in sorted(folder.glob("*.wav")):
        if not (match := NAME.fullmatch(path.name)):
            raise UserError(f"{path}: not called digit_speaker_index.wav")
        found.append(Recording(int(match[1]), match[2], int(match[3]), path))
    return found


def digits(folder: Path, fetch: Fetch) -> None:
    """Labels and paths: the official test, index 5 to 7 of each digit and speaker for validation,
    the rest to learn from; and the same without one speaker, whose recordings are the test."""
    every = recordings(fetch("recordings"))
    for part in STRINGS:
        _write(folder / f"{part}.tsv", (each for each in every if each.part == part))
    for speaker in sorted({each.speaker for each in every}):
        for part in ("train", "validation"):
            others = (e for e in every if e.speaker != speaker and _apart(e) == part)
            _write(folder / f"{part}-without-{speaker}.tsv", others)
        own = (each for each in every if each.speaker == speaker)
        _write(folder / f"test-{speaker}.tsv", own)


def _apart(recording: Recording) -> str:
    """The part where a speaker is the test: nothing else is held out for that."""
    return "validation" if recording.take in VALIDATION else "train"


def _write(path: Path, rows: Iterable[Recording]) -> None:
    lines = (f"{each.digit}\t../fsdd/recordings/{each.path.name}\n" for each in rows)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def strings(folder: Path, fetch: Fetch) -> None:
    """Sounds of three to five digits, each string by one speaker, and their words; the strings of
    a part are joined from recordings of that part alone."""
    import soundfile

    every = recordings(fetch("recordings"))
    for number, (part, count) in enumerate(STRINGS.items()):
        own: dict[str, list[Recording]] = defaultdict(list)
        for each in every:
            if each.part == part:
                own[each.speaker].append(each)
        (folder / part).mkdir()
        lines = []
        for n in range(count):
            random = np.random.Generator(np.random.PCG64([SEED, number, n]))
            samples, text = _joined([*own.values()], random)
            name = f"{part}/{n:04}.flac"
            soundfile.write(folder / name, samples, code.RATE, subtype="PCM_16")
            lines.append(f"{name}\t{text}\n")
        (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")


def _joined(
    speakers: list[list[Recording]], random: np.random.Generator
) -> tuple[NDArray[np.int16], str]:
    """A string of a speaker: its samples and its words."""
    import soundfile

    own = speakers[int(random.integers(len(speakers)))]
    chosen = [own[int(n)] for n in random.integers(len(own), size=int(random.integers(3, 6)))]
    pieces = []
    for each in chosen:
        samples, rate = soundfile.read(each.path, dtype="int16")
        if rate != code.RATE or samples.ndim != 1:
            raise UserError(f"{each.path}: not one channel of {code.RATE:,} Hz")
        gap = round(float(random.uniform(*GAPS)) * code.RATE)
        pieces += [samples, np.zeros(gap, np.int16)]
    return np.concatenate(pieces), " ".join(WORDS[each.digit] for each in chosen)


def tones(folder: Path, fetch: Fetch) -> None:
    """The embedded code."""
    code.write(folder)
