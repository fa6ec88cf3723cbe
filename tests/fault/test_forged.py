"""Runs whose values are not those of a run, though all hashes agree: refused, whatever is asked.

A forger (forger.py) changes a value or a few in any file of a small run of each task, and makes the
hashes agree; a judge (judge.py) who knows the formats says whether a run could hold what is there
now. If not, nothing is answered: every verb ends in a UserError, or, where what was forged is not
needed or a whole copy takes its place, with what the untouched run answers.
"""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tomli_w

from tests import small_runs
from tests.fault import forger, judge
from tests.fault.conftest import Amount, Tally
from tests.fault.forks import End, Forks

SECONDS = 2.0
MEMORY = 300 << 20
pytestmark = pytest.mark.timeout(3600)
RNN = {"kind": "rnn", "cell": "gru", "layers": 1}
BLOCK = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 8}
TRAIN = {
    "updates": 6, "save_every": 2, "keep": 3, "average": 2, "average_of": "last", "patience": 0,
    "log_every": 2, "validate_every": 3,
    "metric": "nll", "threads": 1, "precision": "float32", "device": "cpu", "memory": 1.0,
    "optimizer": {"learning_rate": 0.01}, "schedule": {"warmup": 2},
}  # fmt: skip
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "translate": ("translate", {
        "model": {"dim": 8, "encoder": BLOCK, "decoder": BLOCK},
        "tokenizer": {"kind": "bpe", "vocabulary": 300},
        "output": {"choices": "text.target"},
        "evaluation": {"lines": 0},
    }),
    "language_model": ("language_model", {
        "model": {"dim": 8, "decoder": RNN},
        "unit": "stream",
        "stream": {"streams": 4, "length": 9},
        "tokenizer": {"kind": "character"},
        "output": {"length": 5},
    }),
    "classify": ("classify", {
        "model": {"dim": 8, "encoder": BLOCK, "input": {"kind": "words"}},
        "characters": True,
        "tokenizer": {"kind": "word"},
        "held_out": {"validation": 0.2},
    }),
    "tag": ("tag", {
        "model": {"dim": 8, "encoder": RNN, "head": {"crf": True}},
        "tokenizer": {"kind": "unigram", "vocabulary": 300},
        "held_out": {"validation": 0.2},
    }),
    "numbers": ("tag", {
        "model": {"dim": 8, "encoder": RNN},
        "labels": {"kind": "real"},
        "tokenizer": {"kind": "word"},
        "data": {"train": ["numbers.txt"]},
        "held_out": {"validation": 0.2},
    }),
    "forecast": ("forecast", {
        "model": {"dim": 8, "encoder": RNN},
        "window": {"look_back": 8, "horizon": 4, "block": 2},
        "intervals": {"paths": 3},
    }),
}  # fmt: skip
STATES = ("whole", "half")
"""It has ended; it was stopped on the way."""
NEEDED = (".tokenizer.json", "labels.json", "series.json", "recipe.toml", "choices.txt")
"""What weights mean nothing without."""


class Base(NamedTuple):
    """A run of one kind, and what it answers."""

    folder: Path
    text: str
    answers: dict[str, set[str]]
    """By verb. With the newest checkpoint damaged, the one before it answers."""


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as made:
        yield made


def written(kind: str, folder: Path) -> Path:
    """A recipe of this kind, and its data."""
    task, sections = KINDS[kind]
    table = small_runs.table(task, sections["model"], folder)
    for name, section in sections.items():
        whole = isinstance(section, dict) and name != "model"
        table[name] = {**table.get(name, {}), **section} if whole else section
    texts = [f"{a} {b} {c}" for a in ("a", "the") for b in ("red", "big", "old") for c in "nmopq"]
    labels = "".join(f"{small_runs.LABELS[n % 3]}\t{text}\n" for n, text in enumerate(texts))
    for name, tag in (("tags", lambda word: "NVX"[min(len(word) // 2, 2)]), ("numbers", len)):
        lines = (f"{word} {tag(word)}" if word else "" for t in texts for word in [*t.split(), ""])
        (folder / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "labels.tsv").write_text(labels, encoding="utf-8")
    recipe = folder.with_suffix(".toml")
    recipe.write_text(tomli_w.dumps(table | {"train": TRAIN}), encoding="utf-8")
    return recipe


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def bases(kind: str, forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Base]:
    """A run of this kind that has ended, and one that was stopped on the way."""
    folder, found, (task, _) = tmp_path_factory.mktemp("bases"), {}, KINDS[kind]
    end = forks("train", folder / "whole", written(kind, folder / "data"))
    assert end.code == 0, end.told
    shutil.copytree(folder / "whole", folder / "half")
    for left in ("model", "checkpoints/00000006"):
        shutil.rmtree(folder / "half" / left)
    # A damaged checkpoint is left out: of what goes on from there, and of a new mean.
    older = "checkpoints/00000004"
    for state, without in (("whole", ["model", older]), ("half", [older])):
        run, text = folder / state, small_runs.example(task)
        if task == "translate":
            end = forks("convert", run)
            assert end.code == 0, end.told
        answers: dict[str, set[str]] = {}
        for less in ([], without):
            copy = Path(shutil.copytree(run, folder / "copy"))
            for left in less:
                shutil.rmtree(copy / left)
            end = answered(forks, copy, text)
            assert end.code == 0, end.told
            for verb, (answer, why) in json.loads(end.told).items():
                assert answer is not None, why
                answers.setdefault(verb, set()).add(answer)
            shutil.rmtree(copy)
        same = len(answers["train"]) == 1
        assert same or state == "whole", "it ends the same from any checkpoint"
        found[state] = Base(run, text, answers)
    return found


def answered(forks: Forks, run: Path, text: str) -> End:
    return forks("answers", run, text, memory=MEMORY)


def faults(base: Base, run: Path, names: list[str], end: End) -> list[str]:
    """What is wrong with how a forged run was answered."""
    if end.code != 0:
        return [f"ended with {end.code}: {end.told}"]
    if end.cpu > SECONDS:
        return [f"took {end.cpu:.1f} s"]
    lies = [name for name in names if not judge.could_be(name, base.folder, run)]
    nothing = any(name.endswith(NEEDED) for name in lies)
    stored = any(name.startswith("store/") for name in lies)
    free = any(_decides(name) for name in names if name not in lies)
    wrong = []
    for verb, (answer, why) in json.loads(end.told).items():
        refused = nothing or (stored and verb == "train" and not (run / "model").is_dir())
        if answer is not None and (refused or not (free or answer in base.answers[verb])):
            wrong.append(f"{verb} answered {answer[:200]}; no run writes {lies}")
        if answer is None and not _clear(why, run.with_name("run"), lies):
            wrong.append(f"{verb} is refused for {why!r}")
    return wrong


def _clear(why: str, run: Path, lies: list[str]) -> bool:
    """One line that can be read, and where something was forged, with the name of a file."""
    named = str(run) in why or any(Path(name).name in why for name in lies)
    return why.isprintable() and len(why) < 1000 and (named or not lies)


def _decides(name: str) -> bool:
    """Whether another value in this file may be another answer."""
    return not name.endswith(
        (
            "manifest.json", "metrics.jsonl", "data.json", "environment.json", "nearness.json",
            ".sha256",
        )
    )  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_forged_runs(
    kind: str,
    state: str,
    bases: dict[str, Base],
    forks: Forks,
    tmp_path: Path,
    amount: Amount,
    tally: Tally,
):
    """The forger's number decides what it forges: each kind and state has its share of them."""
    failures, base = [], bases[state]
    first = 2 * list(KINDS).index(kind) + STATES.index(state)
    for number in range(first, amount(24, 1000), 2 * len(KINDS)):
        run = Path(shutil.copytree(base.folder, tmp_path / "run"))
        names = forger.forged(run, random.Random(number))
        copy = Path(shutil.copytree(run, tmp_path / "copy"))  # as it was before it is used
        found = faults(base, copy, names, answered(forks, run, base.text))
        failures += [f"{number}, {names}: {fault}" for fault in found]
        shutil.rmtree(run)
        shutil.rmtree(copy)
        tally("forged runs: refused, or nothing forged in the answer", 1)
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures)
