"""What a model expects to follow a series: a block at once, or block after block."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data import clock
from regard.data.series import Series
from regard.data.windows import Config, fold, normaliser, unfold
from regard.decoding.intervals import Intervals, restlessness
from regard.decoding.prediction import Choose, Sample
from regard.decoding.shared_work import shared
from regard.examples.series import Stored
from regard.fields.series import Field, Values
from regard.heads.real import surprise
from regard.inspect.reading import Measure, Reading
from regard.model import Model
from regard.types import Batch, float64


@dataclass(frozen=True)
class Forecaster:
    """A model of a series, which reads `window.look_back` steps and predicts a block of them.

    All values are standardised.
    """

    model: Model
    window: Config
    name: str = "series"
    """Of the tensor that the model reads."""
    restless: bool = False
    """Whether σ is in proportion to how restless each window is."""

    def batch(self, past: Float[Tensor, "B S C"]) -> Batch:
        """Windows as the model reads them, each normalised by itself."""
        centre, scale = normaliser(past, self.window.normalise)
        tensors = {self.name: fold((past - centre) / scale, self.window)}
        return Batch(tensors=tensors, ids=tuple(range(len(past))), targets=0)

    def block(
        self, past: Float[Tensor, "B S C"]
    ) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "B T C"]]:
        """μ and σ of the next block."""
        head: Any = self.model.head
        centre, scale = normaliser(past, self.window.normalise)
        memory = self.model.encode(self.batch(past))
        variables = past.shape[2]
        mean, deviation = (
            unfold(y, self.window, variables) for y in head.normal(head.pool(memory))
        )
        unit = restlessness(past) if self.restless and not head.gaussian else scale
        return mean * scale + centre, deviation * unit

    def roll(
        self,
        past: Float[Tensor, "B S C"],
        steps: int,
        noise: Float[Tensor, "T C"] | None = None,
    ) -> Float[Tensor, "B {steps} C"]:
        """Block after block, each read to predict the next; with noise, a draw of the future."""
        found: list[Tensor] = []
        for start in range(0, steps, self.window.steps):
            mean, deviation = self.block(past)
            if noise is not None:
                mean = mean + deviation * noise[start : start + self.window.steps]
            found.append(mean)
            past = torch.cat([past, mean], 1)[:, -self.window.look_back :]
        return torch.cat(found, 1)[:, :steps]

    def forecast(
        self, past: Float[Tensor, "B S C"], steps: int, paths: int
    ) -> tuple[Float[Tensor, "B {steps} C"], Float[Tensor, "B {steps} C"]]:
        """μ and σ of the next steps; for more than a block, σ is that of drawn futures.

        All windows get the same draws, so that none depends on those beside it.
        """
        if steps <= self.window.steps:
            mean, deviation = self.block(past)
            return mean[:, :steps], deviation[:, :steps]
        mean = self.roll(past, steps)
        squares = torch.zeros_like(mean)
        blocks = -(-steps // self.window.steps)
        for number in range(paths):
            random = torch.Generator().manual_seed(number)
            noise = torch.randn(blocks * self.window.steps, past.shape[2], generator=random)
            drawn = self.roll(past, steps, noise.to(past.device))
            squares += (drawn - mean).square()
        return mean, (squares / max(paths, 1)).sqrt().clamp(min=1e-6)

    def judge(
        self,
        values: NDArray[Any],
        starts: NDArray[Any],
        steps: int,
        *,
        paths: int = 0,
        batch: int = 64,
    ) -> "Forecasts":
        """Forecasts of so many steps for every window of a series (T, C) whose future begins at one
        of `starts`."""
        self.model.eval()
        back = self.window.look_back

        def windows(first: int) -> Tensor:
            return torch.from_numpy(self.window.cut(values, starts[first : first + batch], steps))

        def each(first: int) -> list[NDArray[Any]]:
            past = windows(first)[:, :back].to(self.model.device)
            return [x.cpu().numpy() for x in self.forecast(past, steps, paths)]

        firsts = range(0, len(starts), batch)
        with torch.inference_mode():
            told = shared(firsts, each)
        future = torch.cat([windows(first)[:, back:] for first in firsts])
        mean, deviation = (
            torch.cat([torch.from_numpy(x) for x in column]) for column in zip(*told, strict=True)
        )
        return Forecasts(future, mean, deviation)

    def log_densities(self, values: Float[Tensor, "N C"]) -> Iterator[float]:
        """log p of each step after the first `look_back` ones, the true steps before its block
        being given."""
        self.model.eval()
        steps, back = self.window.steps, self.window.look_back
        for start in range(0, len(values) - back, steps):
            true = values[start + back :][:steps]
            with torch.inference_mode():
                normal = self.block(values[start : start + back][None])
                mean, deviation = (x[0, : len(true)] for x in normal)
                found = -Forecasts(true, mean, deviation).nll().sum(1)
            yield from found.tolist()


FEW = 5
"""Values of a series that are shown."""


def sampled(by: Forecaster, past: Field, stored: Stored, choose: Choose) -> list[Sample]:
    """A few values of the first variable: before some futures of the validation part, of them, and
    what is forecast."""
    starts, values = stored.starts("validation", by.window.horizon), stored.values("validation")
    chosen = starts[choose(len(starts))]
    found = by.judge(values, chosen, min(FEW, by.window.steps))
    before = by.window.cut(values, chosen, 0)[:, -FEW:]
    name, undo = past.standard.names[0], past.standard.undo

    def shown(window: Any) -> str:
        return ", ".join(f"{value:.4g}" for value in undo(window)[:, 0])

    return [
        Sample(f"{name} … {shown(seen)}", shown(future.numpy()), shown(mean.numpy()))
        for seen, future, mean in zip(before, found.future, found.mean, strict=True)
    ]


class Forecasts(NamedTuple):
    """What came, what was expected, and how surely, in standardised values."""

    future: Float[Tensor, "*N T C"]
    mean: Float[Tensor, "*N T C"]
    deviation: Float[Tensor, "*N T C"]

    def distance(self) -> Float[Tensor, "*N T C"]:
        """z = (y − μ) / σ."""
        return float64(self.future - self.mean) / float64(self.deviation)

    def nll(self) -> Float[Tensor, "*N T C"]:
        """−log N(y; μ, σ²)."""
        return surprise(float64(self.future - self.mean), float64(self.deviation))

    def figures(self, reach: float) -> dict[str, float]:
        """Means over all windows, steps and variables; coverage: how many lie in μ ± reach · σ."""
        return {name: float(each.mean()) for name, each in self.by_window(reach).items()}

    def by_window(self, reach: float) -> dict[str, Float[Tensor, " N"]]:
        """The same figures of each window."""
        error = float64(self.future - self.mean)
        found = {
            "mse": error.square(),
            "mae": error.abs(),
            "nll": self.nll(),
            "coverage": (self.distance().abs() <= reach).double(),
        }
        return {name: values.flatten(-2).mean(-1) for name, values in found.items()}


# As the viewer shows them


def read(
    by: Forecaster,
    past: Field,
    future: Field,
    found: Series,
    came: Values | None,
    name: str,
    intervals: Intervals,
) -> Reading:
    """What follows a series, and what came, if that is given; `name` is what messages call it.

    Where each variable is a series of its own, it is the last one that is looked at.
    """
    window, names, known = by.window, list(found.names), past.last(found, name)
    values = torch.from_numpy(past.standard.apply(known, name))[None].to(by.model.device)
    with torch.inference_mode():
        normal = by.forecast(values, window.horizon, intervals.paths)
    mean, deviation = (each[0].cpu().numpy() for each in normal)
    ends = past.ends(mean, deviation, intervals.reach)
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
        numbers=_panels(found, known[-3 * window.horizon :], ends, came),
    )


def _panels(
    found: Series, known: Values, ends: tuple[Values, ...], came: Values | None
) -> list[dict[str, Any]]:
    """The picture of each variable, and the times of its past and future, if the file has any."""
    lines = dict(zip(("past", "mean", "low", "high"), (known, *ends), strict=True))
    if came is not None:
        lines["came"] = came[: len(ends[0])]
    times = _times(found, len(known), len(ends[0]))
    return [
        {"name": name, "times": times} | {key: line[:, n].tolist() for key, line in lines.items()}
        for n, name in enumerate(found.names)
    ]


def _times(found: Series, known: int, ahead: int) -> list[str] | None:
    """The last times that are known, and those that follow; None where the file has none."""
    if not found.last or found.step is None:
        return None
    return [clock.add(found.last, found.step, n) for n in range(1 - known, ahead + 1)]


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
