"""A series as a model reads it, and what the model expects to follow."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.series import Series
from regard.data.windows import normaliser
from regard.decoding.forecasts import Forecaster
from regard.fields.series import Field, Values
from regard.inspect.reading import Measure, Reading
from regard.types import Batch


def read(
    by: Forecaster,
    past: Field,
    future: Field,
    found: Series,
    came: Values | None,
    *,
    name: str,
    reach: float,
    paths: int,
) -> Reading:
    """What follows a series, and what came, if that is given; `name` is what messages call it,
    intervals are μ ± reach · σ.

    Where each variable is a series of its own, it is the last one that is looked at.
    """
    window, names, known = by.window, list(found.names), past.last(found, name)
    values = torch.from_numpy(past.standard.apply(known, name))[None].to(by.model.device)
    with torch.inference_mode():
        normal = by.forecast(values, window.horizon, paths)
    mean, deviation = (each[0].cpu().numpy() for each in normal)
    ends = past.ends(mean, deviation, reach)
    row = {past.name: known}
    said, seen = future.positions(row), names[-1:] if window.independent else names
    return Reading(
        text=f"{window.look_back} steps of {', '.join(names)}",
        output=f"{names[-1]}: {', '.join(f'{value:.4g}' for value in ends[0][:5, -1])} …",
        batch=_last(by.batch(values)) if window.independent else by.batch(values),
        source=positions(by, past.positions(row)),
        said=said,
        symbols=[len(seen) - 1] * len(said),
        name=lambda numbers: seen,
        measure=_means(by, past, values),
        said_words=[(n, n + 1) for n in range(len(said))],
        numbers=_panels(names, known[-3 * window.horizon :], ends, came),
    )


def _panels(
    names: list[str], known: Values, ends: tuple[Values, ...], came: Values | None
) -> list[dict[str, Any]]:
    """The picture of each variable."""
    lines = dict(zip(("past", "mean", "low", "high"), (known, *ends), strict=True))
    if came is not None:
        lines["came"] = came[: len(ends[0])]
    columns = ({key: line[:, n].tolist() for key, line in lines.items()} for n in range(len(names)))
    return [{"name": name} | each for name, each in zip(names, columns, strict=True)]


def _last(batch: Batch) -> Batch:
    """The last of the windows alone."""
    tensors = {name: tensor[-1:] for name, tensor in batch.tensors.items()}
    return Batch(tensors=tensors, ids=(0,), targets=0)


def _means(by: Forecaster, past: Field, values: Float[Tensor, "1 S C"]) -> Measure:
    """Expected values of the next block, in the unit of the file."""
    steps, seen = by.window.steps, past.size["variables"]
    normalised = [x[..., -seen:] for x in normaliser(values, by.window.normalise)]
    standard = [
        torch.tensor(x[-seen:]).float() for x in (past.standard.mean, past.standard.deviation)
    ]

    def measure(scores: Float[Tensor, "B O"]) -> Float[Tensor, "B T C"]:
        centre, scale = normalised
        mean = scores.float()[:, : steps * seen].view(-1, steps, seen) * scale + centre
        offset, deviation = (x.to(mean.device) for x in standard)
        found: Tensor = mean * deviation + offset
        return found

    return measure


def positions(by: Forecaster, steps: list[str]) -> list[str]:
    """The steps that each position of the model's input holds."""
    reads: Any = by.model.input
    spans = reads.config.spans(len(steps))
    return [" … ".join(dict.fromkeys((steps[first], steps[end - 1]))) for first, end in spans]
