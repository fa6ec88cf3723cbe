"""Sound from bytes to samples, and how it is varied."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from regard.checks.audio import check
from regard.checks.sides import Part, Side
from regard.data import sound, sound_variation
from regard.data.log_mel import Config as Features
from regard.data.sound_variation import Config
from regard.inspect import sounds
from regard.inspect.blocks import Blocks

RATE = 8000
TIME = np.arange(RATE) / RATE


def packed(samples: Any, rate: int = RATE, **how: Any) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format="WAV", **how)
    return stream.getvalue()


def test_channels_become_their_mean():
    left, right = np.sin(50 * TIME), np.cos(20 * TIME)
    found = sound.read(packed(np.stack([left, right, 0 * left], 1), subtype="FLOAT"), 2)
    assert (found.rate, found.channels) == (RATE, 3)
    np.testing.assert_allclose(found.samples, (left + right) / 3, atol=1e-6)


def test_another_rate_is_the_same_sound():
    """A tone keeps its pitch, its loudness and its length."""
    tone = np.sin(2 * np.pi * 440 * TIME).astype(np.float32)
    for wanted in (16_000, 5_000):
        found = sound.resampled(tone, RATE, wanted)
        assert len(found) == wanted
        right = np.sin(2 * np.pi * 440 * np.arange(wanted) / wanted)
        middle = slice(wanted // 10, -wanted // 10)
        np.testing.assert_allclose(found[middle], right[middle], atol=0.01)
    assert sound.resampled(tone, RATE, RATE) is tone
    assert len(sound.resampled(np.ones(2, np.float32), 48_000, RATE)) == 1


def test_sixteen_bits_round_to_the_nearest():
    given = np.array([0, 0.5, -0.5, 1, -1, 3, -3, 0.4 / 32767, 0.6 / 32767], np.float32)
    found = sound.whole(given)
    assert found.tolist()[3:] == [32767, -32767, 32767, -32767, 0, 1]
    assert np.abs(sound.real(found)[:5] - given[:5]).max() <= 0.5 / 32767 + 1e-7


def test_noise_has_the_amplitude_that_was_drawn():
    tone = 0.3 * np.sin(2 * np.pi * 440 * TIME).astype(np.float32)
    draws = [0, 0, 0.5, 0.7]
    added = sound_variation.vary(tone, RATE, Config(noise=0.4), draws) - tone
    loudness = np.sqrt(np.square(tone).mean())
    assert np.sqrt(np.square(added).mean()) == pytest.approx(0.5 * 0.4 * loudness, rel=0.03)
    late = sound_variation.vary(tone, RATE, Config(shift=0.5), [0, 0.5, 0, 0])
    assert len(late) == len(tone) + RATE // 4 and not late[: RATE // 4].any()
    speeds = {sound_variation.speed(Config(speed=0.1), [each]) for each in (0, 0.3, 0.5, 0.7, 0.99)}
    assert sorted(speeds) == pytest.approx([0.9, 0.95, 1, 1.05, 1.1])


def test_masks_are_where_they_were_drawn():
    config = Config(time_masks=1, time_mask=0.1, frequency_masks=1, frequency_mask=3)
    frames = np.ones((53, 11), np.float32)
    sound_variation.mask(frames, 0.01, config, [0, 0, 0, 0, 0.99, 0.5, 0.99, 0])
    hidden = np.zeros((53, 11), bool)
    hidden[22:32] = True  # ten frames: 0.1 s, which is less than a fifth of the sound
    hidden[:, :3] = True
    assert ((frames == 0) == hidden).all()
    short = np.ones((7, 11), np.float32)
    sound_variation.mask(short, 0.01, Config(time_masks=1), [0, 0, 0, 0, 0.99, 0])
    assert (short == 0).all(1).sum() == 1


def test_what_a_page_gets_of_a_sound():
    """Low bands at the bottom, from the quietest to the loudest; letters with their times."""
    frames = np.arange(15, dtype=np.float32).reshape(5, 3)
    played = sound.Played(b"RIFF", frames, 0.7)
    reading: Any = SimpleNamespace(sound=played, heard=[("k", 0.1, 0.3)])
    blocks = Blocks()
    found = sounds.view(reading, blocks)
    assert found is not None
    shown = blocks.array(found["frames"])
    assert shown.shape == (3, 5) and (shown[0, -1], shown[2, 0]) == (1, 0)
    assert found["letters"] == [{"text": "k", "first": 0.1, "end": 0.3}]
    assert found["seconds"] == 0.7 and found["audio"].startswith("data:audio/wav;base64,")
    assert sounds.view(SimpleNamespace(sound=None, heard=[]), blocks) is None  # type: ignore[arg-type]


def test_several_texts_of_one_sound_are_no_copies():
    """Two sounds with three texts each; the second one is there again under another name."""
    sounds = {"a": np.sin(50 * TIME), "b": np.sin(20 * TIME)}
    listened: list[str] = []

    def read(place: str) -> sound.Recorded:
        listened.append(place)
        return sound.read(packed(0.5 * sounds[place[0]]), 2)

    def found(name: Any, places: list[str]) -> Part:
        where = [(Path(f"{name}.tsv"), n + 1) for n in range(len(places))]
        return Part(name, (Side("audio", [*places], where),))

    def codes(*parts: Part) -> dict[str, str]:
        return {e.code: e.what for e in check(parts, read, lambda p: p[0], Features(rate=RATE))}

    several = ["a.wav"] * 3 + ["b.wav"] * 3
    assert codes(found("train", several)) == {}
    assert listened == ["a.wav", "b.wav"]  # each file is listened to once
    again = codes(found("train", [*several, "b-copy.wav"]), found("test", ["a.wav"]))
    assert again.keys() == {"audio.repeated", "audio.leaked"}
    assert "1 of 7 lines" in again["audio.repeated"]
