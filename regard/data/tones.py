"""A code of tones and chirps that spells letters: sounds with texts, made from nothing.

Every letter is a sound of its own: one of five pitches, which stays, rises or falls by a third of
its octave. Words are letters one after the other, and between words is silence. Pitch, length,
loudness and noise differ from sound to sound. All of it is a pure function of the seed.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RATE = 8000
LETTERS = "abcdefghijklmno"
PITCHES, GLIDES = (350.0, 550.0, 850.0, 1300.0, 2000.0), (0.0, 0.33, -0.33)
"""Hz; octaves from the middle of a letter to its end."""
SECONDS = (0.09, 0.15)
"""Of a letter, from and to."""
COUNTS = {"train": 1200, "validation": 100, "test": 100}
SEED = 1


def sound_of(text: str, random: np.random.Generator) -> NDArray[np.float32]:
    """The samples of a text of LETTERS and spaces."""
    voice, speed = random.uniform(-0.08, 0.08), random.uniform(0.85, 1.15)
    pieces = [_silence(random.uniform(0.05, 0.2))]
    for letter in text:
        if letter == " ":
            pieces.append(_silence(random.uniform(0.15, 0.25) * speed))
        else:
            pieces.append(_letter(LETTERS.index(letter), voice, speed, random))
            pieces.append(_silence(random.uniform(0.0, 0.03) * speed))
    pieces.append(_silence(random.uniform(0.05, 0.2)))
    clean = np.concatenate(pieces) * random.uniform(0.2, 0.8)
    noise = random.standard_normal(len(clean)) * random.uniform(0.002, 0.03)
    return np.clip(clean + noise, -1, 1).astype(np.float32)


def _silence(seconds: float) -> NDArray[np.float64]:
    return np.zeros(round(seconds * RATE))


def _letter(
    number: int, voice: float, speed: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """A tone whose pitch glides evenly over its octaves, with soft ends and an overtone."""
    pitch, glide = PITCHES[number % len(PITCHES)], GLIDES[number // len(PITCHES)]
    count = round(random.uniform(*SECONDS) * speed * RATE)
    octaves = np.linspace(-glide, glide, count) + voice + random.uniform(-0.02, 0.02)
    phase = 2 * np.pi * np.cumsum(pitch * 2**octaves) / RATE + random.uniform(0, 2 * np.pi)
    ends = np.minimum(1, np.minimum(np.arange(count), np.arange(count)[::-1]) / (0.01 * RATE))
    return (np.sin(phase) + 0.2 * np.sin(2 * phase)) * ends / 1.2


def text_of(random: np.random.Generator) -> str:
    """One to three words of two to four letters."""
    words = []
    for _ in range(int(random.integers(1, 4))):
        numbers = random.integers(0, len(LETTERS), int(random.integers(2, 5)))
        words.append("".join(LETTERS[n] for n in numbers))
    return " ".join(words)


def examples(part: str, count: int, seed: int = SEED) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Texts and sounds of a part; no part has a text of another."""
    number = [*COUNTS].index(part)
    found, index = 0, 0
    while found < count:
        random = np.random.Generator(np.random.PCG64([seed, number, index]))
        index += 1
        text = text_of(random)
        if _part(text) == part:
            found += 1
            yield text, sound_of(text, random)


def _part(text: str) -> str:
    """By a sum over the text, so that a text is in one part alone."""
    place = sum((n + 1) * ord(letter) for n, letter in enumerate(text)) % 10
    return {0: "validation", 1: "test"}.get(place, "train")


def write(folder: Path, counts: dict[str, int] | None = None) -> None:
    """Sounds in a folder for each part, and a table of their paths and texts."""
    import soundfile

    for part, count in (counts or COUNTS).items():
        (folder / part).mkdir(parents=True, exist_ok=True)
        lines = []
        for n, (text, samples) in enumerate(examples(part, count)):
            name = f"{part}/{n:04}.wav"
            soundfile.write(folder / name, samples, RATE, subtype="PCM_16")
            lines.append(f"{name}\t{text}\n")
        (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")
