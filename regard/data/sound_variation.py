"""Sounds and their frames as they might have been: faster, later, noisier, with holes.

Each is a pure function of what it is given and of the draws of one generator.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from regard.recipe.values import Range, Share

Samples = NDArray[np.float32]
Frames = NDArray[np.float32]
MARGIN = 0.05
"""Of a faster or slower sound's seconds, soxr's filter needs so many at least."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """How sounds are varied while a model learns; validation and prediction read them as they
    are."""

    speed: Annotated[float, Range(0, 0.5)] = 0.0
    """Faster or slower by up to this fraction, drawn for each sound; its pitch changes, too (Ko et
    al. 2015)."""
    noise: Share = 0.0
    """White noise of up to this fraction of the sound's own amplitude (root mean square)."""
    shift: Annotated[float, Range(0, 10)] = 0.0
    """Up to so many seconds of silence before the sound."""
    time_masks: Annotated[int, Range(0, 100)] = 0
    """Stretches of time whose frames are hidden (SpecAugment, Park et al. 2019)."""
    time_mask: Annotated[float, Range(0, 10)] = 0.25
    """The most seconds of each; never more than a fifth of the sound."""
    frequency_masks: Annotated[int, Range(0, 100)] = 0
    """Bands of frequencies that are hidden."""
    frequency_mask: Annotated[int, Range(0, 1024)] = 10
    """The most bands of each."""


def vary(samples: Samples, rate: int, config: Config, random: np.random.Generator) -> Samples:
    """A sound at another speed, later and noisier, as the draws say."""
    import soxr

    if config.speed:
        factor = 1 + random.uniform(-config.speed, config.speed)
        if len(samples) > MARGIN * rate:
            samples = soxr.resample(samples, rate * factor, rate, quality="LQ")
    if config.shift:
        before = int(random.uniform(0, config.shift) * rate)
        samples = np.concatenate([np.zeros(before, np.float32), samples])
    if config.noise:
        loudness = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
        amount = np.float32(random.uniform(0, config.noise) * loudness)
        samples = samples + amount * random.standard_normal(len(samples), np.float32)
    return samples


def masked(frames: Frames, hop: float, config: Config, random: np.random.Generator) -> Frames:
    """Frames (T, M), whose mean is 0, with holes of that value."""
    if not config.time_masks and not config.frequency_masks:
        return frames
    found = frames.copy()
    longest = min(round(config.time_mask / hop), len(frames) // 5)
    for _ in range(config.time_masks):
        first, end = _stretch(len(frames), longest, random)
        found[first:end] = 0
    widest = min(config.frequency_mask, frames.shape[1])
    for _ in range(config.frequency_masks):
        first, end = _stretch(frames.shape[1], widest, random)
        found[:, first:end] = 0
    return found


def _stretch(size: int, most: int, random: np.random.Generator) -> tuple[int, int]:
    """A piece of 0 … `most` places, anywhere."""
    length = int(random.integers(0, most + 1))
    first = int(random.integers(0, size - length + 1))
    return first, first + length
