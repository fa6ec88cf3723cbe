"""A sound as a model reads it: its frames, tokens where they were heard, and the sound itself."""

import base64
from typing import Any

import numpy as np

from regard.inspect.blocks import Blocks
from regard.inspect.reading import Reading

View = dict[str, Any]


def view(reading: Reading, blocks: Blocks) -> View | None:
    """Frames from the quietest to the loudest, low bands at the bottom; tokens with times."""
    found = reading.sound
    if found is None:
        return None
    frames = found.frames.T[::-1]  # (M, T)
    low, high = (float(end) for end in (frames.min(), frames.max()))
    shares = ((frames - low) / max(high - low, 1e-9)).astype(np.float32)
    wav = base64.b64encode(found.wav).decode("ascii")
    return {
        "audio": f"data:audio/wav;base64,{wav}",
        "frames": blocks.gates(shares),
        "seconds": found.seconds,
        "letters": [
            {"text": text, "first": first, "end": end} for text, first, end in reading.heard
        ],
    }
