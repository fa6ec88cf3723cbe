"""Forecast: what a series of numbers does next, and how sure that is.

A model reads the last `look_back` steps and predicts a block of steps at once. Where a block is
the whole horizon, the forecast is direct; where it is shorter, the forecast is autoregressive: what
was predicted is read as if it had happened, block after block.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.data import batching, series, windows
from regard.data.files import called
from regard.data.series import Series
from regard.decoding.forecasts import Forecaster, Forecasts, read, sampled
from regard.decoding.intervals import Intervals, conformal
from regard.decoding.prediction import Choose, Sample, scored
from regard.errors import RecipeError
from regard.examples.series import Plan, Stored
from regard.examples.stored import collate
from regard.fields import Draw
from regard.fields.series import Field
from regard.inputs import FixedLength, series as numbers
from regard.inspect.reading import Reading
from regard.metrics import Direction, Score, forecasts as forecast_metrics
from regard.model import Model
from regard.plots import drawing, series as series_plots
from regard.recipe.config import Recipe
from regard.recipe.parts import Part
from regard.recipe.values import Rows
from regard.tasks import Prediction, check_head, check_positions, sizes_of
from regard.train import health
from regard.types import Batch, Batches, Carry, FieldSize, Terms

PARTS = {"input": "series", "encoder": "rnn", "head": "real"}


@dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """How large a batch is."""

    windows: Rows = 32
    """Windows of a batch."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for forecasts, beside the model and the trainer."""

    data: series.Config
    """The series."""
    window: windows.Config
    """How far a model looks."""
    batch: BatchConfig
    """How large a batch is."""
    intervals: Intervals
    """How sure a forecast is."""


def metrics(config: Config) -> dict[str, Direction]:
    return {"nll": "lower", "mse": "lower", "mae": "lower"}


def check(recipe: Recipe) -> None:
    """Refuse what can be known to be wrong before any data is read."""
    config: Config = recipe.task
    model, window, reads = recipe.model, config.window, recipe.model.input.config
    if not isinstance(reads, FixedLength):
        raise RecipeError(f"model.input.kind: {model.input.kind!r} reads no series of numbers")
    check_head(recipe, "numbers")
    own = reads if isinstance(reads, numbers.Config) else numbers.Config()
    if own.patch > window.look_back:
        raise RecipeError("model.input.patch: a patch is longer than window.look_back")
    if window.independent and not own.project and model.dim != 1:
        raise RecipeError("model.dim: without model.input.project independent variables need dim 1")
    if recipe.train.patience and not config.data.validation:
        raise RecipeError("train.patience: it counts validations, but data.validation is 0")
    why = f"window.look_back = {window.look_back} asks"
    size = FieldSize("series", {"length": window.look_back})
    check_positions(recipe, "encoder", reads.fixed_length(size), why)


def plan(config: Config) -> Plan:
    """A series: what was seen of it, and what follows."""
    past = Field("series", config.data, config.window)
    return Plan({"past": past, "future": replace(past, ahead=True)})


class Task:
    """Forecasts whose standardisation and training part lie in a run's folder."""

    predict_options = frozenset({"length"})
    evaluate_options = frozenset({"samples"})
    reads_files = True

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder, self.window = config, folder, config.window
        self.plan = plan(config)
        self.fields = {side: field.load(folder) for side, field in self.plan.fields.items()}
        self.past, self.future = self.fields.values()
        self.stored = Stored(folder, self.past)
        self.restless = config.intervals.width == "window"
        each = self.window.independent and self.restless
        size = {**self.past.size, "groups": len(self.past.standard.names) if each else 1}
        self.sizes = replace(sizes_of(self.fields, "series", "series"), fields={"series": size})

    # Learning

    def batches(self, seed: int) -> Batches:
        values, steps = self.stored.values("train"), self.window.steps
        starts = self.stored.starts("train", steps)

        def make(ids: Sequence[int], draw: Draw) -> Batch:
            rows = self.past.rows(values, starts[list(ids)], steps)
            return collate([self.past, self.future], rows, ids, draw)

        budget = batching.Config(tokens=self.config.batch.windows)
        return batching.Batches(np.ones((len(starts), 1), np.int64), make, budget, seed)

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """(y − μ)², or −log p(y | x), of the block that follows."""
        memory = model.encode(batch)
        assert memory is not None
        head: Any = model.head
        return head.loss(memory.states, batch["targets"], memory.mask, batch["scale"]), None

    def by(self, model: Model) -> Forecaster:
        """What forecasts with a model."""
        return Forecaster(model, self.window, self.past.name, self.restless)

    def judge(
        self, model: Model, part: str, steps: int, *, restless: bool = True, **options: Any
    ) -> Forecasts:
        """Forecasts for every window of a part; `restless` = False: all as wide as each other."""
        values, starts = self.stored.values(part), self.stored.starts(part, steps)
        by = self.by(model) if restless else replace(self.by(model), restless=False)
        return by.judge(values, starts, steps, **options)

    def by_window(self, model: Model, part: str) -> tuple[dict[str, Any], int]:
        """Figures of every window of a part, and how many of them in a row share a future."""
        steps, intervals = self.window.horizon, self.config.intervals
        found = self.judge(model, part, steps, paths=intervals.paths)
        return {n: x.numpy() for n, x in found.by_window(intervals.reach).items()}, steps

    def validate(self, model: Model) -> dict[str, float]:
        """Squared and absolute errors over the horizon; −log p of a block, whose σ nobody has
        calibrated yet."""
        if not self.plan.has("validation"):
            return {}
        window, reach = self.window, self.config.intervals.reach
        found = self.judge(model, "validation", window.steps, restless=False)
        figures = found.figures(reach)
        spread = [float(x.std(0, correction=0).mean()) for x in (found.mean, found.future)]
        if window.steps < window.horizon:
            rolled = self.judge(model, "validation", window.horizon).figures(reach)
            figures |= {name: rolled[name] for name in ("mse", "mae")}
        return {name: figures[name] for name in metrics(self.config)} | health.constant(*spread)

    def samples(self, model: Model, choose: Choose) -> list[Sample]:
        return sampled(self.by(model), self.past, self.stored, choose)

    def calibrate(self, model: Model) -> dict[str, float]:
        """d_j = q_j / z: so that μ ± z σ covers its level of the validation part
        (`decoding/intervals.py`)."""
        if not self.plan.has("validation"):
            return {}
        head: Any = model.head
        shared, intervals = self.window.independent and not self.restless, self.config.intervals
        found, reach = self.judge(model, "validation", self.window.steps), intervals.reach
        far = conformal(found.distance().abs(), intervals.level, shared=shared)
        factor = (far / reach).clamp(min=1e-6)  # (1, T, C), or (1, T, 1)
        with torch.no_grad():
            head.deviation.mul_(windows.fold(factor, self.window).flatten().to(head.deviation))
        after = found._replace(deviation=found.deviation * factor)
        before, now = (f.figures(reach)["coverage"] for f in (found, after))
        return {"coverage_before": before, "coverage": now}

    # Using what was learnt

    def predict(
        self,
        model: Model,
        inputs: Sequence[str],
        search: Part,
        *,
        batch: int = 64,
        length: int | None = None,
        first: int = 0,
    ) -> Iterator[Prediction]:
        """What follows the end of each input: CSV in, with a row for each step, and CSV out.

        For each variable the expected value and the ends of its interval. `length` is another
        number of steps than the horizon; beyond a block, what was predicted is read.
        """
        steps = self.window.horizon if length is None else length
        if steps < 1:
            raise RecipeError(f"length: {steps} must be ≥ 1")
        model.eval()
        for number, text in enumerate(inputs, first + 1):
            if not text.strip():
                yield Prediction(text="", status="empty")
                continue
            name = called(text, f"input {number}")
            found = self.past.parse(text, name, timed=True)
            known = self.past.standard.apply(self.past.last(found, name), name)
            past = torch.from_numpy(known)[None].to(model.device)
            with torch.inference_mode():
                normal = self.by(model).forecast(past, steps, self.config.intervals.paths)
            yield self._prediction(found, *(each[0].cpu() for each in normal), like=text)

    def _prediction(
        self, found: Series, *normal: Float[Tensor, "T C"], like: str = ""
    ) -> Prediction:
        mean, deviation = (each.numpy() for each in normal)
        ends = self.past.ends(mean, deviation, self.config.intervals.reach)
        return Prediction(text=self.past.show_forecast(found, *ends, like=like))

    def references(self, part: str) -> tuple[list[str], list[str]]:
        """Windows of a part whose futures do not overlap, as CSV."""
        steps, back = self.window.horizon, self.window.look_back
        starts = self.stored.starts(part, steps)[::steps]
        cut = self.window.cut(self.stored.raw(part), starts, steps)
        names = self.past.standard.names
        pasts, futures = (
            [self.past.show(Series(names, values)) for values in side]
            for side in (cut[:, :back], cut[:, back:])
        )
        return pasts, futures

    def evaluate(
        self, model: Model, part: str, search: Part, *, batch: int = 64, samples: int = 0
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Errors on every window of a part, in standardised values, and how many lie in their
        intervals; predictions of windows whose futures do not overlap, and a picture of the last in
        the run's folder. With `samples`, scores have bootstrap intervals, if there are enough."""
        window, intervals = self.window, self.config.intervals
        found = self.judge(model, part, window.horizon, paths=intervals.paths, batch=batch)
        figures = {name: x.numpy() for name, x in found.by_window(intervals.reach).items()}
        scores = forecast_metrics.scores(
            figures,
            look_back=window.look_back,
            horizon=window.horizon,
            level=intervals.level,
            samples=samples,
        )
        self._draw(part, found)
        shown = Series(self.past.standard.names, np.zeros((0, found.mean.shape[2])))
        chosen = range(0, len(found.mean), window.horizon)
        return scores, [self._prediction(shown, found.mean[n], found.deviation[n]) for n in chosen]

    def _draw(self, part: str, found: Forecasts) -> None:
        """The last window of a part. A run that is only to be read can still be scored."""
        back, intervals, standard = self.window.look_back, self.config.intervals, self.past.standard
        starts = self.stored.starts(part, self.window.horizon)[-1:]
        [last] = self.window.cut(self.stored.values(part), starts, self.window.horizon)
        _, mean, deviation = (each[-1] for each in found)
        with suppress(OSError):
            figure = series_plots.forecast(
                standard.names,
                standard.undo(last[:back]),
                standard.undo(last[back:]),
                *self.past.ends(mean.numpy(), deviation.numpy(), intervals.reach),
                title=f"Forecast and {intervals.level:.0%} interval",
            )
            drawing.save(figure, self.folder / f"forecast-{part}.png")

    def score(
        self, model: Model, pasts: Sequence[str], futures: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """log of the density of each future after its past, in the unit of the file: a number for
        each step, the true steps before its block being given."""
        unit = math.fsum(np.log(self.past.standard.deviation))
        for number, (text, then) in enumerate(zip(pasts, futures, strict=True), 1):
            names = [called(text, f"input {number}"), called(then, f"output {number}")]
            before, after = self.past.both(text, then, names)
            known = np.concatenate([self.past.last(before, names[0]), after.values])
            values = torch.from_numpy(self.past.standard.apply(known, " and ".join(names)))
            yield scored([d - unit for d in self.by(model).log_densities(values.to(model.device))])

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        """What follows a series (CSV), and a target, if given, is what came."""
        came, name = None, called(text, "input 1")
        if target is None:
            found = self.past.parse(text, name)
        else:
            found, then = self.past.both(text, target, (name, called(target, "target")))
            came = then.values
        return read(
            self.by(model), self.past, self.future, found, came, name, self.config.intervals
        )
