"""Forecast: what a series of numbers does next, and how sure that is.

A model reads the last `look_back` steps and predicts a block of steps at once. Where a block is
the whole horizon, the forecast is direct; where it is shorter, the forecast is autoregressive: what
was predicted is read as if it had happened, block after block.
"""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data import batching, clock, series, stored_series, windows
from regard.data.files import called
from regard.data.readers import Report
from regard.data.series import TOLERANCE, Series
from regard.data.standard import Standard
from regard.data.windows import Forecasts, collate, normaliser, unfold
from regard.errors import RecipeError, UserError
from regard.metrics import Direction, Score, bootstrap, perplexity
from regard.model import Model
from regard.plots import series as series_plots
from regard.recipe.config import Recipe
from regard.recipe.parts import Part
from regard.recipe.values import Few, Range, Rows
from regard.tasks import Prediction, check_head, check_positions
from regard.train import health
from regard.types import Batch, Batches, Carry, Terms

PARTS = {"input": "series", "encoder": "rnn", "head": "real"}
SIDES = ("past", "future")
VERSION = "1"
FEWEST = 10
"""Futures that do not overlap, for an interval of a score."""


@dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """How large a batch is."""

    windows: Rows = 32
    """Windows of a batch."""


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Between which ends a value is expected: μ ± z σ."""

    level: Annotated[float, Range(0, 1, open_low=True, open_high=True)] = 0.9
    """The share of values that should lie between them."""
    paths: Few = 100
    """Futures that are drawn for σ of an autoregressive forecast."""

    @property
    def reach(self) -> float:
        """z."""
        return NormalDist().inv_cdf((1 + self.level) / 2)


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
    if not hasattr(reads, "positions"):
        raise RecipeError(f"model.input.kind: {model.input.kind!r} reads no series of numbers")
    check_head(recipe, "numbers")
    if getattr(reads, "patch", 1) > window.look_back:
        raise RecipeError("model.input.patch: a patch is longer than window.look_back")
    if window.independent and not getattr(reads, "project", True) and model.dim != 1:
        raise RecipeError("model.dim: without model.input.project independent variables need dim 1")
    if recipe.train.patience and not config.data.validation:
        raise RecipeError("train.patience: it counts validations, but data.validation is 0")
    why = f"window.look_back = {window.look_back} asks"
    check_positions(recipe, "encoder", reads.positions(window.look_back), why)


def prepare(config: Config, folder: Path, given: Path | None = None) -> Report:
    """Read the series, standardise it by its training part: what training needs into `folder`.

    Mean and deviation of the run `given` are taken instead, if it is there.
    """
    report = Report()
    found = series.read(config.data, report)
    parts = config.data.bounds(len(found.values))
    window = config.window
    for part, (start, end) in parts.items():
        if not getattr(config.data, part):
            continue
        back = window.look_back if part == "train" else 0
        ahead = window.steps if part == "train" else window.horizon
        if end - start < back + ahead:
            raise RecipeError(
                f"data.{part}: {end - start:,} rows are too few for window.look_back = "
                f"{window.look_back} and window.horizon = {window.horizon}"
            )
    standard = Standard.fit(found, parts)
    if given is not None:
        other = Standard.load(given)
        if other.names != found.names:
            raise RecipeError(f"data.variables: {given} has {', '.join(other.names)}")
        standard = replace(other, parts=standard.parts, step=standard.step)
    # The test part stays where it is.
    learnt = found.values[: parts["validation"][1]]
    standard.apply(learnt, config.data.path)
    standard.save(folder)
    (folder / "store").mkdir(exist_ok=True)
    np.save(folder / "store" / "series.npy", learnt, allow_pickle=False)
    return report


class Task:
    """Forecasts whose standardisation and training part lie in a run's folder."""

    predict_options = frozenset({"length"})
    evaluate_options = frozenset({"samples"})
    reads_files = True

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder, self.window = config, folder, config.window
        self.standard = Standard.load(folder)
        self.sizes = self.window.sizes(len(self.standard.names))

    # Windows

    def _values(self, part: str) -> Float[Tensor, "T C"]:
        """The standardised series, up to a part's end at least."""
        return torch.from_numpy(self.standard.apply(self._raw(part)))

    def _raw(self, part: str) -> NDArray[np.float64]:
        """The same in the unit of the file."""
        if part == "test":
            return self._read(self.config.data).values
        return self._stored()

    def _stored(self) -> NDArray[np.float64]:
        """The rows to learn from and to choose by, as they were when the run began."""
        path, end = self.folder / "store" / "series.npy", self.standard.parts["validation"][1]
        return stored_series.rows(path, end, len(self.standard.names))

    def _read(self, config: series.Config) -> Series:
        found = series.read(replace(config, variables=self.standard.names))
        if len(found.values) < self.standard.parts["test"][1]:
            raise UserError(f"{config.path}: it has fewer rows than when the run began")
        stored = self._stored()
        changed = (found.values[: len(stored)] != stored).any(1)
        if changed.any():
            line = found.lines[changed.argmax()]
            raise UserError(
                f"{config.path}:{line}: not what it was when the run began: rows that were learnt "
                "might be scored. Restore the file, or start a new run"
            )
        return found

    def _starts(self, part: str, steps: int) -> NDArray[np.int64]:
        """Where the futures of a part's windows begin: every place where they lie inside it."""
        start, end = self.standard.parts[part]
        starts = np.arange(max(start, self.window.look_back), end - steps + 1)
        if not len(starts):
            raise UserError(f"data.{part}: it has no row, or too few for a window")
        return starts

    def _cut(
        self, values: Float[Tensor, "T C"], starts: NDArray[np.int64], steps: int
    ) -> tuple[Float[Tensor, "B S C"], Float[Tensor, "B {steps} C"]]:
        places = torch.from_numpy(starts)[:, None] + torch.arange(-self.window.look_back, steps)
        both = values[places]
        return both[:, : self.window.look_back], both[:, self.window.look_back :]

    # Learning

    def batches(self, seed: int) -> Batches:
        values, steps = self._values("train"), self.window.steps
        starts = self._starts("train", steps)

        def make(ids: Sequence[int]) -> Batch:
            past, future = self._cut(values, starts[list(ids)], steps)
            return collate(past, future, self.window, ids)

        budget = batching.Config(tokens=self.config.batch.windows)
        return batching.Batches(np.ones((len(starts), 1), np.int64), make, budget, seed)

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """(y − μ)², or −log p(y | x), of the block that follows."""
        memory = model.encode(batch)
        assert memory is not None
        head: Any = model.head
        return head.loss(memory.states, batch["targets"], memory.mask, batch["scale"]), None

    def validate(self, model: Model) -> dict[str, float]:
        """Squared and absolute errors over the horizon; −log p of a block."""
        if not self.config.data.validation:
            return {}
        window, reach = self.window, self.config.intervals.reach
        found = self._judge(model, "validation", window.steps)
        figures = found.figures(reach)
        spread = [float(x.std(0, correction=0).mean()) for x in (found.mean, found.future)]
        if window.steps < window.horizon:
            rolled = self._judge(model, "validation", window.horizon).figures(reach)
            figures |= {name: rolled[name] for name in ("mse", "mae")}
        return {name: figures[name] for name in metrics(self.config)} | health.constant(*spread)

    def calibrate(self, model: Model) -> dict[str, float]:
        """d_j = √mean z_j² with the validation part's z = (y − μ) / σ: the likeliest d."""
        if not self.config.data.validation:
            return {}
        head: Any = model.head
        reach = self.config.intervals.reach
        found = self._judge(model, "validation", self.window.steps)
        shared = (0, 2) if self.window.independent else (0,)
        mean = found.distance().square().mean(shared, keepdim=True)
        factor = mean.sqrt().clamp(min=1e-6)  # (1, T, C), or (1, T, 1)
        with torch.no_grad():
            head.deviation.mul_(factor.flatten().to(head.deviation))
        after = found._replace(deviation=found.deviation * factor)
        before, now = (f.figures(reach)["coverage"] for f in (found, after))
        return {"coverage_before": before, "coverage": now}

    # Forecasts

    def _block(
        self, model: Model, past: Float[Tensor, "B S C"]
    ) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "B T C"]]:
        """μ and σ of the next block."""
        head: Any = model.head
        centre, scale = normaliser(past, self.window.normalise)
        memory = model.encode(collate(past, None, self.window, range(len(past))))
        variables = past.shape[2]
        mean, deviation = (
            unfold(y, self.window, variables) for y in head.normal(head.pool(memory))
        )
        return mean * scale + centre, deviation * scale

    def _roll(
        self,
        model: Model,
        past: Float[Tensor, "B S C"],
        steps: int,
        noise: Float[Tensor, "T C"] | None = None,
    ) -> Float[Tensor, "B {steps} C"]:
        """Block after block, each read to predict the next; with noise, a draw of the future."""
        found: list[Tensor] = []
        for start in range(0, steps, self.window.steps):
            mean, deviation = self._block(model, past)
            if noise is not None:
                mean = mean + deviation * noise[start : start + self.window.steps]
            found.append(mean)
            past = torch.cat([past, mean], 1)[:, -self.window.look_back :]
        return torch.cat(found, 1)[:, :steps]

    def forecast(
        self, model: Model, past: Float[Tensor, "B S C"], steps: int, paths: int
    ) -> tuple[Float[Tensor, "B {steps} C"], Float[Tensor, "B {steps} C"]]:
        """μ and σ of the next steps; for more than a block, σ is that of drawn futures.

        All windows get the same draws, so that none depends on those beside it.
        """
        if steps <= self.window.steps:
            mean, deviation = self._block(model, past)
            return mean[:, :steps], deviation[:, :steps]
        mean = self._roll(model, past, steps)
        squares = torch.zeros_like(mean)
        blocks = -(-steps // self.window.steps)
        for number in range(paths):
            random = torch.Generator().manual_seed(number)
            noise = torch.randn(blocks * self.window.steps, past.shape[2], generator=random)
            drawn = self._roll(model, past, steps, noise.to(past.device))
            squares += (drawn - mean).square()
        return mean, (squares / max(paths, 1)).sqrt().clamp(min=1e-6)

    def _judge(
        self, model: Model, part: str, steps: int, *, paths: int = 0, batch: int = 64
    ) -> Forecasts:
        """Forecasts for every window of a part."""
        model.eval()
        values, starts = self._values(part), self._starts(part, steps)
        rows = []
        with torch.inference_mode():
            for first in range(0, len(starts), batch):
                past, future = self._cut(values, starts[first : first + batch], steps)
                mean, deviation = self.forecast(model, past.to(model.device), steps, paths)
                rows.append((future, mean.cpu(), deviation.cpu()))
        return Forecasts(*(torch.cat(column) for column in zip(*rows, strict=True)))

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
            found = self.parse(text, name)
            past = torch.from_numpy(self.standard.apply(self.last(found, name), name))[None]
            with torch.inference_mode():
                mean, deviation = self.forecast(
                    model, past.to(model.device), steps, self.config.intervals.paths
                )
            yield self._prediction(found, mean[0].cpu(), deviation[0].cpu())

    def parse(self, text: str, name: str, *, timed: bool = True) -> Series:
        """A series in the form of the run's own; `name` is what messages call it. Its times have
        the run's step; without `timed`, they may be left out."""
        wanted = replace(self.config.data, variables=self.standard.names)
        lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
        step = self.standard.step
        return series.parse(lines, wanted, Path(name), Report(), step, timed=timed)

    def both(self, past: str, future: str, names: Sequence[str]) -> tuple[Series, Series]:
        """A series, and what came after it; where both have times, it must be the next step."""
        found, then = (
            self.parse(text, name, timed=False)
            for text, name in zip((past, future), names, strict=True)
        )
        step = found.step or then.step
        if found.last and then.first and step is not None:
            steps = clock.distance(found.last, then.first, step)
            loose = self.config.data.gap == "ignore"
            if steps <= 0 or (abs(steps - 1) > TOLERANCE and not loose):
                what = f"{then.first} does not follow {found.last}, the last time of {names[0]}"
                raise UserError(f"{names[1]}: {what}, by a step of {step}")
        return found, then

    def last(self, found: Series, name: str) -> NDArray[np.float64]:
        """The window that is read: the end of a series; `name` is what messages call it."""
        values = found.values[-self.window.look_back :]
        if len(values) < self.window.look_back:
            raise UserError(
                f"{name}: {len(values)} rows, but the model looks back "
                f"{self.window.look_back} steps"
            )
        return values

    def ends(
        self, mean: Float[Tensor, "T C"], deviation: Float[Tensor, "T C"]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Expected values and both ends of their intervals, in the unit of the file."""
        reach = self.config.intervals.reach * deviation
        middle, low, high = (
            self.standard.undo(x.numpy()) for x in (mean, mean - reach, mean + reach)
        )
        return middle, low, high

    def _prediction(
        self, found: Series, mean: Float[Tensor, "T C"], deviation: Float[Tensor, "T C"]
    ) -> Prediction:
        columns = np.stack(self.ends(mean, deviation), -1)  # (T, C, 3)
        names = [f"{name}{end}" for name in found.names for end in ("", ".low", ".high")]
        times = found.after(len(mean))
        spread = np.repeat(self.standard.deviation, 3)
        rows = [
            [time, *map(_digits, row, spread)]
            for time, row in zip(times, columns.reshape(len(mean), -1), strict=True)
        ]
        return Prediction(text=_table([[self.config.data.time or "step", *names], *rows]))

    def references(self, part: str) -> tuple[list[str], list[str]]:
        """Windows of a part whose futures do not overlap, as CSV."""
        values, steps = torch.from_numpy(self._raw(part)), self.window.horizon
        starts = self._starts(part, steps)[::steps]
        sides: tuple[list[str], list[str]] = ([], [])
        for both in zip(*self._cut(values, starts, steps), strict=True):
            for side, each in zip(sides, both, strict=True):
                rows = [[repr(value).removesuffix(".0") for value in row] for row in each.tolist()]
                side.append(_table([self.standard.names, *rows]))
        return sides

    def evaluate(
        self, model: Model, part: str, search: Part, *, batch: int = 64, samples: int = 0
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Errors on every window of a part, in standardised values, and how many values lie in
        their intervals. The predictions are those of windows whose futures do not overlap; a
        picture of the last one is put into the run's folder. With `samples`, scores have
        bootstrap intervals, where there are enough futures that do not overlap."""
        window, intervals = self.window, self.config.intervals
        found = self._judge(model, part, window.horizon, paths=intervals.paths, batch=batch)
        about = {
            "look_back": window.look_back,
            "horizon": window.horizon,
            "windows": len(found.mean),
            "values": "standardised",
        }
        signature = "|".join(f"{name}:{value}" for name, value in about.items())
        scores = {}
        for name, values in found.by_window(intervals.reach).items():
            level = f"|level:{intervals.level:g}" if name == "coverage" else ""
            low, high = _interval(values.numpy(), window.horizon, samples)
            scores[name] = Score(
                name=name,
                value=float(values.mean()),
                signature=f"{signature}{level}|version:{VERSION}",
                higher_is_better=name == "coverage",
                low=low,
                high=high,
            )
        self._draw(part, found)
        shown = Series(self.standard.names, np.zeros((0, len(self.standard.names))))
        chosen = range(0, len(found.mean), window.horizon)
        return scores, [self._prediction(shown, found.mean[n], found.deviation[n]) for n in chosen]

    def _draw(self, part: str, found: Forecasts) -> None:
        """The last window of a part. A run that is only to be read can still be scored."""
        values, starts = self._values(part), self._starts(part, self.window.horizon)
        past, future = self._cut(values, starts[-1:], self.window.horizon)
        before, after = (self.standard.undo(x[0].numpy()) for x in (past, future))
        ends = self.ends(found.mean[-1], found.deviation[-1])
        with suppress(OSError):
            series_plots.forecast(
                self.standard.names,
                before,
                after,
                *ends,
                self.folder / f"forecast-{part}.png",
                title=f"Forecast and {self.config.intervals.level:.0%} interval",
            )

    def score(
        self, model: Model, pasts: Sequence[str], futures: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """log of the density of each future after its past, in the unit of the file: a number for
        each step, the true steps before its block being given."""
        model.eval()
        unit = math.fsum(np.log(self.standard.deviation))
        for number, (text, then) in enumerate(zip(pasts, futures, strict=True), 1):
            names = [called(text, f"input {number}"), called(then, f"output {number}")]
            before, after = self.both(text, then, names)
            past, future = self.last(before, names[0]), after.values
            known, steps = np.concatenate([past, future]), self.window.steps
            values = torch.from_numpy(self.standard.apply(known, " and ".join(names)))
            values = values.to(model.device)
            found: list[float] = []
            with torch.inference_mode():
                for start in range(0, len(future), steps):
                    window = values[start : start + self.window.look_back][None]
                    true = values[start + self.window.look_back :][:steps]
                    mean, deviation = (x[0, : len(true)] for x in self._block(model, window))
                    found += (-Forecasts(true, mean, deviation).nll().sum(1) - unit).tolist()
            total = math.fsum(found)
            yield {
                "log_prob": total,
                "perplexity": perplexity(-total / len(found)),
                "log_probs": found,
            }


def _interval(
    values: NDArray[np.float64], horizon: int, samples: int
) -> tuple[float | None, float | None]:
    """The 95 % interval of a mean over windows. Windows that share a future are drawn together."""
    blocks = np.array_split(values, len(values) // horizon) if len(values) >= horizon else []
    if not samples or len(blocks) < FEWEST:
        return None, None
    sums, counts = [block.sum() for block in blocks], [len(block) for block in blocks]
    return bootstrap(sums, counts=counts, samples=samples)


def _digits(value: float, spread: float) -> str:
    """Eight digits, or as many more as tell a millionth of the variable's deviation."""
    size = abs(value) / spread
    digits = 6 + math.ceil(math.log10(size)) if 0 < size < math.inf else 0
    return f"{value:.{min(max(8, digits), 17)}g}"


def _table(rows: Any) -> str:
    """CSV without a newline at its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().removesuffix("\n")
