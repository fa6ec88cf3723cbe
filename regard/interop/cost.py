"""What smaller numbers cost: the task's own score of both on the validation part, and whether the
difference is more than noise."""

from dataclasses import dataclass

import numpy as np

from regard.interop.shipments import Quality
from regard.metrics import bootstrap, paired_bootstrap

LIKELY = 0.05
"""A difference that chance makes less often than this is no noise."""
SMALL = 0.005
"""An error or a perplexity is measured so finely that every rounding shows: a loss below half a
percent of it counts as noise, however sure it is."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A score in float32 and in other numbers."""

    quantization: str
    metric: str
    float32: float
    quantized: float
    inputs: int
    unit: str
    """How many of what the validation part gave."""
    worse: bool
    """Whether more than noise is lost: a paired bootstrap says so."""
    megabytes: tuple[float, float]
    """Size of both."""

    def __str__(self) -> str:
        before, after = (_digits(x) for x in (self.float32, self.quantized))
        lost = "it loses more than noise" if self.worse else "the difference is noise"
        sizes = " → ".join(f"{size:.1f}" for size in self.megabytes)
        return (
            f"{self.quantization} instead of float32: {self.metric} {before} → {after} on "
            f"{self.inputs:,} {self.unit} of the validation part ({lost}), {sizes} MB"
        )


def _digits(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.4f}"


def cost(
    whole: Quality | None,
    narrow: Quality | None,
    megabytes: tuple[float, float],
    quantization: str = "int8",
) -> Cost | None:
    """Both scores, if there are any. Inputs are drawn anew, the same ones for both."""
    if whole is None or narrow is None:
        return None
    inputs = len(whole.texts) or len(whole.values)
    return Cost(
        quantization=quantization,
        metric=whole.name,
        float32=whole.value,
        quantized=narrow.value,
        inputs=inputs,
        unit=whole.unit,
        worse=_worse(whole, narrow),
        megabytes=megabytes,
    )


def _worse(whole: Quality, narrow: Quality) -> bool:
    if whole.texts:
        systems = {"float32": whole.texts, "int8": narrow.texts}
        found = paired_bootstrap(systems, whole.answers).scores.values()
        return any(
            after.p is not None and after.p < LIKELY and after.score.value < before.score.value
            for before, after in found
        )
    lost = narrow.values - whole.values
    low, high = bootstrap(-lost if whole.higher else lost, whole.counts)
    slight = not whole.higher and narrow.value < (1 + SMALL) * whole.value
    return bool(not slight and low > 0 and np.isfinite(high))
