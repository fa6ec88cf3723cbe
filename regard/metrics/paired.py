"""Whether two systems differ by more than chance: both are scored on the same lines, drawn anew.

With δ = score(one) − score(other) on all lines and δ_b on draw b of the lines, with replacement and
the same for both,

    p = (1 + |{b : |δ_b − mean δ| ≥ |δ|}|) / (1 + B)

is how often a difference as large comes about where there is none (Riezler and Maxwell 2005, which
is sacrebleu's test, too). The interval holds 95 % of the δ_b. A single line, drawn anew, is always
the same: what it says of others is nothing, and p = 1.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.errors import UserError
from regard.metrics import SEED
from regard.metrics.statistic import Statistic

SAMPLES = 1000
SIGNIFICANT = 0.05


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two systems under one metric."""

    name: str
    value: float
    other: float
    low: float
    high: float
    """95 % interval of value − other."""
    p: float
    higher_is_better: bool
    samples: int
    seed: int = SEED

    @property
    def significant(self) -> bool:
        return self.p < SIGNIFICANT

    @property
    def better(self) -> bool:
        """Whether the first is the better one, by chance or not."""
        return self.value != self.other and (self.value > self.other) == self.higher_is_better

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"significant": self.significant}

    def __str__(self) -> str:
        ends = f"{self.value - self.other:+.4g} [{self.low:+.4g}, {self.high:+.4g}]"
        said = "better" if self.better else "worse"
        verdict = f"{said}, more than chance" if self.significant else "no more than chance"
        values = f"{self.name} {self.value:.4g} and {self.other:.4g}"
        return f"{values}: {ends}, p = {self.p:.4f}: {verdict}"


def paired(name: str, one: Statistic, other: Statistic, samples: int = SAMPLES) -> Difference:
    """One metric of two systems on the same lines."""
    if len(one.rows) != len(other.rows):
        raise UserError(f"{name}: {len(one.rows):,} and {len(other.rows):,} lines are scored")
    value, baseline = one.value(), other.value()
    true, found = value - baseline, one.drawn(samples) - other.drawn(samples)
    found = found[np.isfinite(found)]
    if not len(found):
        raise UserError(f"{name}: too few lines can be scored to draw them anew")
    told = true and len(one.rows) > 1
    as_far = int((np.abs(found - found.mean()) >= abs(true)).sum()) if told else len(found)
    low, high = np.quantile(found, [0.025, 0.975])
    return Difference(
        name=name,
        value=value,
        other=baseline,
        low=float(low),
        high=float(high),
        p=(1 + as_far) / (1 + len(found)),
        higher_is_better=one.score.higher_is_better,
        samples=len(found),
    )


def differences(
    mine: Mapping[str, Statistic], yours: Mapping[str, Statistic], samples: int = SAMPLES
) -> list[Difference]:
    """All metrics that both have."""
    return [paired(name, mine[name], yours[name], samples) for name in mine if name in yours]
