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
        self._weights.append(len(self._arrays))
        return self._add(array, "weight")

    def gates(self, array: Array) -> dict[str, Any]:
        """An array of numbers from 0 to 1 of which none is more interesting than another."""
        about = self._add(array, "gate") | {"power": 1.0}
        self._packed[about["block"]] = _packed(np.rint(255 * self.array(about)))
        return about

    def signed(self, array: Array, *, power: float = 1.0) -> dict[str, Any]:
        """An array of any numbers; the largest absolute value is kept exactly."""
        about = self._add(array, "signed")
        array = self.array(about)
        most = float(np.abs(array).max(initial=0.0)) or 1.0
        shares = np.sign(array) * np.abs(array / most) ** power
        self._packed[about["block"]] = _packed(np.rint(127 * (1 + shares)))
        return about | {"most": most, "power": power}

    def _add(self, array: Array, scale: str) -> dict[str, Any]:
        self._arrays.append(np.nan_to_num(np.asarray(array, np.float32)))
        return {"block": len(self._arrays) - 1, "shape": list(array.shape), "scale": scale}

    def array(self, reference: dict[str, Any]) -> Array:
        """The array itself, as it was given."""
        number: int = reference["block"]
        return self._arrays[number]

    def packed(self) -> tuple[dict[int, str], int]:
        """Every block's text, and with how many levels weights are kept."""
        room = self.limit - sum(map(len, self._packed.values()))
        count = sum(self._arrays[number].size for number in self._weights)
        for levels in LEVELS:
            # The first array tells about how large all will be: most need not be tried.
            texts = {number: self._rooted(number, levels) for number in self._weights[:1]}
            share = count / max(1, sum(self._arrays[number].size for number in texts))
            if levels > LEVELS[-1] and share * sum(map(len, texts.values())) > 1.1 * room:
                continue
            texts |= {number: self._rooted(number, levels) for number in self._weights[1:]}
            if sum(map(len, texts.values())) <= room:
                break
        return self._packed | texts, levels

    def _rooted(self, number: int, levels: int) -> str:
        return _packed(np.rint(levels * np.sqrt(self._arrays[number])))


def _packed(array: Array) -> str:
    return base64.b64encode(zlib.compress(array.astype(np.uint8).tobytes(), 6)).decode("ascii")
