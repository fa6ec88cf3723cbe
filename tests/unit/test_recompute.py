"""Activation checkpointing: the same update to the last bit, in less memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import RecipeError
from regard.layers.recompute import Recomputing
from regard.recipe.config import from_table
from regard.runs import Run
from regard.runs.training import new_job
from regard.train import device, loop
from regard.train.progress import Progress
from tests import corpus

BLOCKS = {"layers": 3, "heads": 2, "feedforward": 32, "dropout": 0.3}
MODELS: dict[str, dict[str, Any]] = {
    "translate": {"encoder": BLOCKS, "decoder": BLOCKS},
    "language_model": {"decoder": {"kind": "transformer", **BLOCKS}},
    "masked_language_model": {"encoder": BLOCKS},
}


def job_of(folder: Path, task: str, model: dict[str, Any], *, twice: bool, threads: int = 1) -> Any:
    corpus.write(folder, train=30, validation=5, test=5)
    files = ["source", "target"] if task == "translate" else ["target"]
    table = {
        "task": task,
        "data": {part: [str(folder / f"{part}.{f}") for f in files] for part in ("train",)},
        "tokenizer": {"kind": "word"},
        "model": {"dim": 16, **model},
        "train": {"precision": "float32", "device": "cpu", "activation_checkpointing": twice},
    }
    if task == "language_model":
        table["unit"] = "line"
    made = folder / f"run-{twice}"
    run = Run(made) if made.exists() else Run.create(made, from_table(table))
    settings = replace(device.settle(run.recipe.train), threads=threads)
    return new_job(run, run.task, settings)[0]


def after_three_updates(job: Any) -> list[torch.Tensor]:
    state = loop.begin(job, Progress())
    for _ in range(3):
        loop.step(job, state)
    state.team.close()
    return [parameter.detach() for parameter in job.objective.parameters()]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("task", MODELS)
def test_the_same_update(tmp_path: Path, task: str, threads: int) -> None:
    once, twice = (
        job_of(tmp_path, task, MODELS[task], twice=twice, threads=threads)
        for twice in (False, True)
    )
    blocks = [m for m in twice.objective.modules() if isinstance(m, Recomputing)]
    assert blocks and all(block.recompute for block in blocks)
    for mine, theirs in zip(after_three_updates(once), after_three_updates(twice), strict=True):
        assert torch.equal(mine, theirs)


def test_blocks_are_computed_twice_and_need_less(tmp_path: Path) -> None:
    calls, kept = [], []
    for twice in (False, True):
        job, seen = job_of(tmp_path, "translate", MODELS["translate"], twice=twice), list[str]()
        for module in job.objective.modules():
            if isinstance(module, Recomputing):
                network: Any = module.feedforward
                network.register_forward_hook(lambda *_, seen=seen: seen.append("once"))
        state = loop.begin(job, Progress())
        kept.append(state.memory._kept(job.batches.at(Progress().position)))
        loop.step(job, state)
        state.team.close()
        calls.append(len(seen))
    assert calls[1] - calls[0] == 6, "each of six blocks, once more"
    assert kept[1] < 0.6 * kept[0]


def test_a_model_without_blocks_is_refused(tmp_path: Path) -> None:
    rnn = {"decoder": {"kind": "rnn", "cell": "lstm", "layers": 1}}
    with pytest.raises(RecipeError, match="activation_checkpointing: no part of this model"):
        job_of(tmp_path, "language_model", rnn, twice=True)
