"""Machines by their data sheets: the most that they do, and what they take.

Rates are those of dense products, per device: of a chip for a TPU. `utilisation` is the fraction of
them that training reaches; a third for devices without matrix units, as OpenAI counted for GPT-1
("AI and Compute", 2018), and two fifths for those with them, as reported for large Transformers on
A100 and H100 (Narayanan et al. 2021 have 0.44 to 0.52, Llama 3 has 0.38 to 0.43). Prices are round
list prices of clouds in US dollars for an hour. All three are assumptions: options change them.
"""

import difflib
import re
from dataclasses import dataclass
from typing import NamedTuple

from regard.errors import RecipeError

TERA, GIGA = 1e12, 1e9


@dataclass(frozen=True)
class Device:
    """One accelerator, or this machine."""

    name: str
    rates: dict[str, float]
    """FLOP/s by the operands' precision."""
    memory: float
    """Bytes."""
    bandwidth: float
    """Bytes per second, of its memory."""
    watts: float
    price: float
    """US dollars for an hour."""
    precision: str
    """What it is trained in by default."""
    utilisation: float
    source: str
    measured: bool = False

    def rate(self, precision: str) -> float:
        """FLOP/s that it has at most in this precision."""
        if precision not in self.rates:
            has = ", ".join(self.rates)
            raise RecipeError(f"--precision {precision}: {self.name} has {has}")
        return self.rates[precision]


def _device(
    name: str, tera: dict[str, float], memory: float, bandwidth: float, watts: float, price: float,
    utilisation: float, source: str,
) -> Device:  # fmt: skip
    rates = {precision: rate * TERA for precision, rate in tera.items()}
    fastest = max(rates, key=lambda each: rates[each])
    return Device(
        name, rates, memory * GIGA, bandwidth * GIGA, watts, price, fastest, utilisation, source
    )


SHEETS = [
    _device("P100", {"float32": 9.5}, 16, 732, 300, 1.46, 0.33,
            "NVIDIA P100 SXM2, 9.5 TFLOP/s as Vaswani et al. 2017 count it (the sheet: 10.6)"),
    _device("P6000", {"float32": 12.0}, 24, 432, 250, 1.10, 0.33,
            "NVIDIA Quadro P6000, 12 TFLOP/s"),
    _device("TPUv2", {"bfloat16": 46.0}, 16, 700, 280, 1.13, 0.40,
            "one chip of Cloud TPU v2 (Jouppi et al. 2021, table 1)"),
    _device("TPUv3", {"bfloat16": 123.0}, 32, 900, 450, 2.00, 0.40,
            "one chip of Cloud TPU v3 (Jouppi et al. 2021, table 1)"),
    _device("V100", {"float32": 15.7, "float16": 125.0}, 32, 900, 300, 2.48, 0.33,
            "NVIDIA V100 SXM2 32 GB"),
    _device("A100", {"float32": 19.5, "bfloat16": 312.0, "float16": 312.0}, 80, 2039, 400, 2.50,
            0.40, "NVIDIA A100 SXM 80 GB, dense"),
    _device("H100", {"float32": 67.0, "bfloat16": 989.0, "float16": 989.0}, 80, 3350, 700, 3.00,
            0.40, "NVIDIA H100 SXM, dense"),
    _device("B200", {"float32": 75.0, "bfloat16": 2250.0, "float16": 2250.0}, 180, 7700, 1000,
            5.00, 0.40, "NVIDIA B200 in HGX, dense"),
]  # fmt: skip
NAMES = {device.name.lower(): device for device in SHEETS}
HERE = "here"
"""This machine."""
OTHERS = {"tpu2": "TPUv2", "tpu3": "TPUv3", "quadrop6000": "P6000", "teslap100": "P100"}
MOST = 1_000_000


class Asked(NamedTuple):
    """Hardware that a user named."""

    name: str
    devices: int = 1


def parse(text: str) -> Asked:
    """H100x64, "TPU v3 x 16", here → the device's name and how many there are."""
    plain = re.sub(r"[\s_-]", "", text).lower()
    found = re.fullmatch(r"(.+?)(?:[x×*](\d{1,9}))?", plain)
    name, count = (found[1], int(found[2] or 1)) if found else (plain, 1)
    name = OTHERS.get(name, name).lower()
    known = [*NAMES, HERE]
    if name not in known:
        near = difflib.get_close_matches(name, known, 1, 0.4)
        names = ", ".join([*(device.name for device in SHEETS), HERE])
        proper = NAMES[near[0]].name if near and near[0] in NAMES else "".join(near)
        hint = f"did you mean {proper}? " if near else ""
        raise RecipeError(f"--hardware {text}: there is no such device; {hint}There are {names}")
    if not 1 <= count <= MOST:
        raise RecipeError(f"--hardware {text}: from 1 to {MOST:,} devices")
    if name == HERE and count > 1:
        raise RecipeError(f"--hardware {text}: this machine is one")
    return Asked(NAMES[name].name if name in NAMES else HERE, count)
