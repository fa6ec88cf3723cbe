"""A validation while training: its figures, whether the weights are the best, what looks wrong."""

import math
from contextlib import ExitStack
from typing import Any

from regard.errors import UserError
from regard.train import health
from regard.train.job import Job
from regard.train.progress import Progress


def validate(job: Job, progress: Progress) -> bool:
    """Whether the present weights are better than all before them. All ranks
    have the figures of rank 0."""
    job.objective.eval()
    job.group.doing = "a validation"
    figures = dict(job.group.first(job.validate()))
    if figures and job.config.metric not in figures:
        raise UserError(
            f"train.metric: {job.config.metric!r} is not a figure of this task's validation; "
            f"there are {', '.join(figures)}"
        )
    samples = job.sample() if figures and job.group.rank == 0 else {}
    progress.validated = progress.update
    if not figures:
        return False
    warnings = _examine(progress, figures)
    value = figures[job.config.metric]
    progress.scores[str(progress.update)] = value
    better = math.isfinite(value) and (
        progress.best is None
        or (value < progress.best if job.lower_is_better else value > progress.best)
    )
    if better:
        progress.best, progress.best_update, progress.stale = value, progress.update, 0
    else:
        progress.stale += 1
    place = {"update": progress.update, "tokens": progress.tokens}
    _record_all(
        job,
        {"kind": "validation", **place, **figures},
        *([{"kind": "samples", "update": progress.update, **samples}] if samples else []),
        *({"kind": "warning", "update": progress.update, "text": text} for text in warnings),
    )
    return better


def _record_all(job: Job, *records: dict[str, Any]) -> None:
    """Records that belong together. Where somebody who is given one fails, the others are recorded
    nevertheless: what is validated is saved then, and would never be recorded again."""
    with ExitStack() as stack:
        for record in reversed(records):  # the last one in is the first to be called
            stack.callback(job.record, record)


def _examine(progress: Progress, figures: dict[str, float]) -> list[str]:
    """What is wrong for the second validation in a row, in plain words; takes the shares of
    degenerate outputs out of the figures."""
    lowest, then = progress.lowest, progress.then
    found = health.signs(figures, progress.loss, lowest, then)
    progress.signs = {sign: progress.signs.get(sign, 0) + 1 for sign in found}
    for share in health.MEANING:
        figures.pop(share, None)
    loss = health.loss(figures)
    if loss is not None and loss < (math.inf if lowest is None else lowest):
        progress.lowest, progress.then = loss, progress.loss
    return [text for sign, text in found.items() if progress.signs[sign] == health.TWICE]
