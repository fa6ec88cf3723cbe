"""A batch that does not fit is split, and the update is the same."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import runs
from regard.errors import UserError
from regard.model import build
from regard.recipe import config
from regard.runs import Run
from regard.train import budget, loop, memory, optimizer, schedule
from regard.train.job import Config, Job, Objective
from regard.train.memory import Memory
from regard.train.progress import Progress
from regard.types import Position
from tests.fault import tiny
from tests.fault.conftest import Amount, Tally

CLASSIFY = """\
task = "classify"
[data]
train = ["train.tsv"]
[tokenizer]
kind = "word"
[labels]
weights = "balanced"
[batch]
tokens = 40
[model]
dim = 8
encoder = { kind = "rnn", layers = 1 }
head = { pooling = "attention" }
"""
TAG = """\
task = "tag"
[data]
train = ["train.txt"]
[tokenizer]
kind = "word"
[batch]
tokens = 40
[model]
dim = 8
encoder = { kind = "rnn", layers = 1 }
head = { crf = true }
"""
FORECAST = """\
task = "forecast"
[data]
file = "series.csv"
[window]
look_back = 6
horizon = 3
independent = true
normalise = "window"
[batch]
windows = 8
[model]
dim = 8
"""


def written(kind: str, folder: Path) -> Path:
    """A small recipe of the kind, with its data."""
    if kind in tiny.KINDS:
        return tiny.write(kind, folder)
    folder.mkdir()
    words = ["ka", "lo", "mi", "nu"]
    texts = [" ".join(words[(n + k) % 4] for k in range(1 + n % 5)) for n in range(24)]
    rows = [f"{words[n % 3]}\t{text}\n" for n, text in enumerate(texts)]
    (folder / "train.tsv").write_text("".join(rows))
    tagged = ["".join(f"{w} {w[0].upper()}\n" for w in text.split()) + "\n" for text in texts]
    (folder / "train.txt").write_text("".join(tagged))
    values = [f"{n},{math.sin(n):.4f},{n % 7}\n" for n in range(60)]
    (folder / "series.csv").write_text("".join(["time,a,b\n", *values]))
    recipe = folder / "recipe.toml"
    recipe.write_text({"classify": CLASSIFY, "tag": TAG, "forecast": FORECAST}[kind])
    return recipe


@pytest.fixture(scope="module", params=[*tiny.KINDS, "classify", "tag", "forecast"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp(request.param)
    recipe = written(request.param, folder / "data")
    changes = ["train.threads=1", "train.precision=float32", "train.device=cpu"]
    return Run.create(folder / "run", config.load(recipe, changes))


def trained(
    run: Run, limit: Callable[[Memory, Any], float], dtype: torch.dtype
) -> tuple[Tensor, list[int], list[dict[str, Any]]]:
    """Weights after three updates of two batches each by plain descent without dropout, and how
    many parts each batch had."""
    task = run.task
    torch.manual_seed(3)
    model = build(run.recipe.model, task.sizes).to(dtype)
    for module in model.modules():
        for name in vars(module):
            if name == "p" or (name.endswith("dropout") and isinstance(vars(module)[name], float)):
                setattr(module, name, 0.0)
            if name == "precision":
                setattr(module, name, dtype)
    if getattr(task, "_weights", None) is not None:
        task._weights = task._weights.astype("f8" if dtype is torch.float64 else "f4")  # type: ignore
    batches, records, counts = _as(task.batches(1), dtype), list[dict[str, Any]](), list[int]()
    objective = Objective(model, task.loss)
    job = Job(
        objective=objective,
        batches=batches,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        config=Config(
            updates=3,
            accumulate=2,
            validate_every=0,
            optimizer=optimizer.Config(learning_rate=0.1),
            schedule=schedule.Config(kind="constant", warmup=0),
        ),
        seed=1,
        dim=8,
        device=torch.device("cpu"),
        record=records.append,
        limit=limit(Memory(objective), batches),
    )
    with pytest.MonkeyPatch.context() as patch:
        real = Memory.parts

        def parts(self: Memory, *given: Any) -> Any:
            found = real(self, *given)
            counts.append(len(found[0]))
            return found

        patch.setattr(Memory, "parts", parts)
        loop.fit(job, Progress())
    return torch.cat([p.detach().flatten() for p in model.parameters()]), counts, records


def _as(batches: Any, dtype: torch.dtype) -> Any:
    """The same batches with numbers of another precision."""
    real = batches.at

    def at(position: Position, *rows: Any) -> Any:
        batch = real(position, *rows)
        tensors = {n: t.to(dtype) if t.is_floating_point() else t for n, t in batch.tensors.items()}
        return replace(batch, tensors=tensors)

    batches.at = at
    return batches


def one_row(meter: Memory, batches: Any) -> float:
    """As much as a single example of any of the first batches takes."""
    found, position = 0.0, Position()
    for _ in range(12):
        fixed, each = meter._need(batches.at(position))
        found, position = max(found, fixed + each), batches.after(position)
    return 1.001 * found


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_split_is_whole(run: Run, dtype: torch.dtype, tolerance: float, tally: Tally):
    """Also what running text hands on from batch to batch."""
    whole, counts, records = trained(run, lambda *_: math.inf, dtype)
    assert counts == [1] * 6
    parts, split, again = trained(run, one_row, dtype)
    assert sum(split) > 12, "nearly every batch is split"
    scale = 1.0 if dtype == torch.float64 else float(whole.norm())
    assert float((whole - parts).abs().max()) < tolerance * scale
    assert records[-1]["tokens"] == again[-1]["tokens"]
    key = "nll" if "nll" in records[-1] else "mse"
    assert again[-1][key] == pytest.approx(records[-1][key], rel=1e-4)
    tally("split batches, the update as of the whole", sum(n > 1 for n in split))


def test_the_measure_is_that_of_the_whole_batch(run: Run):
    """need(n) from one and four rows is what n rows keep; and is the same each time."""
    task = run.task
    model = build(replace(run.recipe.model, dim=64), task.sizes)  # kernels round small sizes up
    batch = task.batches(1).at(Position())
    meter, again = (Memory(Objective(model, task.loss)) for _ in range(2))
    fixed, each = meter._need(batch)
    whole = memory.MARGIN * meter._kept(memory._first(batch, len(batch)))
    assert fixed + len(batch) * each == pytest.approx(whole, rel=0.2)
    assert again._need(batch) == (fixed, each)


def tight(run: Run, room: float) -> float:
    """GB of the whole run that leave `room` bytes for a batch."""
    model = build(run.recipe.model, run.task.sizes)
    return (budget.STATE * sum(p.numel() for p in model.parameters()) + room) / budget.GB


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_batches_over_the_budget(
    kind: str, tmp_path: Path, amount: Amount, tally: Tally, monkeypatch: pytest.MonkeyPatch
):
    """No run is broken off; with dropout, and stopped and resumed, it stays exact."""
    recipe = tiny.write(kind, tmp_path / "data")
    first = Run.create(tmp_path / "first", config.load(recipe))
    objective = Objective(build(first.recipe.model, first.task.sizes), first.task.loss)
    room = one_row(Memory(objective), first.task.batches(3))
    split = list[int]()
    real = Memory.parts

    def parts(self: Memory, *given: Any) -> Any:
        found = real(self, *given)
        split.append(len(found[0]))
        return found

    monkeypatch.setattr(Memory, "parts", parts)
    updates = amount(12, 60)
    changes = (f"train.memory={tight(first, room)}", f"train.updates={updates}")
    whole = regard.train(recipe, *changes, to=tmp_path / "whole").run
    over = sum(n > 1 for n in split)
    assert over >= amount(10, 50)
    assert whole.find("last").progress()["finished"]
    stop = iter(range(7))

    def interrupt(progress: Progress) -> None:
        if next(stop, None) == 6:
            raise KeyboardInterrupt

    run = Run.create(tmp_path / "run", config.load(recipe, changes))
    with pytest.raises(KeyboardInterrupt):
        runs.train(run, tick=interrupt)
    regard.train(resume=run.folder)
    assert tiny.outcome(run.folder) == tiny.outcome(whole.folder)
    tally("batches over the budget, no run broken off", over)


def long_line(folder: Path) -> Path:
    recipe = tiny.write("transformer", folder)
    for side, word in (("source", "ka"), ("target", "Haus")):
        with (folder / f"train.{side}").open("a", encoding="utf-8") as file:
            file.write(" ".join([word] * 200) + "\n")
    return recipe


@pytest.mark.parametrize("policy", ["skip", "stop"])
def test_an_example_that_does_not_fit_is_named(policy: str, tmp_path: Path):
    """Example 30, of 200 words, where others have at most 5."""
    recipe = long_line(tmp_path / "data")
    changes = ["data.max_length=300", f"train.oversized={policy}", "train.trace=true"]
    run = Run.create(tmp_path / "first", config.load(recipe, changes))
    objective = Objective(build(run.recipe.model, run.task.sizes), run.task.loss)
    room = 3 * one_row(Memory(objective), tiny_batches(run))
    changes = [*changes, f"train.memory={tight(run, room)}"]
    if policy == "stop":
        with pytest.raises(UserError, match=r"train\.memory: examples 30 do not fit"):
            regard.train(recipe, *changes, to=tmp_path / "run")
        return
    found = regard.train(recipe, *changes, to=tmp_path / "run").run.records()
    named = [r["ids"] for r in found if r["kind"] == "oversized"]
    assert named
    assert all(ids == [30] for ids in named)
    assert all(30 not in r["ids"] for r in found if r["kind"] == "examples")


def tiny_batches(run: Run) -> Any:
    """The training batches without the one of the long example."""
    batches: Any = run.task.batches(run.recipe.seed)
    real = batches.at

    def at(position: Position, *rows: Any) -> Any:
        batch = real(position, *rows)
        return batch if 30 not in batch.ids else real(batches.after(position))

    batches.at = at
    return batches


class Small(Objective):
    """A device that holds 14 positions."""

    def forward(self, batch: Any, carry: Any = None) -> Any:
        if batch["target_in"].numel() > 14:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return super().forward(batch, carry)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_where_memory_runs_out_batches_are_split(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The update is tried again; what was learnt of the limit stays with the run."""
    parts = ("decoder",) if kind == "lstm" else ("encoder", "decoder")
    changes = [f"model.{part}.dropout=0" for part in parts]
    recipe = tiny.write(kind, tmp_path / "data")
    whole = regard.train(recipe, *changes, to=tmp_path / "whole").run
    monkeypatch.setattr("regard.train.job.Objective", Small)
    run = regard.train(recipe, *changes, to=tmp_path / "run").run
    told = [r["text"] for r in run.records() if r["kind"] == "memory"]
    assert 1 <= len(told) < 12, "once for each time that the limit falls, not for each batch"
    assert "out of memory" in told[0]
    assert run.find("last").progress()["memory"] > 0
    # Losses, not weights: Adam makes whole steps of a gradient that is nothing but rounding.
    mine, other = ([r["nll"] for r in each.records() if "nll" in r] for each in (run, whole))
    assert mine == pytest.approx(other, rel=1e-3)


def test_a_processor_that_cannot_allocate_is_out_of_memory_too():
    error = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried …")
    assert memory.is_shortage(error)
    assert not memory.is_shortage(RuntimeError("shapes cannot be multiplied"))


def test_a_model_that_does_not_fit_is_refused(tmp_path: Path):
    recipe = tiny.write("lstm", tmp_path / "data")
    with pytest.raises(UserError, match=r"train\.memory: the model, its gradient .* smaller"):
        regard.train(recipe, "train.memory=0.00001", to=tmp_path / "run")


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_where_nothing_fits_it_stops(kind: str, tmp_path: Path):
    recipe = tiny.write(kind, tmp_path / "data")
    run = Run.create(tmp_path / "first", config.load(recipe))
    with pytest.raises(UserError, match=r"train\.memory: no example fits"):
        regard.train(
            recipe, "train.updates=20", f"train.memory={tight(run, 50.0)}", to=tmp_path / "run"
        )


# What is free


def machine(root: Path, available: int, group: str = "") -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:   {available} kB\n")
    (root / "proc/self/cgroup").write_text(group)
    return root


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


def test_a_machine_without_containers(tmp_path: Path):
    assert budget.free("cpu", machine(tmp_path, 4000)) == 4000 * 1024


def test_a_container_of_version_2(tmp_path: Path):
    """The inner group has no limit of its own, the one around it leaves 1000 − 700 + 50."""
    root = machine(tmp_path, 4000, "0::/outer/inner\n")
    inner, stat = root / "sys/fs/cgroup/outer/inner", "anon 1\ninactive_file 50"
    group(inner, memory__max="max", memory__current=600, memory__stat=stat)
    group(inner.parent, memory__max=1000, memory__current=700, memory__stat=stat)
    assert budget.free("cpu", root) == 350


def test_a_container_of_version_1(tmp_path: Path):
    root = machine(tmp_path, 4000, "5:cpu:/box\n4:memory:/box\n")
    folder = root / "sys/fs/cgroup/memory/box"
    files = {"memory__limit_in_bytes": 900, "memory__usage_in_bytes": 500}
    group(folder, memory__stat="total_inactive_file 0", **files)
    assert budget.free("cpu", root) == 400


def test_the_budget_stays_what_it_was_at_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(budget, "free", lambda device: 10.3e9)
    recipe = tiny.write("lstm", tmp_path / "data")
    run = regard.train(recipe, "train.updates=3", to=tmp_path / "run").run
    assert run.settings.memory == 8.0, "four fifths, in whole GB"
    assert run.find("last").progress()["machine"]["memory"] == 8.0
    monkeypatch.setattr(budget, "free", lambda device: 1.0)
    assert Run(run.folder).settings.memory == 8.0, "whatever is free later"
