"""What a run is validated by is part of the run: nobody changes it, or loses it, from outside."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from tests.fault import tiny

TRAIN = {
    "updates": 8,
    "log_every": 4,
    "validate_every": 2,
    "save_every": 2,
    "device": "cpu",
    "threads": 1,
    "precision": "float32",
    "optimizer": {"learning_rate": 0.01},
}
SMALL = {"kind": "rnn", "cell": "gru", "layers": 1}
SENTENCES = ("a dog runs", "two dogs play in the snow", "a man sits", "the men play", "snow falls")
LINES = [f"{line} {n}" for n in range(3) for line in SENTENCES]
SERIES = "x\n" + "".join(f"{n % 7}\n" for n in range(90))
HELD_OUT = {"held_out": {"validation": 0.3}}
TASKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "translate": (
        {
            "data": {"train": ["train.tsv"], "validation": ["validation.tsv"]},
            "evaluation": {"lines": 4, "multiple_references": "|"},
            "tokenizer": {"kind": "word"},
        },
        {"encoder": SMALL, "decoder": SMALL},
    ),
    "language_model": (
        {"data": {"train": ["train.txt"], "validation": ["validation.txt"]}, "unit": "line"},
        {"decoder": SMALL},
    ),
    "language_model, running": (
        {"data": {"train": ["train.txt"]}, "stream": {"streams": 2, "length": 9}, **HELD_OUT},
        {"decoder": SMALL},
    ),
    "classify": (
        {"data": {"train": ["train.tsv"], "validation": ["validation.tsv"]}},
        {"encoder": SMALL},
    ),
    "classify, held out": ({"data": {"train": ["train.tsv"]}, **HELD_OUT}, {"encoder": SMALL}),
    "tag": (
        {"data": {"train": ["train.tags"], "validation": ["validation.tags"]}},
        {"encoder": SMALL},
    ),
    "forecast": (
        {"data": {"file": "series.csv"}, "window": {"look_back": 8, "horizon": 3}},
        {"encoder": SMALL},
    ),
}
"""The sections of each recipe, and the model's parts."""


def write(folder: Path, lines: list[str]) -> None:
    """Files of every task, both parts of the same lines."""
    folder.mkdir(parents=True, exist_ok=True)
    tagged = ("".join(f"{word} {word[0]}\n" for word in line.split()) for line in lines)
    forms = {
        "txt": "".join(f"{line}\n" for line in lines),
        "tsv": "".join(f"{line.split()[0]}\t{line}\n" for line in lines),
        "tags": "\n".join(tagged),
    }
    for part in ("train", "validation"):
        for form, text in forms.items():
            (folder / f"{part}.{form}").write_text(text)
    (folder / "series.csv").write_text(SERIES)


def recipe(name: str, folder: Path) -> dict[str, Any]:
    sections, model = TASKS[name]
    return sections | {
        "task": name.partition(",")[0],
        "data": sections["data"] | {"folder": str(folder)},
        "model": {"dim": 8, "tie": "none", **model},
        "train": TRAIN | {"allow": ["data.leaked"]},
    }


class Stop(Exception):
    pass


def stop(record: dict[str, Any]) -> None:
    if (record["kind"], record.get("update")) == ("validation", 4):
        raise Stop


def lose(data: Path) -> None:
    shutil.rmtree(data)


def alter(data: Path) -> None:
    """All files but their forms are others."""
    write(data, [line.replace("dog", "snow snow").replace("man", "dog") for line in LINES[::-1]])
    (data / "series.csv").write_text(SERIES.replace("3", "9"))


@pytest.mark.parametrize("name", TASKS)
def test_files_that_are_lost_or_changed_change_nothing(name: str, tmp_path: Path):
    harms: list[Callable[[Path], None] | None] = [None, lose, alter]
    outcomes = []
    for number, harm in enumerate(harms):
        data, run = tmp_path / "data", tmp_path / f"run{number}"
        write(data, LINES)
        if harm is None:
            regard.train(recipe(name, data), to=run)
        else:
            with pytest.raises(Stop):
                regard.train(recipe(name, data), to=run, callback=stop)
            harm(data)
            regard.train(resume=run)
        outcomes.append(tiny.outcome(run))
    told = [record for record in outcomes[0]["records"] if record["kind"] == "validation"]
    assert [record["update"] for record in told] == [2, 4, 6, 8]
    shown = [record for record in outcomes[0]["records"] if record["kind"] == "samples"]
    assert [record["update"] for record in shown] == [2, 4, 6, 8]
    assert all({"input_3", "wanted_3", "got_3"} <= record.keys() for record in shown)
    assert len({tuple(record[f"input_{n}"] for n in (1, 2, 3)) for record in shown}) == 1
    assert outcomes[1] == outcomes[0]
    assert outcomes[2] == outcomes[0]


def test_pretrained_vectors_are_part_of_the_run(tmp_path: Path):
    """A run that was killed before its first checkpoint begins again with the same vectors."""
    outcomes = []
    for number in range(2):
        run, path = tmp_path / f"run{number}", tmp_path / "vectors.txt"
        write(tmp_path / "data", LINES)
        words = ("a", "two", "the", "dog", "snow")
        rows = (f"{word}{' 0.1' * n}{' -3e-7' * (8 - n)}\n" for n, word in enumerate(words))
        path.write_text("".join(rows))
        made = recipe("classify", tmp_path / "data")
        made["model"]["input"] = {"vectors": str(path)}
        made["tokenizer"] = {"kind": "word"}
        if number:
            with pytest.raises(Stop):
                regard.train(made, to=run, callback=stop)
            shutil.rmtree(run / "checkpoints")
            (run / "metrics.jsonl").unlink()
            path.write_text("dog 1 2 3 4 5 6 7 8\n")
            regard.train(resume=run)
        else:
            regard.train(made, to=run)
        outcomes.append(tiny.outcome(run))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_samples_change_nothing_else(kind: str, tmp_path: Path):
    """Not the draws of dropout, nor any other record."""
    made, outcomes = tiny.write(kind, tmp_path / "data"), []
    for count in (0, 2):
        run = tmp_path / f"run{count}"
        regard.train(made, f"train.samples={count}", to=run)
        outcomes.append(tiny.outcome(run))
    without, shown = outcomes
    samples = [record for record in shown["records"] if record["kind"] == "samples"]
    assert [record["update"] for record in samples] == [4, 8, 12]
    assert all("got_2" in record and "got_3" not in record for record in samples)
    assert without["weights"] == shown["weights"]
    assert without["records"] == [r for r in shown["records"] if r["kind"] != "samples"]
