"""Which checkpoints are kept, and the final model that is made of them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from regard import plots
from regard.errors import UserError, advised
from regard.model import build
from regard.plots import drawing
from regard.recipe.config import Recipe
from regard.runs.run import Run
from regard.tasks import Calibrates, metrics
from regard.train import checkpoint
from regard.train.checkpoint import Checkpoint
from regard.train.log import Callback, tell
from regard.train.progress import Progress

REMOVE = "Put it back from a copy, or remove that folder and resume: the others are used"
"""What to do about a checkpoint that training cannot go on with."""


def prune(run: Run, progress: Progress) -> None:
    """Remove the checkpoints that the recipe does not keep."""
    settings = run.recipe.train
    found = checkpoint.checkpoints(run.checkpoints)
    there = {c.update for c in found}
    kept = {progress.update, progress.best_update, *_last(run, progress, there, settings.keep)}
    if settings.average_of == "best":
        kept |= set(_best(run, progress, there, settings.average))
    for old in found:
        if old.update not in kept:
            with suppress(PermissionError):  # somebody reads it (Windows): it goes the next time
                checkpoint.remove(old.folder)


def _last(run: Run, progress: Progress, there: set[int], count: int) -> list[int]:
    """The last updates that the recipe saves. An interruption saves another, which does not count:
    the final model is the same with and without it."""
    planned = [u for u in sorted(there) if u % run.recipe.train.save_every == 0]
    if progress.finished and progress.update in there.difference(planned):
        planned.append(progress.update)
    return planned[-count:]


def lower_is_better(recipe: Recipe) -> bool:
    return metrics(recipe)[recipe.train.metric] == "lower"


def _best(run: Run, progress: Progress, there: set[int], count: int) -> list[int]:
    """The updates with the best validation, best first, among those that the recipe saves."""
    sign = 1 if lower_is_better(run.recipe) else -1
    best, scored = math.inf, {}
    for update, value in ((int(u), sign * v) for u, v in progress.scores.items()):
        planned = update % run.recipe.train.save_every == 0 or value < best
        if update in there and planned and math.isfinite(value):
            scored[update] = value
        best = min(best, value)
    return sorted(scored, key=lambda u: (scored[u], u))[:count]


def finish(run: Run, progress: Progress, callbacks: Iterable[Callback], on: torch.device) -> None:
    """Write the final model and the curves."""
    settings = run.recipe.train
    there = {c.update: c for c in checkpoint.checkpoints(run.checkpoints)}
    damaged = {update: fault for update, c in there.items() if (fault := c.fault())}
    final = Checkpoint(run.folder / "model")
    kept = bool(damaged) and not final.fault() and final.standing().update == progress.update
    what = "the final model stays as it is" if kept else "left out of the final model"
    for update, fault in damaged.items():
        text = f"{there.pop(update).folder}: {fault}: {what}"
        tell(callbacks, {"kind": "warning", "text": text})
    if kept:
        return
    best = _best(run, progress, set(there), settings.average or 1)
    last = _last(run, progress, set(there), settings.average or 1)
    chosen = last if settings.average and settings.average_of == "last" else best or last
    with advised(REMOVE):
        mean = checkpoint.average([there[update] for update in chosen])
    weights, figures = _calibrated(run, mean, on)
    notes = {"mean_of": chosen} | ({"calibration": figures} if figures else {})
    checkpoint.save(run.folder / "model", weights, progress.as_dict() | notes, run=run.files)
    records = [r for r in run.records() if r.get("kind") in ("train", "validation")]
    try:
        draw(run.folder, records)
    except (OSError, UserError) as error:  # the model is what matters, and it is there
        tell(callbacks, {"kind": "warning", "text": f"no picture of the curves: {error}"})


def draw(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Pictures of the curves, for a page and for a printer."""
    for suffix in ("png", "svg"):
        drawing.save(plots.curves(records), folder / f"curves.{suffix}")


def _calibrated(
    run: Run, weights: dict[str, torch.Tensor], on: torch.device
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """The final weights with what validation decides last, such as a temperature; its figures."""
    task = run.task
    if not isinstance(task, Calibrates):
        return weights, {}
    model = build(run.recipe.model, task.sizes).to(on)
    checkpoint.put_weights(model, weights, "the final model")
    figures = task.calibrate(model.eval())
    return checkpoint.weights_of(model), figures
