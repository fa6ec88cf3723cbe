"""Masked language models, from plain text to words for blanks."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import cli, front
from regard.errors import RecipeError, UserError
from regard.front import Predictor
from regard.recipe.config import from_table
from regard.runs import Run
from regard.train.checkpoint import Checkpoint
from regard.types import Position

BLOCKS = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 32, "dropout": 0.0}
PRE = {"norm": "pre", "position": "learned"}
COLOURS = {"sky": "blue", "grass": "green", "snow": "white", "blood": "red"}


def sentence(dice: random.Random) -> str:
    thing = dice.choice([*COLOURS])
    return f"{dice.choice(['look', 'see', 'so'])} the {thing} is {COLOURS[thing]} ."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("masked")
    dice = random.Random(1)
    texts = [" ".join(sentence(dice) for _ in range(dice.randint(1, 3))) for _ in range(300)]
    (made / "train.txt").write_text("\n".join(texts[:260]) + "\n")
    (made / "test.txt").write_text("\n".join(texts[260:]) + "\n")
    paragraphs = [text.replace(" .", " .\n") for text in texts]
    (made / "paragraphs.txt").write_text("\n".join(paragraphs))
    return made


def table(folder: Path, **sections: Any) -> dict[str, Any]:
    """A recipe; `sections` add to its own."""
    parts = {"train": ["train.txt"], "validation": ["test.txt"], "test": ["test.txt"]}
    made: dict[str, Any] = {
        "task": "masked_language_model",
        "data": {"folder": str(folder), **parts},
        "windows": {"length": 12},
        "tokenizer": {"kind": "word"},
        "batch": {"tokens": 512},
        "model": {"dim": 16, "encoder": BLOCKS},
        "train": {
            "updates": 4, "validate_every": 2, "save_every": 2, "threads": 1, "samples": 1,
            "allow": ["data.leaked"],
        },
    }  # fmt: skip
    for name, section in sections.items():
        made[name] = {**made.get(name, {}), **section} if isinstance(section, dict) else section
    return made


@pytest.fixture(scope="module")
def trained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    sections = {
        "windows": {"length": 24},
        "masking": {"fraction": 0.2},
        "model": {"dim": 32, "encoder": {**BLOCKS, "feedforward": 64, **PRE}},
        "train": {
            "updates": 250, "validate_every": 125, "optimizer": {"learning_rate": 0.01},
            "schedule": {"kind": "linear", "warmup": 20},
        },
    }  # fmt: skip
    return front.train(table(folder, **sections), to=tmp_path_factory.mktemp("run") / "run")


def weights(run: Path) -> dict[str, torch.Tensor]:
    return Checkpoint(run / "model").weights()


def test_it_learns_what_stands_around_a_blank(trained: Predictor):
    asked = [f"look the {thing} is [MASK] ." for thing in COLOURS]
    found = list(trained.predictions(asked, top=2))
    assert [made.masks[0][0]["word"] for made in found] == [*COLOURS.values()]
    assert all(len(made.masks[0]) == 2 for made in found)
    [both] = trained.predictions(["see the [MASK] is red . so the snow is [MASK] ."])
    assert both.filled == "see the blood is red . so the snow is white ."
    [parted] = trained.predictions(["see the [MASK] is red . [SEP] so the snow is [MASK] ."])
    said = str(parted.filled)
    assert len(parted.masks) == 2 and "[MASK]" not in said and " [SEP] " in said
    right, wrong = trained.score(["so the sky is blue .", "so the sky is red ."])
    assert right["log_prob"] > wrong["log_prob"] + 1


def test_scores_are_those_of_validation(trained: Predictor):
    scores, texts = trained.evaluate("test")
    records = [r for r in trained.run.records() if r["kind"] == "validation"]
    best = min(record["nll"] for record in records)
    assert scores["nll"].value == pytest.approx(best, rel=1e-4)  # the same texts, the same blanks
    assert scores["accuracy"].value > 60
    assert len(texts) == 40
    assert "hidden:0.2/0.8/0.1-tokens|window:24|draw:0" in scores["nll"].signature


def test_the_command_gives_ranked_words(trained: Predictor, capsys: pytest.CaptureFixture[str]):
    run = str(trained.run.folder)
    cli.main(["predict", run, "see the grass is [MASK] .", "--top", "3", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [len(words) for words in found["masks"]] == [3]
    assert found["masks"][0][0]["word"] == "green" and found["status"] == "ok"
    cli.main(["predict", run, "the grass is green ."])
    said = capsys.readouterr()
    assert said.out == "\n" and "has no [MASK]" in said.err
    with pytest.raises(SystemExit):
        cli.main(["predict", run, "a [MASK]", "--top", "0"])
    assert "top: 0 must be ≥ 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "sections",
    [
        {"windows": {"length": 8, "crosses": True}},
        {"windows": {"length": 8, "documents": "paragraph"}, "data": {"train": ["paragraphs.txt"]}},
        {"masking": {"whole_words": True, "fraction": 0.4},
         "tokenizer": {"kind": "bpe", "vocabulary": 300}},
        {"model": {"encoder": {"kind": "rnn", "layers": 1}, "tie": "none"}},
        {"model": {"encoder": {**BLOCKS, "position": "rotary"}, "head": {"transform": False}}},
        {"pairs": {"next_sentence": True},
         "model": {"input": {"segments": 2},
                   "heads": {"next": {"kind": "labels", "pooler": True}}}},
    ],
    ids=["crosses", "paragraphs", "whole words", "rnn", "rotary", "pairs"],
)  # fmt: skip
def test_a_kill_and_a_resume_change_nothing(sections: Any, folder: Path, tmp_path: Path):
    """Windows, what is hidden and pairs are functions of seed, epoch and place."""
    made = table(folder, **sections)
    made["train"] |= {"save_every": 1, "log_every": 1}
    front.train(made, to=tmp_path / "straight")

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        front.train(made, to=tmp_path / "stopped", callback=stop)
    front.train(resume=tmp_path / "stopped")
    one, other = weights(tmp_path / "straight"), weights(tmp_path / "stopped")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_each_epoch_hides_other_tokens(folder: Path, tmp_path: Path):
    run = Run.create(tmp_path / "run", from_table(table(folder)))
    batches = run.task.batches(1)
    first = batches.at(Position(0, 0))
    assert torch.equal(first["source"], run.task.batches(1).at(Position(0, 0))["source"])
    part = batches.at(Position(0, 0), slice(3, 7))
    width = part["source"].shape[1]
    assert torch.equal(first["source"][3:7, :width], part["source"])
    counts = []
    for epoch in range(2):
        place, targets = Position(epoch, 0), 0
        while place.epoch == epoch:
            targets += batches.at(place).targets
            place = batches.after(place)
        counts.append(targets)
    task: Any = run.task
    tokens = sum(map(len, task._stored("train").store.read_all("source")))
    assert counts == pytest.approx([0.15 * tokens] * 2, rel=0.15)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"windows": {"length": 2}}, "windows.length: 2 has no room for a text"),
        ({"data": {"columns": [1, 2]}}, "data.columns: a text has 1 column, not 2"),
        ({"model": {"head": {"kind": "vocabulary"}}}, "'vocabulary' is not for the task"),
        ({"model": {"encoder": {**BLOCKS, "position": "learned", "limit": 8}}},
         "model.encoder.limit: 8 positions, but windows.length = 12 asks for 12"),
        ({"pairs": {"next_sentence": True}}, "heads.next.kind: pairs.next_sentence wants one"),
        ({"model": {"heads": {"next": {"kind": "labels"}}}}, "set pairs.next_sentence = true"),
        ({"pairs": {"next_sentence": True}, "model": {"heads": {"next": {"kind": "tags"}}}},
         "'tags' predicts no labels"),
        ({"pairs": {"next_sentence": True}, "windows": {"crosses": True},
          "model": {"heads": {"next": {"kind": "labels"}}}}, "a passage of a pair is of one"),
        ({"masking": {"fraction": 0.0}}, "masking.fraction"),
        ({"masking": {"masked": 0.9, "random": 0.2}}, "masking.masked: with random"),
        ({"model": {"heads": {"other": {"kind": "labels"}}}}, "model.heads.other"),
    ],
)  # fmt: skip
def test_what_is_refused_before_any_data_is_read(sections: Any, said: str, folder: Path):
    made = table(folder, **sections)
    made["model"] = {**table(folder)["model"], **made["model"]}
    with pytest.raises(RecipeError) as error:
        from_table(made)
    assert said in str(error.value)


def test_what_is_given_for_a_blank_must_fit(trained: Predictor):
    task, model = trained.task, trained.model
    search = trained.search()
    shown = task.look(model, "the sky is [MASK] .", search, "red", 5)  # type: ignore[attr-defined]
    assert shown.said == ["red"] and shown.given == 1 and shown.blanks == [4]
    with pytest.raises(UserError, match="2 words for 1 blanks"):
        task.look(model, "the sky is [MASK] .", search, "red blue", 5)  # type: ignore[attr-defined]
