"""Sound as frames: the logarithm of its power in bands that are as wide as the ear hears them.

    frame t of samples x:   X_t(k) = Σ_n w_n x_{th + n − N/2} exp(−2πi kn / N)      w: Hann's window
    band m:                 E_t(m) = Σ_k F_m(k) |X_t(k)|²                           F_m: a triangle
    what a model reads:     log max(E_t(m), 10⁻¹⁰)

Frame t is centred at sample t · h, where h is the hop; what lies beyond the ends is mirrored.

A sound that is played s times as fast is the same samples at s times the rate: its frames have
windows of sN samples, every sh of them. So speed costs nothing: no sample is computed anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from regard.errors import RecipeError
from regard.recipe.values import Range

Samples = NDArray[np.float32]
Frames = NDArray[np.float32]
Scale = Literal["slaney", "htk"]
FLOOR = 1e-10
"""Power below which all is silence."""
BLOCK = 4096
"""Frames that are transformed together: a long sound takes no more memory for it."""
KNEE, PER_MEL, STEP = 1000.0, 200 / 3, np.log(6.4) / 27
"""Slaney's scale: a mel for each 66.7 Hz up to 1 kHz, 27 of them for each factor of 6.4 above."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a frame is."""

    rate: Annotated[int, Range(1000, 192_000)] = 16_000
    """Samples of a second: every sound is resampled to it."""
    window: Annotated[float, Range(0.001, 1)] = 0.025
    """Seconds that a frame looks at."""
    hop: Annotated[float, Range(0.001, 1)] = 0.01
    """Seconds from one frame to the next."""
    mels: Annotated[int, Range(1, 1024)] = 80
    """Bands of frequencies."""
    low: Annotated[float, Range(0, 100_000)] = 0.0
    """The lowest frequency in Hz."""
    high: Annotated[float, Range(0, 100_000)] = 0.0
    """The highest one; 0: half the rate."""
    scale: Scale = "slaney"
    """Where the bands lie: as in Slaney's toolbox (librosa, Whisper) or in HTK (Kaldi)."""

    def __post_init__(self) -> None:
        if not self.low < self.top <= self.rate / 2:
            raise RecipeError(
                f"high: {self.top:g} Hz must be above low = {self.low:g} and at most half the "
                f"rate, {self.rate / 2:g}"
            )
        if self.step > self.size:
            raise RecipeError(f"hop: {self.hop:g} s leaves out sound between windows")

    @property
    def top(self) -> float:
        return self.high or self.rate / 2

    @property
    def size(self) -> int:
        """N: samples of a window."""
        return max(2, round(self.window * self.rate))

    @property
    def step(self) -> int:
        """h: samples from one frame to the next."""
        return max(1, round(self.hop * self.rate))

    def frames(self, samples: int) -> int:
        """How many frames so many samples have: there is always one."""
        return max(1, samples // self.step)


class Plan(NamedTuple):
    """How frames of a sound of some speed are computed."""

    size: int
    """sN: samples of a window."""
    step: float
    """sh: samples from one frame to the next."""
    points: int
    """Of the transform, which is fast for some numbers only: the rest is zero."""
    window: NDArray[np.float32]
    bank: NDArray[np.float32]
    """F (K, M), such that a sound of any speed is as loud."""


@cache
def plan(config: Config, size: int) -> Plan:
    """Of sounds whose windows have so many samples: they are played size / N times as fast."""
    speed = size / config.size
    points = size if size == config.size else smooth(size)
    scale = (size / points) / speed**2
    bank = filters(config, points, speed) * np.float32(scale)
    return Plan(size, config.step * speed, points, hann(size), bank)


def smooth(least: int) -> int:
    """The first number from `least` on without prime factors above 5."""
    rest = least
    for prime in (2, 3, 5):
        while rest % prime == 0:
            rest //= prime
    return least if rest == 1 else smooth(least + 1)


def log_mel(samples: Samples, config: Config, speed: float = 1.0) -> Frames:
    """log max(E, 10⁻¹⁰) of each frame and band (T, M). The sound is played faster by about `speed`:
    by the nearest factor whose windows are whole samples."""
    return of_many([samples], config, [speed])[0]


def of_many(sounds: Sequence[Samples], config: Config, speeds: Sequence[float]) -> list[Frames]:
    """The frames of each sound; those of one speed are computed together, which is several times
    as fast where sounds are short."""
    sizes = [max(2, round(config.size * speed)) for speed in speeds]
    found: list[Frames] = [np.empty(0, np.float32)] * len(sounds)
    for size in set(sizes):
        own = [n for n, each in enumerate(sizes) if each == size]
        each = power([sounds[n] for n in own], plan(config, size))
        for n, frames in zip(own, each, strict=True):
            np.log(np.maximum(frames, FLOOR, out=frames), out=frames)
            found[n] = frames
    return found


def power(sounds: Sequence[Samples], plan: Plan) -> list[Float[Any, "T M"]]:
    """E of each frame and band of each sound."""
    import torch  # its transform takes a sixth of NumPy's time

    counts = [max(1, int(len(each) / plan.step)) for each in sounds]
    ends = np.cumsum(counts)
    windows = np.empty((ends[-1], plan.size), np.float32)
    for each, count, end in zip(sounds, counts, ends, strict=True):
        windows[end - count : end] = cut(each, count, plan)
    found = np.empty((ends[-1], plan.bank.shape[1]), np.float32)
    for first in range(0, len(windows), BLOCK):
        block = windows[first : first + BLOCK]
        block *= plan.window
        spectrum = torch.fft.rfft(torch.from_numpy(block), plan.points).numpy()  # (T, K)
        found[first : first + BLOCK] = (spectrum.real**2 + spectrum.imag**2) @ plan.bank
    return np.split(found, ends[:-1])


def cut(samples: Samples, count: int, plan: Plan) -> Float[Any, "T N"]:
    """The first `count` windows of a sound."""
    padded = np.pad(samples, (plan.size // 2, plan.size), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, plan.size)
    if plan.step.is_integer():
        return windows[:: int(plan.step)][:count]
    return windows[np.round(np.arange(count) * plan.step).astype(np.int64)]


@cache
def hann(size: int) -> NDArray[np.float32]:
    """w_n = ½ − ½ cos(2πn / N): the window's period is N."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32)


def filters(config: Config, points: int = 0, speed: float = 1.0) -> NDArray[np.float32]:
    """F (K, M): triangles between the edges f₀ < f₁ < …, which are equally far apart in mel; that
    of band m rises from f_m to f_{m+1}, falls to f_{m+2} and has an area of 1."""
    low, high = mel(np.array([config.low, config.top], np.float64), config.scale)
    edges = hertz(np.linspace(float(low), float(high), config.mels + 2), config.scale)
    bins = np.fft.rfftfreq(points or config.size, 1 / (config.rate * speed))[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    area = 2 / (edges[2:] - edges[:-2])
    found: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling)) * area
    return found.astype(np.float32)


def mel(frequency: Float[Any, "*N"], scale: Scale) -> Float[Any, "*N"]:
    """Of frequencies in Hz."""
    if scale == "htk":
        return 2595 * np.log10(1 + frequency / 700)
    above = np.log(np.maximum(frequency, KNEE) / KNEE) / STEP
    return np.minimum(frequency, KNEE) / PER_MEL + above


def hertz(mels: Float[Any, "*N"], scale: Scale) -> Float[Any, "*N"]:
    """The inverse of `mel`."""
    if scale == "htk":
        return 700 * (10 ** (mels / 2595) - 1)
    knee = KNEE / PER_MEL
    return np.minimum(mels, knee) * PER_MEL * np.exp(np.maximum(0, mels - knee) * STEP)


def whisper(frames: Frames) -> Frames:
    """As Whisper has them (Radford et al. 2023): log₁₀, nothing more than 8 below the highest,
    and brought to about −1 … 1."""
    found: Frames = frames / np.float32(np.log(10))
    found = (np.maximum(found, found.max() - 8) + 4) / 4
    return found.astype(np.float32)
