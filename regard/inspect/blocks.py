"""Large arrays in a page: a byte per number, deflated, in base64; read when they are looked at.

A weight w ∈ [0, 1] becomes  round(L √w),  which keeps small weights apart; L = 255 levels, fewer
where a page would become too large. A signed number x becomes  round(127 (1 ± |x / max|x||ᵖ)),
p = ½ where a few large numbers would hide all others, else 1. A gate g ∈ [0, 1] is round(255 g).
"""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIMIT = 18 * 2**20
"""Characters of all blocks of a page together; a page may have 20 MB."""
LEVELS = (255, 127, 63, 31, 15)

Array = NDArray[Any]


class Blocks:
    """The arrays of one page, by number."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._arrays: list[Array] = []
        self._weights: list[int] = []
        self._packed: dict[int, str] = {}

    def weights(self, array: Array) -> dict[str, Any]:
        """An array of numbers from 0 to 1; what the page needs to know to read it."""
        number = self._add(array)
        self._weights.append(number)
        return {"block": number, "shape": list(array.shape), "scale": "weight"}

    def gates(self, array: Array) -> dict[str, Any]:
        """An array of numbers from 0 to 1 of which none is more interesting than another."""
        number = self._add(array)
        self._packed[number] = _packed(np.rint(255 * self._arrays[number]))
        return {"block": number, "shape": list(array.shape), "scale": "gate", "power": 1.0}

    def signed(self, array: Array, *, power: float = 1.0) -> dict[str, Any]:
        """An array of any numbers; the largest absolute value is kept exactly."""
        number = self._add(array)
        array = self._arrays[number]
        most = float(np.abs(array).max(initial=0.0)) or 1.0
        shares = np.sign(array) * np.abs(array / most) ** power
        self._packed[number] = _packed(np.rint(127 * (1 + shares)))
        about = {"block": number, "shape": list(array.shape), "scale": "signed"}
        return about | {"most": most, "power": power}

    def _add(self, array: Array) -> int:
        self._arrays.append(np.nan_to_num(np.asarray(array, np.float32)))
        return len(self._arrays) - 1

    def array(self, reference: dict[str, Any]) -> Array:
        """The array itself, as it was given."""
        number: int = reference["block"]
        return self._arrays[number]

    def packed(self) -> tuple[dict[int, str], int]:
        """Every block's text, and with how many levels weights are kept."""
        size = sum(map(len, self._packed.values()))
        for levels in LEVELS:
            texts = {
                number: _packed(np.rint(levels * np.sqrt(self._arrays[number])))
                for number in self._weights
            }
            if size + sum(map(len, texts.values())) <= self.limit:
                break
        return self._packed | texts, levels


def _packed(array: Array) -> str:
    return base64.b64encode(zlib.compress(array.astype(np.uint8).tobytes(), 6)).decode("ascii")
