"""Sentences of tatoeba, read by espeak-ng: sounds and texts that nobody has to download.

Sentences that share a translation, or share one with a sentence that does, are paraphrases of each
other and go to one part together. The voices of the test are heard in training; another test has a
voice that is not. All draws are functions of the seed.
"""

import io
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from regard.data import readers, sound
from regard.data.derived import SEED, part
from regard.errors import UserError

PROGRAM = "espeak-ng"
VOICES = ("en-us", "en-gb", "en-gb-scotland+m3", "en-us+f3", "en-gb-x-rp+f2", "en-gb-x-gbcwmd+m7")
UNSEEN = "en-029+f4"
COUNTS = {"train": 10000, "validation": 300, "test": 500, "unseen": 300}
WORDS, LETTERS = range(3, 11), 50
"""Words of a sentence, and the most letters."""
SPOKEN = re.compile(r"[a-z' ]+")
MARKS = re.compile(r"[^a-z0-9' ]+")
RATE = 16_000
FOLDERS = "audio"

Fetch = Callable[[str], Path]


def speech(folder: Path, fetch: Fetch) -> None:
    """A table for each part, its sounds, and all sentences to learn a language model from."""
    synthesise(folder, fetch, COUNTS)


def synthesise(folder: Path, fetch: Fetch, counts: dict[str, int]) -> None:
    """The same with so many sentences."""
    if shutil.which(PROGRAM) is None:
        raise UserError(f"speech: {PROGRAM} reads the sentences: install it (Debian: {PROGRAM})")
    parts = sentences(fetch("deu-eng.tsv.gz"))
    written = parts["train"]
    (folder / "text.txt").write_text(
        "".join(f"{line}\n" for line in written), encoding="utf-8", newline="\n"
    )
    held = "".join(f"{line}\n" for line in parts["validation"])
    (folder / "text-validation.txt").write_text(held, encoding="utf-8", newline="\n")
    for number, (name, count) in enumerate(counts.items()):
        lines = _drawn(parts["test" if name == "unseen" else name], count, number)
        (folder / FOLDERS / name).mkdir(parents=True)
        rows = []
        for n, text in enumerate(lines):
            random = np.random.Generator(np.random.PCG64([SEED, number, n]))
            voice = UNSEEN if name == "unseen" else VOICES[int(random.integers(len(VOICES)))]
            speed, pitch = int(random.integers(140, 191)), int(random.integers(35, 66))
            path = Path(FOLDERS, name, f"{n:05}.flac")
            _save(folder / path, spoken(text, voice, speed, pitch))
            rows.append(f"{path.as_posix()}\t{text}\n")
        (folder / f"{name}.tsv").write_text("".join(rows), encoding="utf-8", newline="\n")


def spoken(text: str, voice: str, speed: int, pitch: int) -> sound.Samples:
    """What the program says, at the rate of the set."""
    how = ["-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", "--stdin"]
    done = subprocess.run([PROGRAM, *how], input=text.encode(), capture_output=True, check=False)
    try:
        found = sound.read(done.stdout, 60)
    except ValueError as error:
        said = done.stderr.decode(errors="replace").strip()
        raise UserError(f"{PROGRAM} -v {voice}: {error}: {said}") from None
    return sound.resampled(found.samples, found.rate, RATE)


def _save(path: Path, samples: sound.Samples) -> None:
    import soundfile

    stream = io.BytesIO()
    soundfile.write(stream, sound.whole(samples), RATE, format="FLAC", subtype="PCM_16")
    path.write_bytes(stream.getvalue())


def sentences(path: Path) -> dict[str, list[str]]:
    """What is read in each part, in the order of the file, each once.

    Paraphrases are grouped as they stand in the file, and sentences that differ by their marks
    alone become one afterwards, so that a few of the test (1 of the 500 that are drawn) have a
    paraphrase in training. Groups of what is read would give other groups other parts, and draw
    other sentences for all of them: the set that recipes were measured on would be gone.
    """
    pairs = [line.split("\t")[:2] for _, line in readers.sound(path)]
    groups = paraphrases([(english, german) for english, german in pairs])
    found: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    known = dict[str, str]()
    for english, _ in pairs:
        text = normalised(english)
        where = part(groups[english], test=0.03, validation=0.02)
        # A sentence that differs by its marks alone may be in another group: the first one counts.
        if _fits(text) and text not in known:
            known[text] = where
            found[where].append(text)
    return found


def normalised(text: str) -> str:
    """Lower case, without marks."""
    plain = text.lower().replace("’", "'")
    return " ".join(MARKS.sub(" ", plain).split())


def _fits(text: str) -> bool:
    few = len(text.split()) in WORDS and len(text) <= LETTERS
    return few and SPOKEN.fullmatch(text) is not None


def paraphrases(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each first text of a pair the one that stands for all that are connected with it, by
    texts that both have on the other side, and so on."""
    parents: dict[tuple[int, str], tuple[int, str]] = {}

    def root(node: tuple[int, str]) -> tuple[int, str]:
        while parents.setdefault(node, node) != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    firsts = []
    for first, second in pairs:
        firsts.append(first)
        one, other = root((0, first)), root((1, second))
        parents[max(one, other)] = min(one, other)
    return {first: root((0, first))[1] for first in firsts}


def _drawn(lines: Sequence[str], count: int, number: int) -> list[str]:
    """Some of them, without repeating any; of two draws of one part, other ones."""
    random = np.random.Generator(np.random.PCG64([SEED, 100]))
    order = random.permutation(len(lines))
    if number == len(COUNTS) - 1:
        order = order[::-1]
    return [lines[n] for n in order[:count]]
