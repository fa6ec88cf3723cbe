"""Runs that somebody made to do harm: no code of theirs runs, nothing outside is touched.

Each forger knows the format: the manifests are right for what is in the folder, unless the lie is
in a manifest itself. Each folder is used as a person would: to predict, then to go on training.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.train import manifest
from tests.fault import tiny
from tests.fault.canary import pickled
from tests.fault.conftest import Amount, Tally
from tests.fault.forger import agree
from tests.fault.forks import Forks

SECONDS = 2.0
MEMORY = 300 << 20
GIGABYTE = 1 << 30
pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork"),
]

Attack = Callable[[Path, Path], None]
"""(the run, a folder outside of it that must stay as it is)"""
ATTACKS: dict[str, Attack] = {}
UNFORGED: set[str] = set()
"""Attacks whose manifests stay as the attack left them."""


def attack(name: str, do: Attack, *, forged: bool = True) -> None:
    assert name not in ATTACKS
    ATTACKS[name] = do
    if not forged:
        UNFORGED.add(name)


def sparse(path: Path, size: int, begins: bytes = b"") -> None:
    with path.open("wb") as file:
        file.write(begins)
        file.truncate(size)


# Names that lead out

TRAVERSALS = (
    "../../../../etc/passwd", "/etc/passwd", "..\\..\\x", "model.safetensors/../../../outside/x",
    "", ".", "..", "C:\\x", "x\0y", "x" * 5000, "~/.profile", "../outside/secret",
)  # fmt: skip


def name_in(place: str, name: str) -> Attack:
    def do(run: Path, outside: Path) -> None:
        path = run / place / "manifest.json"
        table = json.loads(path.read_text())
        table["files"][name] = manifest.entry(outside / "secret")
        path.write_text(json.dumps(manifest.signed(table)))

    return do


for number, name in enumerate(TRAVERSALS):
    attack(f"name {number} in the model's manifest", name_in("model", name), forged=False)
for number, name in enumerate(TRAVERSALS[:6]):
    attack(f"name {number} in the run's manifest", name_in("", name), forged=False)


def in_recipe(old: str, new: str) -> Attack:
    def do(run: Path, outside: Path) -> None:
        text = (run / "recipe.toml").read_text()
        assert old in text
        (run / "recipe.toml").write_text(text.replace(old, new, 1))

    return do


def with_code(room: str, kind: str) -> Attack:
    """Python in the run's own folder, and a recipe that asks for it."""

    def do(run: Path, outside: Path) -> None:
        code = f"import os\nos.mkdir({str(outside / 'code-was-here')!r})\n"
        for folder in (run, run / room, run / "parts" / room):
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("mine", "__init__", "sitecustomize", "regard", "conftest"):
                (folder / f"{name}.py").write_text(code)
        in_recipe('kind = "', f'kind = "{kind}" # ')(run, outside)

    return do


for kind in ("mine", "../../mine", "__init__", "os", "..", "", "regard.cli", "mine.py"):
    attack(f"code in the run as {kind!r}", with_code("encoders", kind))
attack("a task from elsewhere", in_recipe("task = ", 'task = "../mine" # '))


# Links, and what is no file

LINKED = (
    "recipe.toml", "target.tokenizer.json", "manifest.json", "model", "model/model.safetensors",
    "model/progress.json", "checkpoints", "checkpoints/00000012", "store", "metrics.jsonl",
    ".metrics.jsonl", "events", "engines", "curves.png", "checkpoints/.writing-00000012",
)  # fmt: skip


def linked(name: str) -> Attack:
    """The thing itself is outside, and a link leads to it."""

    def do(run: Path, outside: Path) -> None:
        place, real = run / name, outside / Path(name).name
        if place.exists():
            shutil.move(place, real)
        elif Path(name).suffix:
            real.write_text("mine\n")
        else:
            real.mkdir()
        place.symlink_to(real)

    return do


def pipe(name: str) -> Attack:
    def do(run: Path, outside: Path) -> None:
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)

    return do


for name in LINKED:
    attack(f"{name} is a link", linked(name), forged=False)
for name in ("target.tokenizer.json", "metrics.jsonl", "manifest.json", "store/x", "recipe.toml"):
    attack(f"{name} is a pipe", pipe(name), forged=False)


# Pickles


def pickle_at(name: str) -> Attack:
    def do(run: Path, outside: Path) -> None:
        (run / name).write_bytes(pickled(outside))

    return do


PICKLED = (
    "model/model.safetensors", "model/progress.json", "model/pytorch_model.bin",
    "checkpoints/00000012/model.safetensors", "checkpoints/00000012/optimizer.safetensors",
    "checkpoints/00000012/progress.json", "checkpoints/00000012/carry.safetensors",
    "target.tokenizer.json", "recipe.toml", "metrics.jsonl", "store/train.json",
    "store/train.target.00000.values", "store/train.target.00000.lengths", "data.pkl",
)  # fmt: skip
for name in PICKLED:
    attack(f"{name} is a pickle", pickle_at(name))


# What is too large


def large(name: str, size: int, begins: bytes = b"") -> Attack:
    return lambda run, outside: sparse(run / name, size, begins)


def header(length: int) -> bytes:
    return length.to_bytes(8, "little") + b"{"


for name in ("model/model.safetensors", "checkpoints/00000012/optimizer.safetensors"):
    for length in (2**64 - 1, 2**63, 90 << 20, 9 << 20):
        size = min(length, 95 << 20) + 100
        attack(f"{name} has a header of {length}", large(name, size, header(length)))
for name in ("model/progress.json", "checkpoints/00000012/progress.json", "target.tokenizer.json"):
    attack(f"{name} has 200 megabytes", large(name, 200 << 20, b'{"a": "'))
for name in ("recipe.toml", "manifest.json", "model/manifest.json"):
    attack(f"{name} has a gigabyte", large(name, GIGABYTE, b'a = "'), forged=False)
attack("metrics.jsonl has 100 megabytes", large("metrics.jsonl", 100 << 20))


def many_tensors(run: Path, outside: Path) -> None:
    save_file({f"t{n}": torch.zeros(0) for n in range(50_000)}, run / "model/model.safetensors")


def nested(name: str, opening: str, begins: str = "") -> Attack:
    def do(run: Path, outside: Path) -> None:
        (run / name).write_text(begins + opening * 20_000)

    return do


attack("fifty thousand tensors", many_tensors)
attack("nested manifest", nested("model/manifest.json", '{"a":'), forged=False)
attack("nested progress", nested("model/progress.json", '{"a":'))
attack("nested progress of a checkpoint", nested("checkpoints/00000012/progress.json", "["))
attack("nested tokenizer", nested("target.tokenizer.json", '{"a":'))
attack("nested recipe", nested("recipe.toml", "[", "a = "))
attack("nested records", nested("metrics.jsonl", "["))


# Wrong shapes, types and numbers


def tensors(name: str, change: Callable[[dict[str, Any]], None]) -> Attack:
    def do(run: Path, outside: Path) -> None:
        table: dict[str, Any] = load_file(run / name)
        change(table)
        save_file(table, run / name)

    return do


def first(table: dict[str, Any], value: Callable[[Any], Any]) -> None:
    name = next(iter(table))
    table[name] = value(table[name]).contiguous()


def values(name: str, **changes: Any) -> Attack:
    def do(run: Path, outside: Path) -> None:
        table = json.loads((run / name).read_text()) | changes
        (run / name).write_text(json.dumps(table))

    return do


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "another shape": lambda t: first(t, lambda x: torch.zeros(3, 5)),
    "one more axis": lambda t: first(t, lambda x: x[None]),
    "no axis": lambda t: first(t, lambda x: torch.tensor(1.0)),
    "no element": lambda t: first(t, lambda x: torch.zeros(0, 7)),
    "whole numbers": lambda t: first(t, lambda x: x.to(torch.int8)),
    "no tensor": lambda t: t.clear(),
    "one less": lambda t: t.__delitem__(next(iter(t))),
    "one more": lambda t: t.update({"../../outside/x": torch.zeros(2)}),
    "no number": lambda t: first(t, lambda x: x * float("nan")),
}
for what, change in CHANGES.items():
    attack(f"weights: {what}", tensors("model/model.safetensors", change))
    attack(f"optimizer: {what}", tensors("checkpoints/00000012/optimizer.safetensors", change))
PROGRESS = "checkpoints/00000012/progress.json"
POSITIONS: dict[str, dict[str, Any]] = {
    "text": {"tokens": "many", "seconds": "x"},
    "another update": {"update": 10**18},
    "a negative update": {"update": -12},
    "a position nowhere": {"position": {"epoch": -1, "index": 10**18}},
    "a position of another kind": {"position": "x"},
    "a path for a number": {"best_update": "../../outside"},
    "scores of another kind": {"scores": {"x": "y", "../..": None}},
    "an unknown key": {"__class__": "os.system"},
}
for what, changes in POSITIONS.items():
    attack(f"progress: {what}", values(PROGRESS, **changes))
attack("a model of a billion", in_recipe("dim = ", "dim = 1000000000 # "))
attack("a billion layers", in_recipe("layers = ", "layers = 1000000000 # "))
attack("no model", lambda run, outside: shutil.rmtree(run / "model"))


# The test


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as made:
        yield made


@pytest.fixture(scope="module")
def harmless(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of each kind."""
    folder = tmp_path_factory.mktemp("harmless")
    for kind in tiny.KINDS:
        recipe = tiny.write(kind, folder / f"{kind}-data")
        end = forks("train", folder / kind, recipe)
        assert end.code == 0, end.told
    return folder


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Names, contents and times of all that is in a folder."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else b"",
            path.stat().st_mtime_ns,
        )
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_harmless_run_is_used(kind: str, harmless: Path, forks: Forks, tmp_path: Path):
    """Also with manifests that were forged, so that it is the attack that is refused below."""
    run = tmp_path / "run"
    shutil.copytree(harmless / kind, run)
    agree(run)
    end = forks("use", run, memory=MEMORY)
    assert end.code == 0, end.told
    assert end.cpu < SECONDS


def test_hostile_runs(harmless: Path, forks: Forks, tmp_path: Path, amount: Amount, tally: Tally):
    assert len(ATTACKS) >= 100
    step = len(ATTACKS) // amount(20, len(ATTACKS))
    failures = []
    for number, (name, do) in list(enumerate(ATTACKS.items()))[::step]:
        folder = tmp_path / str(number)
        run, outside = folder / "run", folder / "outside"
        shutil.copytree(harmless / tiny.KINDS[number % 2], run)
        outside.mkdir()
        (outside / "secret").write_text("mine\n")
        do(run, outside)
        if name not in UNFORGED:
            agree(run)
        before = everything(outside)
        end = forks("use", run, memory=MEMORY)
        beside = {path.name for path in folder.iterdir()}
        harmed = everything(outside) != before or beside != {"outside", "run"}
        if end.code not in (0, 1) or end.cpu > SECONDS or harmed:
            failures.append(f"{name}: {end}, {harmed=}")
        shutil.rmtree(folder)
        tally("hostile runs: no code run, nothing outside touched, in 2 s and 300 MB", 1)
    assert not failures, "\n".join(failures)
