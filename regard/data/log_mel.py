"""Sound as frames: the logarithm of its power in bands that are as wide as the ear hears them.

    frame t of samples x:   X_t(k) = Σ_n w_n x_{th + n − N/2} exp(−2πi kn / N)      w: Hann's window
    band m:                 E_t(m) = Σ_k F_m(k) |X_t(k)|²                           F_m: a triangle
    what a model reads:     log max(E_t(m), 10⁻¹⁰)

Frame t is centred at sample t · h, where h is the hop; what lies beyond the ends is mirrored.
"""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

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


def log_mel(samples: Samples, config: Config) -> Frames:
    """log max(E, 10⁻¹⁰) of each frame and band (T, M)."""
    found: Frames = np.log(np.maximum(power(samples, config), FLOOR))
    return found


def power(samples: Float[Any, " N"], config: Config) -> Float[Any, "T M"]:
    """E of each frame and band."""
    size, count = config.size, config.frames(len(samples))
    padded = np.pad(np.asarray(samples, np.float32), (size // 2, size), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, size)[:: config.step][:count]
    shape, bank = hann(size), filters(config)
    found = np.empty((count, config.mels), np.float32)
    for first in range(0, count, BLOCK):
        spectrum = np.fft.rfft(windows[first : first + BLOCK] * shape)  # (T, K)
        found[first : first + BLOCK] = (spectrum.real**2 + spectrum.imag**2) @ bank
    return found


@cache
def hann(size: int) -> NDArray[np.float32]:
    """w_n = ½ − ½ cos(2πn / N): the window's period is N."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32)


@cache
def filters(config: Config) -> NDArray[np.float32]:
    """F (K, M): triangles between the edges f₀ < f₁ < …, which are equally far apart in mel; that
    of band m rises from f_m to f_{m+1}, falls to f_{m+2} and has an area of 1."""
    low, high = mel(np.array([config.low, config.top], np.float64), config.scale)
    edges = hertz(np.linspace(float(low), float(high), config.mels + 2), config.scale)
    bins = np.fft.rfftfreq(config.size, 1 / config.rate)[:, None]
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
