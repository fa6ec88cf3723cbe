"""`regard sweep`: which values are tried, and that a killed sweep ends as one that was not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w

import regard
from regard.errors import RecipeError, UserError
from regard.recipe import config
from regard.sweep import begin, running, space
from regard.sweep.folder import Folder
from regard.sweep.journal import NAME, Journal
from regard.sweep.result import Result
from regard.sweep.space import Choice, Range

RATE = "train.optimizer.learning_rate"
WORDS = ["a", "dog", "runs", "two", "cats", "play", "in", "the", "snow"]


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small recipe whose rate is far too low."""
    for part, numbers in {"train": range(30), "validation": range(30, 36)}.items():
        lines = [f"{' '.join(WORDS[n % 9 :])}\t{int(n % 9 < 4)}" for n in numbers]
        (tmp_path / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    table = {
        "task": "classify",
        "data": {"train": ["train.tsv"], "validation": ["validation.tsv"]},
        "tokenizer": {"kind": "word"},
        "model": {"dim": 4, "encoder": {"kind": "bag"}},
        "train": {
            "updates": 6, "validate_every": 1, "save_every": 2, "threads": 1, "samples": 0,
            "metric": "nll",
            "allow": ["data.leaked"], "optimizer": {"learning_rate": 1e-5},
            "schedule": {"kind": "constant", "warmup": 0},
        },
    }  # fmt: skip
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(table))
    monkeypatch.chdir(tmp_path)
    return Path("mine.toml")


def test_forms_of_values():
    plain, varied = space.split(
        [f"{RATE}=log:1e-4:1e-2", "a=1:6", "k=rnn,bag", "n=3", "w=[1,2]", 't="a,b"', "p=C:/x"]
    )
    assert varied == [f"{RATE}=log:1e-4:1e-2", "a=1:6", "k=rnn,bag"]
    assert plain == ["n=3", "w=[1,2]", 't="a,b"', "p=C:/x"]


def test_a_range_has_the_type_of_its_key(recipe: Path):
    changes = [f"{RATE}=log:1:2", "model.dim=4:8", "model.encoder.kind=bag,none"]
    found = begin(recipe, changes).space
    assert found.dimensions == (
        Range(key=RATE, low=1.0, high=2.0, log=True, integer=False),
        Range(key="model.dim", low=4, high=8, integer=True),
        Choice(key="model.encoder.kind", texts=("bag", "none")),
    )
    assert found.points is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("train.optimizer.rat=1:2", "no such key"),
        (f"{RATE}=log:0:1", "no logarithm"),
        (f"{RATE}=log:1", "wanted log:LOW:HIGH"),
        ("train.optimizer.weight_decay=0.1:2000", "2000.* must be"),
        ("model.dim=8:4", "8 is not below 4"),
        ("model.encoder.kind=bag,nun", "'nun' is not one of"),
        ("train.metric=nll,accuracy", "could not be compared"),
        ("train.updates=4", "nothing is varied"),
    ],
)
def test_what_is_wrong_is_refused_before_the_first_trial(recipe: Path, change: str, said: str):
    with pytest.raises(RecipeError, match=said):
        begin(recipe, [change])
    assert not Path("runs").exists()


def sweep(recipe: Path, to: str, trials: int, *changes: str) -> Folder:
    return begin(recipe, changes or [f"{RATE}=log:1e-5:1"], to=to, trials=trials)


def outcome(found: Folder) -> list[object]:
    trials = Result(found, running.study_of(found).trials()).as_dict()["trials"]
    return [{name: value for name, value in each.items() if name != "run"} for each in trials]


def test_a_sweep_finds_a_better_rate_and_writes_a_recipe(recipe: Path):
    found = regard.sweep(recipe, f"{RATE}=log:1e-5:1", trials=6)
    assert found.trials[0].values == {RATE: 1e-5}, "the recipe's own comes first"
    assert found.best is not None and found.best.score is not None
    assert found.best.score < (found.trials[0].score or 0.0)
    best = config.load(Path("runs/mine-sweep/best.toml"))
    assert best.train.optimizer.learning_rate == found.best.values[RATE]
    assert Path("runs/mine-sweep/sweep.png").stat().st_size > 1000
    pruned = [each for each in found.trials if each.state == "pruned"]
    for each in pruned:
        assert "pruned at update" in each.note and len(each.validations) < 6
        assert "pruned" in Path(f"runs/mine-sweep/{each.number:03d}/metrics.jsonl").read_text()
    with pytest.raises(RecipeError, match="other keys or ranges"):
        begin(recipe, [f"{RATE}=log:1e-5:2"])


def test_a_sweep_that_was_broken_off_ends_with_the_same_trials(recipe: Path):
    running.work(whole := sweep(recipe, "whole", 9))
    broken = sweep(recipe, "broken", 9)
    for at in (2, 5, 11, 7):
        left = at

        def fall(record: dict[str, object]) -> None:
            nonlocal left
            left -= record["kind"] == "validation"
            if left == 0:
                raise OSError("gone")

        with pytest.raises(OSError, match="gone"):
            running.work(broken, running.Watch(record=fall))
    assert running.work(broken)
    assert outcome(broken) == outcome(whole)
    assert {each["state"] for each in outcome(whole)} >= {"finished", "pruned"}  # type: ignore[index]


def test_few_values_are_tried_once_each(recipe: Path):
    found = sweep(recipe, "few", 10, f"{RATE}=0.1,0.2", "model.dim=4:5")
    assert running.work(found)
    tried = [tuple(each["values"].values()) for each in outcome(found)]  # type: ignore[index]
    assert sorted(tried) == [("0.1", 4), ("0.1", 5), ("0.2", 4), ("0.2", 5)]


def test_values_that_do_not_go_together_fail_and_the_rest_goes_on(recipe: Path):
    found = sweep(recipe, "odd", 4, "train.keep=1,9", "train.average=1,2")
    assert running.work(found)
    states = {tuple(e["values"].values()): e["state"] for e in outcome(found)}  # type: ignore[index]
    assert states.pop(("1", "2")) == "failed"
    assert set(states.values()) <= {"finished", "pruned"}


def test_a_line_that_was_never_finished_is_cut_off(tmp_path: Path):
    journal = Journal(tmp_path)
    journal.append_logs([{"n": 1}, {"n": 2}])
    with (tmp_path / NAME).open("a") as file:
        file.write('{"n": 3')
    assert [*journal.read_logs(1)] == [{"n": 2}]
    journal.append_logs([{"n": 4}])
    assert [*journal.read_logs(0)] == [{"n": 1}, {"n": 2}, {"n": 4}]
    (tmp_path / NAME).write_text("{}\nno\n")
    with pytest.raises(UserError, match=r"jsonl:2: damaged"):
        [*journal.read_logs(0)]


def test_two_processes_share_a_sweep_and_a_signal_stops_it(recipe: Path):
    command = [sys.executable, "-m", "regard", "sweep", str(recipe), f"{RATE}=log:1e-5:1"]
    command += ["--trials", "4", "--processes", "2", "--json"]
    environment = os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1])}
    begun = subprocess.Popen(
        [*command, "train.updates=1000000"], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        env=environment, text=True,
    )  # fmt: skip
    assert begun.stderr is not None
    for line in begun.stderr:
        if "trial 00" in line:
            break
    begun.send_signal(signal.SIGINT)
    out, err = begun.communicate()
    assert begun.returncode == 130 and "--resume runs/mine-sweep" in err
    assert all(each["state"] == "running" for each in json.loads(out)["trials"])
    done = subprocess.run(
        [*command, "--to", "both"], capture_output=True, env=environment, check=True
    )
    found = json.loads(done.stdout)
    assert len(found["trials"]) == 4
    assert {each["state"] for each in found["trials"]} <= {"finished", "pruned"}
