"""Classification, from labelled texts to calibrated labels."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import cli, front
from regard.data.store import Store
from regard.errors import RecipeError, UserError
from regard.front import Predictor
from regard.layers.pooling import Kind
from regard.model import Model, build
from regard.recipe.config import from_table
from regard.recipe.parts import kinds
from regard.runs import Run
from regard.tasks.classify import Task
from regard.train.checkpoint import Checkpoint
from regard.types import Batch, Position
from tests.fault import forger

BLOCKS = {"layers": 1, "heads": 2, "feedforward": 32}
SMALL: dict[str, dict[str, Any]] = {"transformer": BLOCKS, "decoder": BLOCKS}
"""What the default of an encoder is too large for."""
POOLINGS: list[Kind] = ["last", "ends", "class", "mean", "max", "attention"]
FILLERS = ["the", "a", "film", "plot", "actor", "it", "was", "so", "and", "then"]
GOOD, BAD = ["great", "fine", "superb"], ["bad", "awful", "poor"]


def review(dice: random.Random) -> tuple[str, str]:
    """A label and a text in which a word of praise or blame stands, or the other kind after not."""
    praise, negated = dice.random() < 0.5, dice.random() < 0.4
    words = dice.choices(FILLERS, k=dice.randint(3, 9))
    key = dice.choice(GOOD if praise != negated else BAD)
    place = dice.randrange(len(words) + 1)
    words[place:place] = ["not", key] if negated else [key]
    return "praise" if praise else "blame", " ".join(words)


def write(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("".join(f"{label}\t{text}\n" for label, text in rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("classify")
    dice = random.Random(1)
    write(made / "train.tsv", [review(dice) for _ in range(500)])
    write(made / "test.tsv", [review(dice) for _ in range(150)])
    return made


def table(folder: Path, **sections: Any) -> dict[str, Any]:
    """A recipe; `sections` add to its own."""
    made: dict[str, Any] = {
        "task": "classify",
        "data": {"folder": str(folder), "train": ["train.tsv"], "test": ["test.tsv"]},
        "held_out": {"validation": 0.1},
        "tokenizer": {"kind": "word"},
        "batch": {"tokens": 400},
        "model": {"dim": 16, "encoder": {"kind": "rnn", "cell": "gru", "layers": 1}},
        "train": {
            "updates": 100,
            "log_every": 1000,
            "validate_every": 50,
            "save_every": 50,
            "metric": "accuracy",
            "threads": 1,
            "precision": "float32",
            "optimizer": {"learning_rate": 0.02},
            "schedule": {"kind": "cosine", "warmup": 5},
        },
    }
    for name, value in sections.items():
        made[name] = made.get(name, {}) | value if isinstance(value, dict) else value
    return made


@pytest.fixture(scope="module")
def trained(folder: Path) -> Predictor:
    return front.train(table(folder), to=folder / "trained")


def untrained(made: dict[str, Any], to: Path) -> tuple[Task, Model]:
    run = Run.create(to, from_table(made))
    task: Any = run.task
    return task, build(run.recipe.model, task.sizes)


def model_section(**parts: Any) -> dict[str, Any]:
    return {"dim": 16, "encoder": {"kind": "bag"}, **parts}


# Learning


def test_a_recurrent_net_learns_that_not_turns_the_meaning(trained: Predictor):
    scores, outputs = trained.evaluate("test")
    assert scores["accuracy"].value >= 97
    assert scores["f1"].value >= 97
    assert set(scores) == {"accuracy", "f1", "f1:blame", "f1:praise", "nll", "ece"}
    assert len(outputs) == 150
    said = trained.predict(["it was not great", "it was great", "so not awful and then"])
    assert said == ["blame", "praise", "praise"]
    assert (trained.run.folder / "confusion-test.png").stat().st_size > 1000


def test_a_bag_of_pairs_learns_it_and_a_bag_of_words_cannot(folder: Path, tmp_path: Path):
    found = {}
    for n in (1, 2):
        parts = model_section(input={"kind": "ngrams", "n": n, "bits": 10})
        made = table(folder, model=parts)
        made["train"] |= {"optimizer": {"learning_rate": 0.05}}
        model = front.train(made, to=tmp_path / str(n))
        found[n] = model.evaluate("test")[0]["accuracy"].value
    assert found[2] >= 85
    assert found[1] <= 70


@pytest.mark.parametrize("encoder", kinds("encoders"))
def test_every_encoder_learns_one_batch_by_heart(encoder: str, folder: Path, tmp_path: Path):
    rows = [("ab"[n % 2], f"the w{n} was x{n}") for n in range(10)]
    for part in ("train", "test"):
        write(tmp_path / f"{part}.tsv", rows)
    parts = {"dim": 16, "encoder": {"kind": encoder, **SMALL.get(encoder, {})}}
    made = table(tmp_path, model=parts) | {"held_out": {}}
    del made["data"]["test"]
    task, model = untrained(made, tmp_path / "run")
    batch = task.batches(1).at(Position(0, 0))
    steps = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.03)
    losses = []
    for _ in range(50):
        terms, carry = task.loss(model, batch)
        assert carry is None
        losses.append(float(terms["nll"].sum.detach()) / batch.targets)
        steps.zero_grad()
        (terms["loss"].sum / batch.targets).backward()
        steps.step()
    assert losses[0] > 0.3
    assert min(losses[-5:]) < 0.05


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_text_is_judged_alone_whatever_the_batch(pooling: str, folder: Path, tmp_path: Path):
    parts = {"dim": 16, "head": {"pooling": pooling}, "input": {"kind": "words"}}
    made = table(folder, characters=True, model=parts)
    task, model = untrained(made, tmp_path / "run")
    rows = task.source.encode(["a film", "the actor was so fine and then it was", "not bad zzz"])
    together, alone = task._logits(model, rows, 3), task._logits(model, rows, 1)
    assert together == pytest.approx(alone, abs=1e-5)


def test_resume_is_exact(folder: Path, tmp_path: Path):
    made = table(folder, characters=True, model={"dim": 16, "input": {"kind": "words"}})
    made["train"] |= {"updates": 8, "save_every": 3, "validate_every": 4, "log_every": 1}
    front.train(made, to=tmp_path / "straight")

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        front.train(made, to=tmp_path / "stopped", callback=stop)
    front.train(resume=tmp_path / "stopped")
    for name in ("checkpoints/00000006", "checkpoints/00000008", "model"):
        one, other = (
            Checkpoint(tmp_path / run / name).weights() for run in ("straight", "stopped")
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_run_goes_on_with_another_ones_words_and_labels(
    trained: Predictor, folder: Path, tmp_path: Path
):
    made = table(folder)
    made["train"] |= {"updates": 1, "validate_every": 0}
    after = front.train(made, to=tmp_path / "on", start_from=trained.run.folder)
    one, other = (run.run.folder / "source.tokenizer.json" for run in (trained, after))
    assert one.read_text() == other.read_text()
    assert after.predict(["it was not great"]) == ["blame"]
    write(tmp_path / "new.tsv", [("new", "a film"), ("praise", "fine")])
    made["data"]["train"] = [str(tmp_path / "new.tsv")]
    with pytest.raises(UserError, match=r"new.tsv:1: the label 'new' was never seen"):
        front.train(made | {"held_out": {}}, to=tmp_path / "x", start_from=trained.run.folder)


# Data


def test_what_is_held_out_is_not_learnt_from(trained: Predictor, folder: Path):
    task: Any = trained.task
    held_out, _ = task.references("validation")
    learnt, _ = task.references("train")
    assert not set(held_out) & set(learnt)
    lines = (folder / "train.tsv").read_text().splitlines()
    assert len(held_out) + len(learnt) == len(lines) == 500
    assert len(Store(trained.run.folder / "store", "validation")) == len(held_out)
    assert 25 < len(held_out) < 80


def test_stored_labels_of_another_type_are_refused(folder: Path, tmp_path: Path):
    """All hashes agree; as halves, the bits of small numbers are almost nothing: of no label."""
    task, model = untrained(table(folder), tmp_path / "run")
    path = task.folder / "store" / "validation.json"
    index = json.loads(path.read_text())
    assert index["columns"]["labels"]["dtype"] == "u2"
    index["columns"]["labels"]["dtype"] = "f2"
    path.write_text(json.dumps(index))
    forger.agree(task.folder)
    with pytest.raises(UserError, match=r"validation\.labels is of type f2 instead of u2"):
        task.validate(model)


def test_class_weights_make_labels_count_the_same(folder: Path, tmp_path: Path):
    rows = [("a", f"x {n}") for n in range(6)] + [("b", "y"), ("c", "z z")]
    write(tmp_path / "train.tsv", rows)
    made = table(tmp_path, labels={"weights": "balanced"}) | {"held_out": {}}
    made["data"] = {"folder": str(tmp_path), "train": ["train.tsv"]}
    task, model = untrained(made, tmp_path / "run")
    assert task._weights is not None
    assert task._weights.tolist() == pytest.approx([8 / 18, 8 / 3, 8 / 3])
    [batch] = [task.batches(1).at(Position(0, 0))]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.head.temperature.fill_(1.0)  # type: ignore[attr-defined]
    terms, _ = task.loss(model, batch)
    # All labels are as likely: 8 texts, whose weights have a mean of 1.
    assert float(terms["loss"].sum.detach()) == pytest.approx(8 * math.log(3), rel=1e-5)
    assert float(terms["nll"].sum) == pytest.approx(8 * math.log(3), rel=1e-5)


def test_a_label_that_training_never_saw(trained: Predictor, folder: Path, tmp_path: Path):
    rows = [("praise", "it was great"), ("mixed", "so so"), ("blame", "bad film")]
    write(tmp_path / "odd.tsv", rows)
    task: Any = trained.task
    data = table(folder)["data"] | {"test": [str(tmp_path / "odd.tsv")]}
    refuse = from_table(table(folder) | {"data": data}).task
    strict = Task(refuse, trained.run.folder)
    with pytest.raises(UserError, match=r"odd.tsv:2: the label 'mixed' was never seen in training"):
        strict.evaluate(trained.model, "test", trained.search())
    wrong = from_table(table(folder, labels={"unseen": "wrong"}) | {"data": data}).task
    scores, outputs = Task(wrong, trained.run.folder).evaluate(
        trained.model, "test", trained.search()
    )
    assert [output.text for output in outputs][::2] == ["praise", "blame"]
    assert scores["accuracy"].value == pytest.approx(200 / 3)
    assert scores["f1:mixed"].value == 0
    assert scores["nll"].signature.startswith("n:2|unseen:1")
    assert task.target.labels.names == ("blame", "praise")


def test_labels_that_cannot_be_learnt_or_scored(trained: Predictor, folder: Path, tmp_path: Path):
    write(tmp_path / "odd.tsv", [("mixed", "so so"), ("praise", "great")])
    made = table(folder, labels={"unseen": "wrong"}) | {"held_out": {}}
    made["data"] |= {"train": [str(tmp_path / "odd.tsv")]}
    begun = made | {"model": made["model"] | {"weights": str(trained.run.folder)}}
    with pytest.raises(UserError, match=r"odd.tsv:1: the label 'mixed' was never seen[^;]*$"):
        Run.create(tmp_path / "run", from_table(begun))
    write(tmp_path / "odd.tsv", [("mixed", "so so"), ("so", "great")])
    made["data"] |= {"train": ["train.tsv"], "validation": [str(tmp_path / "odd.tsv")]}
    with pytest.raises(UserError, match=r"data\.validation: training saw the labels of none"):
        Run.create(tmp_path / "run", from_table(made))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a\tx\na\ty\n", r"data.train: there must be at least two labels.*'a' alone"),
        ("a\tx\nb\n", r"train.tsv:2: 1 columns instead of 2"),
        ("a\t\nb\t \n", r"train.tsv: no usable line. The first: .*train.tsv:1: empty text"),
    ],
)
def test_data_that_cannot_be_learnt_from_leaves_no_run(tmp_path: Path, content: str, said: str):
    (tmp_path / "train.tsv").write_text(content)
    made = table(tmp_path) | {"held_out": {}}
    made["data"] = {"folder": str(tmp_path), "train": ["train.tsv"]}
    with pytest.raises(UserError, match=said):
        Run.create(tmp_path / "run", from_table(made))
    assert not (tmp_path / "run").exists()


def test_a_test_file_that_is_not_there_is_named_before_training(folder: Path, tmp_path: Path):
    made = table(folder)
    made["data"] |= {"test": ["tets.tsv"]}
    with pytest.raises(RecipeError, match=r"data\.test: .*tets\.tsv: there is no such file"):
        Run.create(tmp_path / "run", from_table(made))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["", "praise\t\n"], ids=["none", "empty"])
def test_a_test_part_that_cannot_be_used_is_nothing_to_training(
    content: str, folder: Path, tmp_path: Path
):
    (tmp_path / "odd.tsv").write_text(content)
    made = table(folder)
    made["data"] |= {"test": [str(tmp_path / "odd.tsv")]}
    run, _ = front.create(tmp_path / "run", from_table(made))
    assert len(Store(run.folder / "store", "train")) > 400
    names = [path.name for path in (run.folder / "store").iterdir()]
    assert {name.split(".")[0] for name in names} == {"train", "validation", "watched"}, (
        "nothing half read"
    )


def test_long_texts_are_cut_or_left_out(folder: Path, tmp_path: Path):
    data = table(folder)["data"]
    for rule, count in (("cut", 500), ("skip", 500)):
        made = table(folder, data=data | {"max_length": 6, "on_too_long": rule}) | {"held_out": {}}
        run = Run.create(tmp_path / rule, from_table(made))
        lengths = Store(run.folder / "store", "train").lengths("source")
        assert lengths.max() == 6
        assert (len(lengths) == count) is (rule == "cut")
        report = json.loads((run.folder / "data.json").read_text())
        assert report["skipped"]["more than 6 tokens (data.max_length)"] > 50
        assert report["used"] == len(lengths)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"train": {"metric": "bleu"}}, r"train.metric: 'bleu' is not one of nll, accuracy, f1"),
        ({"model": {"head": {"kind": "vocabulary"}}}, r"model.head.kind: 'vocabulary' is not for"),
        ({"data": {"train": ["x"], "columns": ["a"]}}, r"data.columns: the label's and the text's"),
        ({"model": {"input": {"kind": "words"}}}, r"to read characters, set characters"),
        ({"characters": True, "tokenizer": {"kind": "bpe"}}, r"characters: those of words need"),
        ({"labels": {"kind": "several", "separator": ""}}, r"labels.separator"),
        ({"held_out": {"test": 0.1}}, r"held_out.test: data.test names files"),
    ],
)
def test_recipes_that_cannot_work_are_refused(folder: Path, change: dict[str, Any], said: str):
    with pytest.raises(RecipeError, match=said):
        from_table(table(folder, **change))


def test_pretrained_vectors(folder: Path, tmp_path: Path):
    rows = "".join(f"{word} 1 2 3 4 5\n" for word in [*FILLERS, "GREAT", "fine"])
    (tmp_path / "vectors.txt").write_text(rows)
    vectors = {"kind": "words", "features": "words", "size": 5, "frozen_vectors": True}
    made = table(folder, model={"input": vectors | {"vectors": str(tmp_path / "vectors.txt")}})
    made["train"] |= {"updates": 2}
    told: list[str] = []
    model = front.train(made, to=tmp_path / "run", callback=lambda r: told.append(str(r)))
    assert any("11 of 17 words have a vector; 6 are drawn at random" in line for line in told)
    task: Any = model.task
    number = task.source.tokenizer.encode(["film"])[0][0]
    embedding: Any = model.model.input.embedding  # type: ignore[union-attr]
    assert embedding(torch.tensor([[number]])).flatten().tolist() == pytest.approx([1, 2, 3, 4, 5])
    made["model"]["input"]["size"] = 6
    with pytest.raises(UserError, match=r"vectors.txt: its vectors have dimension 5"):
        front.train(made, to=tmp_path / "other")


# Use


def test_there_is_one_prediction_for_each_line(trained: Predictor):
    inputs = ["it was great", "", "  ", "xyzzy plugh", "a " * 400 + "bad", "not fine"]
    found = list(trained.predictions(inputs, batch=2))
    assert [each.status for each in found] == ["ok", "empty", "empty", "unknown", "cut", "ok"]
    assert [bool(each.text) for each in found] == [True, False, False, True, True, True]
    assert found[0].as_dict()["probabilities"]["praise"] > 0.9
    for each in found:
        if each.text:
            assert sum(each.probabilities.values()) == pytest.approx(1)
            best = max(each.probabilities, key=lambda name: each.probabilities[name])
            assert each.text == best
            assert math.exp(each.score) == pytest.approx(each.probabilities[best])


def test_an_empty_line_of_a_test_counts_as_wrong(trained: Predictor, folder: Path, tmp_path: Path):
    (tmp_path / "gap.tsv").write_text("praise\tit was great\nblame\t\n")
    data = table(folder)["data"] | {"test": [str(tmp_path / "gap.tsv")]}
    task = Task(from_table(table(folder) | {"data": data}).task, trained.run.folder)
    scores, outputs = task.evaluate(trained.model, "test", trained.search())
    assert [each.status for each in outputs] == ["ok", "empty"]
    assert scores["accuracy"].value == 50


def test_scores_are_log_probabilities_of_labels(trained: Predictor):
    text = "the film was fine"
    [found] = trained.predictions([text])
    praise, blame = trained.score([text, text], ["praise", "blame"])
    assert praise["log_prob"] == pytest.approx(math.log(found.probabilities["praise"]), abs=1e-6)
    total = math.exp(praise["log_prob"]) + math.exp(blame["log_prob"])
    assert total == pytest.approx(1)
    with pytest.raises(UserError, match=r"label 1: the label 'prase' was never seen.*'praise'"):
        trained.score([text], ["prase"])
    scores, _ = trained.evaluate("test")
    lines = trained.score(*trained.task.references("test"))
    mean = -math.fsum(line["log_prob"] for line in lines) / len(lines)
    assert scores["nll"].value == pytest.approx(mean, abs=1e-6)


def test_the_temperature_is_stored_with_the_model(folder: Path, tmp_path: Path):
    """A model that is trained to be too sure is calmed down, and gives the same labels."""
    dice = random.Random(5)
    rows = [review(dice) for _ in range(120)]
    flipped = [(dice.choice(["praise", "blame"]), text) for _, text in rows[:40]]
    write(tmp_path / "train.tsv", [*rows[40:], *flipped])
    write(tmp_path / "validation.tsv", [review(dice) for _ in range(80)])
    made = table(tmp_path) | {"held_out": {}}
    made["data"] = {
        "folder": str(tmp_path), "train": ["train.tsv"],
        "validation": ["validation.tsv"], "test": ["validation.tsv"],
    }  # fmt: skip
    made["train"] |= {"validate_every": 0}
    model = front.train(made, to=tmp_path / "run")
    told = Checkpoint(tmp_path / "run" / "model").progress()["calibration"]
    head: Any = model.model.head
    assert told["temperature"] == pytest.approx(float(head.temperature))
    assert told["temperature"] > 1.2
    assert told["ece"] < told["ece_before"]
    scores, calm = model.evaluate("test")
    assert scores["ece"].value == pytest.approx(told["ece"], abs=1e-3)
    raw = front.load(tmp_path / "run", checkpoint="last")
    hot, before = raw.evaluate("test")
    assert float(raw.model.head.temperature) == 1.0  # type: ignore[attr-defined]
    assert [each.text for each in before] == [each.text for each in calm]
    assert scores["nll"].value < hot["nll"].value


def test_several_labels(tmp_path: Path):
    """Each of three words has its label, so a text has none to three of them."""
    dice = random.Random(2)
    names = {"great": "praise", "long": "length", "loud": "sound"}
    lines = []
    for _ in range(400):
        words = [word for word in names if dice.random() < 0.5]
        text = [*words, *dice.choices(FILLERS, k=4)]
        dice.shuffle(text)
        lines.append({"label": sorted(names[word] for word in words), "text": " ".join(text)})
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = table(tmp_path, labels={"kind": "several", "weights": "balanced"}, model=model_section())
    made["data"] = {"folder": str(tmp_path), "train": ["train.jsonl"]}
    made["held_out"] = {"validation": 0.1, "test": 0.2}
    model = front.train(made, to=tmp_path / "run")
    scores, _ = model.evaluate("test")
    assert scores["accuracy"].value >= 95
    assert scores["f1.micro"].value >= 97
    found = list(model.predictions(["it was great and long", "so it was", "loud"]))
    assert [each.text for each in found] == ["length,praise", "", "sound"]
    assert [each.status for each in found] == ["ok"] * 3
    assert found[0].tokens == ["length", "praise"]
    both = model.score(["it was great and long"], ["praise, length"])[0]
    assert both["log_prob"] == pytest.approx(found[0].score)
    assert model.score(["so it was"], [""])[0]["log_prob"] == pytest.approx(found[1].score)


def test_the_command_line(trained: Predictor, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    run = str(trained.run.folder)
    (tmp_path / "in.txt").write_text("it was not great\n\nsuperb\n")
    cli.main(["predict", run, str(tmp_path / "in.txt")])
    assert capsys.readouterr().out == "blame\n\npraise\n"
    cli.main(["predict", run, str(tmp_path / "in.txt"), "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["status"] for line in lines] == ["ok", "empty", "ok"]
    assert set(lines[0]["probabilities"]) == {"blame", "praise"}
    cli.main(["evaluate", run, "--json"])
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["accuracy"]["score"] >= 97
    cli.main(["score", run, "--json"])
    assert len(capsys.readouterr().out.splitlines()) == 150
    with pytest.raises(SystemExit):
        cli.main(["predict", run, str(tmp_path / "in.txt"), "--beams", "3"])
    assert "beams: the task classify has no search" in capsys.readouterr().err


def test_a_batch_knows_its_targets(folder: Path, tmp_path: Path):
    task, _ = untrained(table(folder, characters=True), tmp_path / "run")
    batch = task.batches(1).at(Position(0, 0))
    assert isinstance(batch, Batch)
    assert batch.targets == len(batch) == len(batch["labels"])
    assert batch["source"][:, 0].unique().tolist() == [1]  # START
    assert batch["source_characters"].shape[:2] == batch["source"].shape
