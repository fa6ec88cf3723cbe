"""Damaged runs: each is noticed, the newest whole checkpoint is used, and nothing is deleted.

What opens a run here is what `regard train --resume` does, up to the first update.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard import plots, runs
from regard.errors import UserError
from regard.runs import Run
from regard.train import checkpoint, manifest
from tests.fault import tiny
from tests.fault.conftest import Amount, Tally

pytestmark = pytest.mark.timeout(3600)

OLDEST, BEFORE, NEWEST = "00000003", "00000006", "00000009"


class Stop(Exception):
    pass


@pytest.fixture(scope="module", params=tiny.KINDS)
def half(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A run with checkpoints 3, 6 and 9, and beside it a stranger that differs in its seed."""
    folder = tmp_path_factory.mktemp(request.param)
    recipe = tiny.write(request.param, folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "curves", lambda records, path: None)
        for name, seed in (("run", 3), ("stranger", 4)):
            changes = (f"seed={seed}", "train.validate_every=0", "train.keep=9")
            regard.train(recipe, *changes, to=folder / name)
            for left in ("model", "checkpoints/00000012"):
                shutil.rmtree(folder / name / left)
            # Start and first figures: what was recorded after checkpoint 9 would come again.
            records = folder / name / "metrics.jsonl"
            lines = records.read_bytes().splitlines(keepends=True)
            records.write_bytes(b"".join(lines[:2]))
        yield folder


# How a file is damaged: (file, same file of the checkpoint before, chance)

Damage = Callable[[Path, Path, random.Random], None]


def flip(path: Path, other: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def cut(path: Path, other: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


def zeros(path: Path, other: Path, chance: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def longer(path: Path, other: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + chance.randbytes(chance.randint(1, 40)))


def gone(path: Path, other: Path, chance: random.Random) -> None:
    path.unlink()


def swapped(path: Path, other: Path, chance: random.Random) -> None:
    """With the file of that name in another checkpoint, or run, which differs."""
    mine, its = path.read_bytes(), other.read_bytes()
    assert mine != its
    path.write_bytes(its)
    other.write_bytes(mine)


FILE_DAMAGES: list[Damage] = [flip, flip, cut, zeros, longer, gone, swapped]


# How a checkpoint's folder lies


def lie(change: Callable[[dict[str, Any], random.Random], None]) -> Callable[..., None]:
    def damage(folder: Path, stranger: Path, chance: random.Random) -> None:
        path = folder / "manifest.json"
        table = json.loads(path.read_text())
        change(table, chance)
        path.write_text(json.dumps(manifest.signed(table)))

    damage.__name__ = change.__name__
    return damage


@lie
def another_hash(table: dict[str, Any], chance: random.Random) -> None:
    told = table["files"][chance.choice(list(table["files"]))]
    told["sha256"] = f"{int(told['sha256'], 16) ^ 1 << chance.randrange(256):064x}"


@lie
def another_size(table: dict[str, Any], chance: random.Random) -> None:
    table["files"][chance.choice(list(table["files"]))]["size"] += chance.choice([-1, 1, 1 << 40])


@lie
def a_file_left_out(table: dict[str, Any], chance: random.Random) -> None:
    del table["files"][chance.choice(list(table["files"]))]


@lie
def a_file_that_is_not_there(table: dict[str, Any], chance: random.Random) -> None:
    table["files"]["more.safetensors"] = {"size": 3, "sha256": "0" * 64}


@lie
def a_file_elsewhere(table: dict[str, Any], chance: random.Random) -> None:
    name = chance.choice(["../../recipe.toml", "/etc/hostname", "..\\x", "a/../../x"])
    table["files"][name] = {"size": 3, "sha256": "0" * 64}


@lie
def another_format(table: dict[str, Any], chance: random.Random) -> None:
    table["format"] = chance.choice([0, 3, -1, "2", None, 10**9, 1.5])


@lie
def a_section_of_another_kind(table: dict[str, Any], chance: random.Random) -> None:
    section = chance.choice(["files", "run", "records"])
    table[section] = chance.choice([None, [], "x", {"a": 1}, {"a": {"size": "1", "sha256": "x"}}])


@lie
def made_with_another_recipe(table: dict[str, Any], chance: random.Random) -> None:
    table["run"]["recipe.toml"]["sha256"] = "0" * 64


def half_a_file_that_the_manifest_vouches_for(
    folder: Path, stranger: Path, chance: random.Random
) -> None:
    path = folder / chance.choice(["model.safetensors", "optimizer.safetensors"])
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])
    table = json.loads((folder / "manifest.json").read_text())
    table["files"][path.name] = manifest.entry(path)
    (folder / "manifest.json").write_text(json.dumps(manifest.signed(table)))


def another_runs(folder: Path, stranger: Path, chance: random.Random) -> None:
    shutil.rmtree(folder)
    shutil.copytree(stranger / "checkpoints" / folder.name, folder)


def another_updates(folder: Path, stranger: Path, chance: random.Random) -> None:
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name(OLDEST), folder)


def nothing_in_it(folder: Path, stranger: Path, chance: random.Random) -> None:
    for path in folder.iterdir():
        path.unlink()


def one_more_file(folder: Path, stranger: Path, chance: random.Random) -> None:
    (folder / chance.choice(["x.safetensors", "model.bin", ".hidden"])).write_bytes(b"x")


LIES: list[Callable[[Path, Path, random.Random], None]] = [
    another_hash, another_size, a_file_left_out, a_file_that_is_not_there, a_file_elsewhere,
    another_format, a_section_of_another_kind, made_with_another_recipe,
    half_a_file_that_the_manifest_vouches_for, another_runs, another_updates, nothing_in_it,
    one_more_file,
]  # fmt: skip


# What is opened


class Opened:
    """What `train` had in hand before the first update, and what it told."""

    def __init__(self, run: Path) -> None:
        self.warnings: list[str] = []
        self.progress: Any = None

        def fit(job: Any, progress: Any, carry: Any) -> Any:
            self.progress, self.carry = progress, carry
            self.weights = checkpoint.weights_of(job.objective.model)
            raise Stop

        with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
            patch.setattr("regard.runs.training.fit", fit)
            runs.train(Run(run), [lambda record: self.warnings.append(record["text"])])

    def is_at(self, folder: Path) -> bool:
        """Whether all that it holds is what an untouched checkpoint has."""
        weights = load_file(folder / "model.safetensors")
        carry = folder / "carry.safetensors"
        carried = load_file(carry) if carry.exists() else {}
        return (
            self.progress.update == int(folder.name)
            and all(torch.equal(self.weights[name], weights[name]) for name in weights)
            and (self.carry or {}).keys() == carried.keys()
            and all(torch.equal(self.carry[name], carried[name]) for name in carried)
        )


def test_an_untouched_run_opens_without_a_word(half: Path):
    opened = Opened(half / "run")
    assert opened.warnings == []
    assert opened.is_at(half / "run" / "checkpoints" / NEWEST)


def test_damaged_checkpoints(half: Path, tmp_path: Path, amount: Amount, tally: Tally):
    """The newest, or the two newest; the one before them is used, and both are kept."""
    for number in range(amount(26, 170)):
        chance, run = random.Random(number), tmp_path / "run"
        shutil.copytree(half / "run", run)
        shutil.copytree(half / "stranger", tmp_path / "stranger")
        hit = [NEWEST, BEFORE][: 2 if chance.random() < 0.3 else 1]
        what = []
        for name in hit:
            folder = run / "checkpoints" / name
            if number % 2:
                damage = LIES[(number // 2) % len(LIES)]
                damage(folder, tmp_path / "stranger", chance)
                what.append(f"{damage.__name__} {name}")
            else:
                path = chance.choice(sorted(folder.iterdir()))
                spoil = FILE_DAMAGES[(number // 2) % len(FILE_DAMAGES)]
                spoil(path, tmp_path / "stranger" / path.relative_to(run), chance)
                what.append(f"{spoil.__name__} {name}/{path.name}")
        opened = Opened(run)
        use = OLDEST if len(hit) == 2 else BEFORE
        assert opened.is_at(half / "run" / "checkpoints" / use), what
        assert len(opened.warnings) == len(hit), what
        for name, warning in zip(hit, opened.warnings, strict=True):
            assert str(run / "checkpoints" / name) in warning, what
            assert (run / "checkpoints" / f"{name}.damaged").is_dir(), what
        shutil.rmtree(run)
        shutil.rmtree(tmp_path / "stranger")
        tally("damaged checkpoints: named, kept, the one before used", 1)


def test_damaged_files_of_the_run(half: Path, tmp_path: Path, amount: Amount, tally: Tally):
    """What all checkpoints depend on: nothing is loaded, the file is named, nothing is changed."""
    files = ["recipe.toml", "target.tokenizer.json"]
    files += [f"store/{path.name}" for path in sorted((half / "run" / "store").iterdir())]
    for number in range(amount(12, 60)):
        chance, run = random.Random(number), tmp_path / "run"
        shutil.copytree(half / "run", run)
        path = run / files[number % len(files)]
        spoil = FILE_DAMAGES[chance.randrange(len(FILE_DAMAGES) - 1)]
        spoil(path, path, chance)
        before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
        with pytest.raises(UserError) as refused:
            Opened(run)
        assert path.stem in str(refused.value), (spoil.__name__, path)
        assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before
        shutil.rmtree(run)
        tally("damaged files of a run: named, nothing loaded", 1)


@pytest.mark.parametrize(
    "name", ["data.json", "environment.json", "metrics.jsonl", "manifest.json"]
)
def test_what_nothing_depends_on(
    name: str, half: Path, tmp_path: Path, amount: Amount, tally: Tally
):
    """It is told, and training goes on; the manifest, which checkpoints repeat, is restored."""
    for number in range(amount(2, 7)):
        chance, run = random.Random(number), tmp_path / "run"
        shutil.copytree(half / "run", run)
        spoil = FILE_DAMAGES[number % 6]
        if name == "metrics.jsonl" and spoil is longer:
            spoil = flip  # longer is what it may be: those records come again
        spoil(run / name, run / name, chance)
        opened = Opened(run)
        assert opened.is_at(half / "run" / "checkpoints" / NEWEST)
        assert len(opened.warnings) == 1
        assert name in opened.warnings[0]
        if name == "manifest.json":
            assert (run / name).read_bytes() == (half / "run" / name).read_bytes()
        shutil.rmtree(run)
        tally("damaged records: reported, training went on", 1)


def test_another_runs_tokenizer_is_noticed_where_a_model_is_shipped(half: Path, tmp_path: Path):
    """Recipe, tokenizers and a checkpoint, in another place and without the run's manifest."""
    shipped = tmp_path / "shipped"
    shutil.copytree(half / "run" / "checkpoints" / NEWEST, shipped / "model")
    for path in (half / "run").glob("*"):
        if path.name == "recipe.toml" or path.name.endswith("tokenizer.json"):
            shutil.copy(path, shipped)
    assert regard.load(shipped).run.find("final")
    path = shipped / "target.tokenizer.json"
    path.write_text(path.read_text().replace(" ", "  ", 1))
    with pytest.raises(UserError, match=r"shipped: target\.tokenizer\.json is damaged"):
        regard.load(shipped)


def test_without_one_whole_checkpoint_it_starts_again(half: Path, tmp_path: Path):
    shutil.copytree(half / "run", tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("*/progress.json"):
        path.unlink()
    opened = Opened(tmp_path / "run")
    assert opened.progress.update == 0
    assert len(opened.warnings) == 3


def test_a_second_damaged_checkpoint_of_the_same_update_is_kept_beside_the_first(
    half: Path, tmp_path: Path
):
    run = tmp_path / "run"
    for number in (1, 2):
        shutil.copytree(half / "run", run, dirs_exist_ok=True)
        (run / "checkpoints" / NEWEST / "progress.json").write_text(str(number))
        Opened(run)
    names = [f"{NEWEST}.damaged", f"{NEWEST}.damaged-2"]
    texts = [(run / "checkpoints" / name / "progress.json").read_text() for name in names]
    assert texts == ["1", "2"]
