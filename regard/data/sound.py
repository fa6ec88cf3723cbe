"""Sounds as they are in files: read by libsndfile, one channel of one rate, within limits.

What cannot be used is a ValueError whose message is a kind of defect, without the path. Nothing is
believed that a header says: samples are read block by block, and counted.
"""

import io
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aif", ".aiff", ".au")
"""How names of sounds end."""
BLOCK = 1 << 17
"""Numbers, those of all channels together, that are read at once."""
CHANNELS = 64
"""More than that are no recording."""
RATES = range(1000, 768_001)
STREAMED = 0x7FFF0000
"""A size of samples above this stands for one that was not known when the header was written."""
FULL = 32767


class Recorded(NamedTuple):
    """A sound as it was recorded, all channels mixed into one."""

    samples: Samples
    rate: int
    channels: int


class Played(NamedTuple):
    """A sound for a person: what is heard, and what a model reads of it."""

    wav: bytes
    frames: NDArray[np.float32]
    """(T, M)."""
    seconds: float


def wav(samples: NDArray[np.int16], rate: int) -> bytes:
    """A file of samples."""
    import soundfile

    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format="WAV", subtype="PCM_16")
    return stream.getvalue()


def read(content: bytes, max_seconds: float) -> Recorded:
    """The sound of a file's bytes: wav, flac, ogg and what else libsndfile knows."""
    import soundfile  # not before there is a sound

    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            rate, channels, promised = file.samplerate, file.channels, file.frames
            if channels > CHANNELS:
                raise ValueError(f"a sound of more than {CHANNELS} channels")
            if rate not in RATES:
                raise ValueError(f"a rate of {rate:,} samples a second")
            samples = _mixed(file, int(max_seconds * rate), max_seconds)
    except (soundfile.LibsndfileError, RuntimeError, TypeError) as error:
        text = str(error).partition(": ")[2] or str(error)
        raise ValueError(f"no sound that can be read: {text.rstrip('.')}") from None
    if not len(samples):
        raise ValueError("a sound without samples")
    if len(samples) < promised < STREAMED or _cut_off(content):
        raise ValueError("a sound that is cut off: it has fewer samples than its header says")
    if not np.isfinite(samples).all():
        raise ValueError("a sound with samples that are no numbers (NaN or infinite)")
    return Recorded(samples, rate, channels)


def _mixed(file: Any, most: int, max_seconds: float) -> Samples:
    """The mean over channels of all samples, of which there may be so many."""
    found, count = [], 0
    while len(block := file.read(BLOCK // file.channels, dtype="float32", always_2d=True)):
        count += len(block)
        if count > most:
            raise ValueError(f"a sound of more than {max_seconds:g} seconds")
        found.append(block.mean(1, dtype=np.float32))
    return np.concatenate(found) if found else np.empty(0, np.float32)


def _cut_off(content: bytes) -> bool:
    """Whether a wav file has fewer bytes of samples than it says: libsndfile does not mind."""
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        return False
    place = 12
    while place + 8 <= len(content):
        name, size = content[place : place + 4], content[place + 4 : place + 8]
        length = int.from_bytes(size, "little")
        if name == b"data":
            return length < STREAMED and place + 8 + length > len(content)
        place += 8 + length + length % 2
    return False


def resampled(samples: Samples, rate: int, wanted: int) -> Samples:
    """The same sound at another rate."""
    import soxr

    if rate == wanted:
        return samples
    found: Samples = soxr.resample(samples, rate, wanted)
    # A sound of a few samples may have none left.
    return found if len(found) else np.zeros(1, np.float32)


def whole(samples: Samples) -> NDArray[np.int16]:
    """As 16-bit integers, which is what most files have."""
    return np.round(np.clip(samples, -1, 1) * FULL).astype(np.int16)


def real(samples: NDArray[np.int16]) -> Samples:
    """−1 … 1 again."""
    return samples.astype(np.float32) / np.float32(FULL)
