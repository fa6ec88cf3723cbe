"""What is shipped of a model that says how a series goes on."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data import delimiters
from regard.interop import graphs, stand_ins
from regard.interop.loops import Series
from regard.interop.onnx import Graph, far
from regard.interop.shipments import MOST, SAMPLES, Near, Quality, Sessions, Shipment

NEAR = 1e-3
"""How far a forecast may be from the run's, in standardised values: it is the mean over many draws,
and every block is read to predict the next."""


class Numbers(Shipment):
    """What a series does next."""

    program = "forecast"

    @property
    def longest(self) -> int:
        return 2 * int(self.task.window.look_back)

    def graphs(self) -> dict[str, Graph]:
        standard = self.task.past.standard
        by = self.task.by(self.model)
        return {"block": graphs.Numbers(by, standard.mean, standard.deviation)}

    def assemble(self, files: Mapping[str, Path], path: Path) -> None:
        standard, window = self.task.past.standard, self.task.window
        Series(
            names=standard.names,
            look_back=window.look_back,
            horizon=window.horizon,
            noise=self._noise(),
            least=1e-6 * np.asarray(standard.deviation, float),
            reach=self.recipe.task.intervals.reach,
        ).write(files["block"], path)

    def _noise(self) -> NDArray[np.float64]:
        """The draws of futures (N, K, B, C), if a forecast goes on from what it has said itself."""
        window, paths = self.task.window, self.recipe.task.intervals.paths
        blocks = -(-window.horizon // window.steps)
        size = (blocks * window.steps, len(self.task.past.standard.names))
        rows = [torch.zeros(size)]
        for number in range(paths if blocks > 1 else 0):
            rows.append(torch.randn(size, generator=torch.Generator().manual_seed(number)))
        drawn = torch.stack(rows).double().view(len(rows), blocks, window.steps, size[1])
        found: NDArray[np.float64] = drawn.transpose(0, 1).numpy()
        return found

    def save(self, folder: Path) -> None:
        """It reads nothing else."""

    @property
    def code(self) -> str:
        given = self.recipe.task.data.delimiter
        if given == "auto":
            return super().code
        guess = 'max(",;\\t", key=lines[0].count)'
        return super().code.replace(guess, json.dumps(delimiters.character(given)))

    def stand_in(self, sessions: Sessions) -> stand_ins.Forecasts:
        standard = self.task.past.standard
        return stand_ins.Forecasts(
            self.model,
            self.task.window,
            self.task.past.name,
            self.task.by(self.model).restless,
            session=sessions["block"],
            centre=standard.mean,
            spread=standard.deviation,
        )

    def _windows(self, most: int) -> tuple[Any, Any]:
        """Standardised values, and where futures begin; of the training part where there is no
        other."""
        part = "validation" if self.task.plan.has("validation") else "train"
        steps = self.task.window.horizon
        starts = self.task.stored.starts(part, steps)
        if not len(starts):
            part = "train"
            starts = self.task.stored.starts(part, self.task.window.steps)
        chosen = np.linspace(0, len(starts) - 1, min(most, len(starts))).astype(int)
        return self.task.stored.values(part), starts[np.unique(chosen)]

    def near(self, other: stand_ins.Forecasts) -> Near:
        values, starts = self._windows(SAMPLES)
        both = [by.judge(values, starts, self.task.window.steps)
                for by in (self.task.by(self.model), other)]  # fmt: skip
        apart = (
            far(*(getattr(each, name).numpy() for each in both)) for name in ("mean", "deviation")
        )
        return Near(max(apart), "standardised values")

    def inputs(self) -> list[str]:
        """The rows of one series."""
        text, standard = io.StringIO(), self.task.past.standard
        given = self.recipe.task.data.delimiter
        between = "," if given == "auto" else delimiters.character(given)
        table = csv.writer(text, delimiter=between, lineterminator="\n")
        table.writerows([standard.names, *standard.undo(self._known()).tolist()])
        return text.getvalue().split("\n")[:-1]

    def _known(self) -> Any:
        values, starts = self._windows(1)
        return values[starts[0] - self.task.window.look_back : starts[0]]

    def same(self, said: str) -> tuple[int, int]:
        """One series, all of whose numbers are near enough, in units of its deviation."""
        past, intervals = self.task.past, self.recipe.task.intervals
        known = torch.from_numpy(past.standard.apply(past.standard.undo(self._known()), "it"))[None]
        with torch.inference_mode():
            normal = self.task.by(self.model).forecast(
                known, self.task.window.horizon, intervals.paths
            )
        wanted = np.stack(past.ends(*(each[0].numpy() for each in normal), intervals.reach), -1)
        rows = [[*map(float, row[1:])] for row in csv.reader(said.splitlines()[1:])]
        found = np.array(rows).reshape(wanted.shape)
        unit = np.asarray(past.standard.deviation)[:, None]
        return 1, int(far(found / unit, wanted / unit) < NEAR)

    def quality(self, other: stand_ins.Forecasts) -> Quality | None:
        if not self.task.plan.has("validation"):
            return None
        values, starts = self._windows(MOST)
        found = other.judge(values, starts, self.task.window.steps)
        errors = found.by_window(1.0)["mse"].numpy()
        return Quality("mse", errors, np.ones(len(errors)), False)
