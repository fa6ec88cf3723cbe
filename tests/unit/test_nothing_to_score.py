"""Labels and tags that are not known: what is scored, and what is said where nothing is left."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from regard import cli, front
from regard.checks import labels as doctor
from regard.data import files
from regard.doctor.examination import plan_of
from regard.doctor.reading import read
from regard.errors import UserError
from regard.recipe.config import from_table
from regard.runs import Run
from tests import small_runs

RNN = {"kind": "rnn", "cell": "gru", "layers": 1}


def made(task: str, folder: Path, unseen: str = "refuse", **data: Any) -> Run:
    """A run whose test part is test.txt or test.tsv."""
    name = {"tag": "test.txt", "classify": "test.tsv"}[task]
    place = folder.with_name(f"{folder.name}-data")
    place.mkdir(parents=True, exist_ok=True)
    parts = small_runs.TASKS[task]["data"] | {"folder": str(place), "test": [name]} | data
    (place / "test.txt").write_text("a _\ndog _\n\nruns _\n")
    (place / "test.tsv").write_text("odd\ta dog\nodd\truns\n")
    return small_runs.create(task, {"encoder": RNN}, folder, data=parts, labels={"unseen": unseen})


def test_a_sentence_without_a_known_tag_has_no_likelihood(tmp_path: Path):
    found = front.Predictor(made("tag", tmp_path / "run"))
    lines = ["a dog runs", "a dog runs", ""]
    known, unknown, empty = found.score(lines, ["good _ bad", "_ _ _", ""])
    assert known["perplexity"] == pytest.approx(math.exp(-known["log_prob"] / 2))
    assert len(known["log_probs"]) == 2
    for nothing in (unknown, empty):
        assert (nothing["log_prob"], nothing["perplexity"]) == (None, None)
        assert nothing["log_probs"] == []


def test_the_command_line_says_that_there_is_nothing_to_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = str(made("tag", tmp_path / "run").folder)
    cli.main(["score", run])
    said = capsys.readouterr()
    assert said.out == "-\t-\n-\t-\n"
    assert "2 texts: there is nothing to score" in said.err
    assert "perplexity" not in said.err
    cli.main(["score", run, "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["perplexity"] for line in lines] == [None, None]
    with pytest.raises(SystemExit, match="1"):
        cli.main(["evaluate", run])
    said = capsys.readouterr()
    assert "test: not one word has a tag that is known: there is nothing to score" in said.err
    assert said.out == ""


@pytest.mark.parametrize(("task", "one"), [("tag", "good odd"), ("classify", "odd")])
def test_scores_follow_the_rule_for_labels_that_training_never_saw(
    task: str, one: str, tmp_path: Path
):
    """The hint to labels.unseen = 'wrong' is for evaluation; score knows no such choice."""
    refused = front.Predictor(made(task, tmp_path / "run"))
    with pytest.raises(UserError, match=r"'odd' was never seen in training$"):
        refused.score(["a dog"], [one])
    left_out = front.Predictor(made(task, tmp_path / "other", "wrong"))
    [found] = left_out.score(["a dog"], [one])
    assert len(found["log_probs"]) == (task == "tag")
    assert (found["log_prob"] is None) is (task == "classify")


@pytest.mark.parametrize("rule", ["refuse", "wrong"])
@pytest.mark.parametrize("task", ["tag", "classify"])
def test_new_labels_cannot_be_learnt_by_the_model_of_another_run(
    task: str, rule: str, tmp_path: Path
):
    """Whatever the rule: training saw them in this very file, so nobody could say "never"."""
    base = made(task, tmp_path / "run")
    file = {"tag": "new.txt", "classify": "new.tsv"}[task]
    text = {"tag": "a good\ndog odd\n", "classify": "good\ta dog\nodd\truns\n"}[task]
    (tmp_path / file).write_text(text)
    table = small_runs.table(task, {"encoder": RNN}, tmp_path / "new-data")
    table |= {"data": {"train": [str(tmp_path / file)]}, "labels": {"unseen": rule}}
    table["model"] = {"weights": str(base.folder)}
    del table["tokenizer"]
    place = 1 if task == "tag" else 2
    said = rf"{file}:{place}: the label 'odd' was never seen by the run that is trained on"
    with pytest.raises(UserError, match=rf"{said}(; did you mean '\w+'\?)?$"):
        Run.create(tmp_path / "on", from_table(table))
    with pytest.raises(UserError, match=r"'odd' was never seen by the run that is trained on"):
        front.create(tmp_path / "on", from_table(table))
    assert not (tmp_path / "on").exists()


def test_the_doctor_tells_new_labels_from_those_of_a_test(tmp_path: Path):
    run = made("classify", tmp_path / "run")
    table = small_runs.table("classify", {"encoder": RNN}, tmp_path / "run-data")
    table["data"] |= {"test": ["test.tsv"]}
    plan = plan_of(from_table(table))
    names: list[files.Part] = ["train", "test"]
    parts = [part for name in names if (part := read(plan, {}, name, 99)[0])]
    known = run.task.names[:2]  # type: ignore[attr-defined]
    found = doctor.check(parts, unseen="wrong", single=True, known=known)
    kinds = [(f.code, f.severity) for f in found if f.code in ("labels.unseen", "labels.foreign")]
    assert kinds == [("labels.foreign", "error"), ("labels.unseen", "warning")]
    found = doctor.check(parts, unseen="wrong", single=True)
    assert [f.what for f in found if f.code == "labels.unseen"] == [
        "the label 'odd' was never seen in training"
    ]
