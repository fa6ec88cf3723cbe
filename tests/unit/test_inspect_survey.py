"""What heads do over many sentences: counted right, and its cost the true one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import cli
from regard.errors import UserError
from regard.inspect import pictures, report
from regard.inspect.intervene import WithoutHead, intervene
from regard.inspect.reading import Reading
from regard.inspect.survey import _measures, examples, likelihood, survey
from regard.inspect.views import read
from regard.runs import Run
from tests import small_runs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_runs.make("transformer", tmp_path_factory.mktemp("survey") / "transformer")


def test_where_heads_look_is_counted(run: Run):
    """A head that looks at the previous token alone, and one that looks everywhere."""
    previous = np.eye(4, k=-1)
    previous[0, 0] = 1
    weights = np.stack([previous, np.full((4, 4), 1 / 4)])
    given: Any = Reading.__new__(Reading)
    found = _measures(weights, "encoder", given, [])
    means = {what: (total / count).tolist() for what, (total, count) in found.items()}
    assert means["previous"] == pytest.approx([1, 1 / 4])
    assert means["itself"] == pytest.approx([1 / 4, 1 / 4])
    assert means["next"] == pytest.approx([0, 1 / 4])
    assert means["first"] == pytest.approx([1 / 2, 1 / 4])
    assert means["spread"] == pytest.approx([1, 4])


def test_alignment_is_counted_by_words(run: Run):
    """Of words (0, 1) and (1, 3): tokens 1 and 2 together outweigh token 0."""
    task, model = run.task, run.model()
    reading = read(run, task, model, "a dog", report.search(run, report.Options()), target="a dog")
    object.__setattr__(reading, "source_words", [(0, 1), (1, 3)])
    weights = np.array([[[0.4, 0.3, 0.3], [0.8, 0.1, 0.1], [0.9, 0.1, 0.0]]])
    found = _measures(weights, "cross", reading, [(0, 1), (1, 1)])
    assert found["says"][0].tolist() == [1] and found["says"][1] == 2
    assert found["reads"][0].tolist() == [0] and found["reads"][1] == 2


def test_a_survey_covers_every_head(run: Run):
    found = survey(run, part="train", sentences=3)
    assert [str(head) for head in found.heads] == [
        f"{kind}.{layer}.{head}"
        for kind in ("encoder", "decoder", "cross")
        for layer in range(2)
        for head in range(2)
    ]
    task, model = run.task, run.model()
    sides = examples(task, "train", 3)
    assert (len(sides[0]), found.sentences) == (3, 3)
    nll, symbols = likelihood(task, model, sides)
    assert found.nll == pytest.approx(nll) and found.symbols == symbols
    with intervene(model, WithoutHead("cross", 1, 0)):
        changed, _ = likelihood(task, model, sides)
    (one,) = [head for head in found.heads if str(head) == "cross.1.0"]
    assert one.cost == pytest.approx(changed - nll) and one.cost != 0
    assert found.best(lambda head: head.says).kind == "cross"
    assert found.best(lambda head: head.weights.get("next")).kind == "encoder"
    for head in found.heads:
        assert all(0 <= weight <= 1 for weight in head.weights.values())
        assert (head.says is None) == (head.kind != "cross")
        if head.kind == "decoder":
            assert head.weights["next"] == 0


def test_the_command_prints_the_survey(run: Run, capsys: pytest.CaptureFixture[str]):
    cli.main(["inspect", str(run.folder), "--heads", "--sentences", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["head", "previous", "itself", "next", "first", "last", "says",
                                "reads", "spread", "cost"]  # fmt: skip
    assert [line.split()[0] for line in lines[1:13]][-1] == "cross.1.1"
    assert "2 sentences" in "\n".join(lines)
    cli.main(["inspect", str(run.folder), "--heads", "--sentences", "2", "--json"])
    assert len(json.loads(capsys.readouterr().out)["heads"]) == 12


def test_a_survey_is_a_view_of_the_page_and_a_picture(run: Run, tmp_path: Path):
    made = report.build([run], ["a dog"], report.Options(target="a dog", sentences=2))
    (reading,) = made.runs[0]["frames"][0]["readings"]
    assert len(reading["heads"]["heads"]) == 12
    names = {name for name, _ in pictures.pictures(made, reading)}
    assert {"heads-encoder", "heads-decoder", "heads-cross"} <= names


def test_a_model_without_heads_cannot_be_surveyed(tmp_path: Path):
    recurrent = small_runs.make("lstm", tmp_path / "lstm")
    with pytest.raises(UserError, match="no attention heads"):
        survey(recurrent)
