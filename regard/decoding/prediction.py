"""What a model makes of one input."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One output for one input."""

    text: str
    """What was predicted; empty for an empty input, if the task needs one."""
    status: str = "ok"
    """ok; empty (nothing came in); cut (the input was too long); capped (no end was reached);
    unknown (the input has what the model has never seen)."""
    score: float = 0.0
    """log-probability, normalised by length as the search says."""
    tokens: list[str] = field(default_factory=list)
    """The tokens, as a person reads them; the end of the sequence is one."""
    log_probs: list[float] = field(default_factory=list)
    """log-probability of each token."""
    source: list[str] = field(default_factory=list)
    """The input's tokens."""
    alignment: list[int] = field(default_factory=list)
    """For each token, which of the input's tokens it looked at most."""
    alternatives: list[dict[str, Any]] = field(default_factory=list)
    """The n best, the first included, if more than one was asked for."""
    probabilities: dict[str, float] = field(default_factory=dict)
    """Of every label, where labels are predicted."""

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ([], {})}
