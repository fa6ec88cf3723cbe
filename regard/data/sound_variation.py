"""Sounds and their frames as they might have been: faster, later, noisier, with holes.

Each is a pure function of what it is given and of numbers that were drawn from 0 up to 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from regard.recipe.values import Range, Share

Samples = NDArray[np.float32]
Frames = NDArray[np.float32]
Draws = Sequence[float]
SPEEDS = 5
DRAWN = 1 << 20
"""Samples of noise: to draw them anew for each sound would take longer than its frames."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """How sounds are varied while a model learns; validation and prediction read them as they
    are."""

    speed: Annotated[float, Range(0, 0.5)] = 0.0
    """Faster or slower by up to this fraction: one of five speeds, drawn for each sound. Its pitch
    changes, too (Ko et al. 2015)."""
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

    @property
    def draws(self) -> int:
        """Numbers from 0 to 1 that a sound is varied by: speed, shift, how loud noise is and which
        piece of it, and where each mask is and how long."""
        return 4 + 2 * (self.time_masks + self.frequency_masks)


def speed(config: Config, draws: Draws) -> float:
    """How fast a sound is played: one of a few speeds, so that sounds of a batch share one."""
    return 1 + config.speed * (int(draws[0] * SPEEDS) / (SPEEDS // 2) - 1)


def vary(samples: Samples, rate: int, config: Config, draws: Draws) -> Samples:
    """A sound later and noisier."""
    if config.shift:
        before = int(draws[1] * config.shift * rate)
        samples = np.concatenate([np.zeros(before, np.float32), samples])
    if config.noise:
        loudness = math.sqrt(np.dot(samples, samples) / len(samples))
        amount = np.float32(draws[2] * config.noise * loudness)
        samples = samples + amount * noise(len(samples), draws[3])
    return samples


def noise(count: int, place: float) -> Samples:
    """White noise of power 1: a piece of what was drawn once."""
    drawn = white()
    if count > len(drawn):
        return np.resize(drawn, count)
    first = int(place * (len(drawn) - count + 1))
    return drawn[first : first + count]


@cache
def white() -> Samples:
    """The same in every process."""
    return np.random.Generator(np.random.PCG64(0)).standard_normal(DRAWN, np.float32)


def mask(frames: Frames, hop: float, config: Config, draws: Draws) -> None:
    """Holes of 0 in frames (T, M), whose mean that is."""
    longest = min(round(config.time_mask / hop), len(frames) // 5)
    widest = min(config.frequency_mask, frames.shape[1])
    for n in range(config.time_masks):
        first, end = _stretch(len(frames), longest, *draws[4 + 2 * n : 6 + 2 * n])
        frames[first:end] = 0
    for n in range(config.time_masks, config.time_masks + config.frequency_masks):
        first, end = _stretch(frames.shape[1], widest, *draws[4 + 2 * n : 6 + 2 * n])
        frames[:, first:end] = 0


def _stretch(size: int, most: int, length: float, place: float) -> tuple[int, int]:
    """A piece of 0 … `most` places, anywhere."""
    count = int(length * (most + 1))
    first = int(place * (size - count + 1))
    return first, first + count
