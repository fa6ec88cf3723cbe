"""Frames of sound beside librosa's and Hugging Face's."""

import numpy as np
import pytest
import soxr

from regard.data import log_mel
from regard.errors import RecipeError


def noise(count: int = 5000) -> log_mel.Samples:
    return np.random.default_rng(3).normal(0, 0.1, count).astype(np.float32)


@pytest.mark.parametrize("scale", ["slaney", "htk"])
def test_librosa(scale: log_mel.Scale):
    librosa = pytest.importorskip("librosa")
    config = log_mel.Config(rate=8000, mels=23, low=60, high=3700, scale=scale)
    x = noise()
    wanted = librosa.feature.melspectrogram(
        y=x, sr=8000, n_fft=200, hop_length=80, n_mels=23, fmin=60, fmax=3700,
        htk=scale == "htk", pad_mode="reflect",
    )  # fmt: skip
    found = log_mel.log_mel(x, config)
    assert found.shape == (62, 23)
    assert np.abs(found - np.log(np.maximum(wanted, 1e-10)).T[:62]).max() < 1e-3


def test_whisper():
    transformers = pytest.importorskip("transformers")
    x = noise(16000)
    extract = transformers.WhisperFeatureExtractor(feature_size=80, chunk_length=1)
    wanted = extract(x, sampling_rate=16000, return_tensors="np").input_features[0]  # (M, T)
    found = log_mel.whisper(log_mel.log_mel(x, log_mel.Config()))
    assert found.shape == (100, 80)
    assert np.abs(found - wanted.T).max() < 1e-3


def test_a_tone_is_in_its_band():
    config = log_mel.Config(rate=8000, mels=40)
    time = np.arange(8000) / 8000
    edges = log_mel.hertz(np.linspace(0, log_mel.mel(np.array(4000.0), "slaney"), 42), "slaney")
    for band in (5, 17, 33):
        x = np.sin(2 * np.pi * edges[band + 1] * time).astype(np.float32)
        assert (log_mel.log_mel(x, config)[5:-5].argmax(1) == band).all()


@pytest.mark.parametrize("scale", ["slaney", "htk"])
def test_mel_and_back(scale: log_mel.Scale):
    frequencies = np.array([0.0, 20, 999, 1000, 1001, 7000])
    assert np.allclose(log_mel.hertz(log_mel.mel(frequencies, scale), scale), frequencies)
    if scale == "htk":
        assert log_mel.mel(np.array(1000.0), scale) == pytest.approx(1000, rel=1e-4)
    else:
        assert log_mel.mel(np.array([1000.0, 6400.0]), scale) == pytest.approx([15, 42])


def test_short_and_long_sounds():
    config = log_mel.Config(rate=8000, mels=7)
    for count in (1, 2, 79, 80, 159, 160):
        found = log_mel.log_mel(noise(count), config)
        assert found.shape == (max(1, count // 80), 7) and np.isfinite(found).all()
    long = noise(80 * (log_mel.BLOCK + 10))
    apart = log_mel.log_mel(long[80 * (log_mel.BLOCK - 5) :], config)
    assert np.allclose(log_mel.log_mel(long, config)[log_mel.BLOCK :], apart[5:], atol=1e-4)
    assert np.allclose(log_mel.log_mel(np.zeros(800, np.float32), config), np.log(1e-10))


def test_impossible_bands_are_refused():
    with pytest.raises(RecipeError, match=r"high: 5000 Hz .* at most half the rate, 4000"):
        log_mel.Config(rate=8000, high=5000)
    with pytest.raises(RecipeError, match=r"hop: 0\.05 s leaves out sound"):
        log_mel.Config(hop=0.05)


def test_speed_is_that_of_a_resampled_sound():
    """The same frames as those of samples that soxr has made for a sound that is played faster."""
    config = log_mel.Config(rate=8000, mels=23, high=3400)
    time = np.arange(8000) / 8000
    x = np.sin(2 * np.pi * (200 + 600 * time) * time).astype(np.float32) + noise(8000) * 0.01
    for speed in (0.9, 1.1):
        slow = log_mel.log_mel(soxr.resample(x, 8000 * speed, 8000), config)
        found = log_mel.log_mel(x, config, speed)
        assert abs(len(found) - 100 / speed) <= 1 and abs(len(slow) - len(found)) <= 1
        apart = np.abs(slow[5:80] - found[5:80])
        assert np.median(apart) < 0.1 and found.std() > 2


def test_sounds_together_have_the_frames_of_each():
    config, sounds = log_mel.Config(rate=8000, mels=7), [noise(900), noise(2000), noise(1500)]
    speeds = [1.0, 1.2, 1.0]
    together = log_mel.of_many(sounds, config, speeds)
    for found, x, speed in zip(together, sounds, speeds, strict=True):
        assert np.allclose(found, log_mel.log_mel(x, config, speed), atol=1e-4)
