"""Sets of sounds that are made from others: what is apart stays apart."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from regard.data import derived_sounds, derived_speech, readers, sound, tones
from regard.data.derived_sounds import WORDS
from regard.errors import UserError

SPEAKERS = ("ada", "bob")
TAKES = 10


@pytest.fixture
def fsdd(tmp_path: Path) -> Path:
    """Each recording is of one value, by which it is known again."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    number = 0
    for speaker in SPEAKERS:
        for digit in range(10):
            for take in range(TAKES):
                number += 1
                samples = np.full(9, number, np.int16)
                soundfile.write(folder / f"{digit}_{speaker}_{take}.wav", samples, tones.RATE)
    return folder


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def test_digits_have_the_official_test_and_a_speaker_who_is_left_out(fsdd: Path, tmp_path: Path):
    derived_sounds.digits(tmp_path, lambda name: fsdd)
    for part, takes in {"test": range(5), "validation": range(5, 8), "train": range(8, 10)}.items():
        found = {Path(place).stem.split("_", 1)[1] for _, place in rows(tmp_path / f"{part}.tsv")}
        assert found == {f"{speaker}_{take}" for speaker in SPEAKERS for take in takes}
    for label, place in rows(tmp_path / "test.tsv"):
        assert Path(place).name.startswith(f"{label}_")
    for speaker in SPEAKERS:
        for part in ("train", "validation"):
            others = rows(tmp_path / f"{part}-without-{speaker}.tsv")
            assert others and all(speaker not in place for _, place in others)
        own = rows(tmp_path / f"test-{speaker}.tsv")
        assert len(own) == 10 * TAKES and all(speaker in place for _, place in own)


def test_strings_are_joined_from_recordings_of_their_part_by_one_speaker(
    fsdd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(derived_sounds, "STRINGS", {"train": 8, "validation": 8, "test": 8})
    derived_sounds.strings(tmp_path, lambda name: fsdd)
    by_value = {
        int(soundfile.read(path, dtype="int16")[0][0]): path.stem for path in fsdd.iterdir()
    }
    takes = {"test": range(5), "validation": range(5, 8), "train": range(8, 10)}
    for part, known in takes.items():
        for place, text in rows(tmp_path / f"{part}.tsv"):
            samples, _ = soundfile.read(tmp_path / place, dtype="int16")
            pieces = [n for n in range(1, len(samples)) if samples[n] and not samples[n - 1]]
            if samples[0]:
                pieces = [0, *pieces]
            names = [by_value[int(samples[n])].split("_") for n in pieces]
            said = text.split()
            assert len(said) in (3, 4, 5)
            assert len({speaker for _, speaker, _ in names}) == 1
            assert all(int(take) in known for _, _, take in names)
            if len(names) == len(said):  # no gap was of 0 seconds
                assert [WORDS[int(digit)] for digit, _, _ in names] == said


def test_paraphrases_of_sentences_are_in_one_part(tmp_path: Path):
    pairs = [(f"i have {'very ' * (n % 3)}many {w}", f"d{n // 3}") for n, w in enumerate(NOUNS)]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{english}\t{german}\n" for english, german in pairs))
    parts = derived_speech.sentences(path)
    where = {text: part for part, texts in parts.items() for text in texts}
    assert len(where) == len(pairs) and all(parts.values())
    for n in range(0, len(pairs), 3):
        assert len({where[english] for english, _ in pairs[n : n + 3]}) == 1


NOUNS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "lmnrst"]


def test_speech_has_voices_that_are_seen_and_one_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    said: dict[str, set[str]] = {}

    def spoken(text: str, voice: str, speed: int, pitch: int) -> sound.Samples:
        said.setdefault(text, set()).add(voice)
        return np.zeros(9, np.float32)

    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"i have many {noun}\t{noun}\n" for noun in NOUNS))
    monkeypatch.setattr(derived_speech, "spoken", spoken)
    monkeypatch.setattr("shutil.which", lambda name: name)
    counts = {"train": 40, "validation": 3, "test": 3, "unseen": 3}
    derived_speech.synthesise(tmp_path, lambda name: pairs, counts)
    texts = {part: {text for _, text in rows(tmp_path / f"{part}.tsv")} for part in counts}
    assert {part: len(each) for part, each in texts.items()} == counts
    for part in ("validation", "test", "unseen"):
        assert texts["train"].isdisjoint(texts[part])
        assert {text for _, text in readers.sound(tmp_path / "text.txt")}.isdisjoint(texts[part])
    heard = {part: {v for text in each for v in said[text]} for part, each in texts.items()}
    assert heard["train"] == {*derived_speech.VOICES}
    assert all(derived_speech.UNSEEN in said[text] for text in texts["unseen"])
    assert derived_speech.UNSEEN not in heard["train"] | heard["validation"]


def test_without_the_program_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UserError, match="espeak-ng reads the sentences: install it"):
        derived_speech.speech(tmp_path, lambda name: tmp_path)
