"""Tagging, from words with tags to one tag for each word."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import cli, front
from regard.data import files
from regard.data.store import Store
from regard.errors import RecipeError, UserError
from regard.front import Predictor
from regard.model import Model, build
from regard.recipe.config import from_table
from regard.recipe.parts import Part, kinds
from regard.runs import Run
from regard.tasks.tag import Task
from regard.train.checkpoint import Checkpoint
from regard.types import Position
from tests import earlier_stores

BLOCKS = {"layers": 1, "heads": 2, "feedforward": 32}
SMALL: dict[str, dict[str, Any]] = {
    "transformer": BLOCKS,
    "decoder": BLOCKS,
    "linear": {"window": 1},
}
SUFFIXES = {"s": "B-N", "ing": "B-V", "ed": "B-V", "": "O"}
FIELD = {"crf": True}
SPELT = {"kind": "words", "size": 8, "characters": {"size": 24, "symbol": 8}}


def sentence(dice: random.Random) -> list[tuple[str, str]]:
    """Words never seen before; the suffix tells the tag, but a bare word goes on with the span of
    the word before it if that began there."""
    found: list[tuple[str, str]] = []
    before = "O"
    for _ in range(dice.randint(3, 8)):
        stem = "".join(dice.choice("bcdfglmn") + dice.choice("aeiou") for _ in range(2))
        suffix = dice.choice(list(SUFFIXES))
        tag = SUFFIXES[suffix]
        if not suffix and before.startswith("B"):
            tag = f"I{before[1:]}"
        found.append((stem + suffix, tag))
        before = tag
    return found


def write(path: Path, count: int, seed: int) -> None:
    dice = random.Random(seed)
    blocks = ("\n".join(f"{w} {t}" for w, t in sentence(dice)) for _ in range(count))
    path.write_text("\n\n".join(blocks) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tag")
    write(made / "train.txt", 300, 1)
    write(made / "test.txt", 60, 2)
    return made


def table(folder: Path, **sections: Any) -> dict[str, Any]:
    """A recipe; `sections` add to its own."""
    made: dict[str, Any] = {
        "task": "tag",
        "characters": True,
        "data": {"folder": str(folder), "train": ["train.txt"], "test": ["test.txt"]},
        "held_out": {"validation": 0.1},
        "tokenizer": {"kind": "word"},
        "batch": {"tokens": 300},
        "model": {
            "dim": 24,
            "input": SPELT,
            "encoder": {"kind": "rnn", "cell": "gru", "layers": 1, "dropout": 0.0},
        },
        "train": {
            "updates": 80,
            "log_every": 1000,
            "validate_every": 40,
            "save_every": 40,
            "metric": "f1",
            "threads": 1,
            "precision": "float32",
            "optimizer": {"learning_rate": 0.02},
            "schedule": {"kind": "cosine", "warmup": 5},
        },
    }
    for name, value in sections.items():
        made[name] = made.get(name, {}) | value if isinstance(value, dict) else value
    return made


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "crf"])
def trained(request: pytest.FixtureRequest, folder: Path) -> Predictor:
    made = table(folder)
    made["model"]["head"] = {"crf": request.param}
    return front.train(made, to=folder / f"trained-{request.param}")


def untrained(made: dict[str, Any], to: Path) -> tuple[Task, Model]:
    run = Run.create(to, from_table(made))
    task: Any = run.task
    return task, build(run.recipe.model, task.sizes)


# Learning


def test_words_never_seen_are_tagged_by_their_spelling_and_the_word_before(trained: Predictor):
    scores, outputs = trained.evaluate("test")
    assert scores["accuracy"].value >= 98
    assert scores["f1"].value >= 97
    assert "scheme:conll" in scores["f1"].signature
    assert len(outputs) == 60
    said = trained.predict(["babiboing babibo babibo babibos", "babibo"])
    assert said == ["B-V I-V O B-N", "O"]
    assert (trained.run.folder / "confusion-test.png").stat().st_size > 1000


def test_there_is_one_tag_for_each_word_however_long_the_line(trained: Predictor):
    known = trained.task.references("train")[0][0].split()[0]
    lines = [known, "", f"{known} " + "babibos babibo " * 300, f"  babibo \t{known} ", "babibos"]
    found = list(trained.predictions(lines, batch=2))
    assert [len(each.text.split()) for each in found] == [1, 0, 601, 2, 1]
    assert [each.status for each in found] == ["ok", "empty", "cut", "ok", "unknown"]
    assert found[2].text.split()[1:5] == ["B-N", "I-N", "B-N", "I-N"]
    for each in found:
        assert each.source == lines[found.index(each)].split()
        assert len(each.tokens) == len(each.log_probs) == len(each.source)
    alone = trained.predict(lines, batch=1)
    assert alone == [each.text for each in found]


def test_scores_are_log_probabilities_of_tags(trained: Predictor):
    line = "bibos bibo bibo"
    [found] = trained.predictions([line])
    [best] = trained.score([line], [found.text])
    assert best["log_prob"] == pytest.approx(found.score, abs=1e-5)
    every = [a + " " + b for a in NAMES for b in NAMES]
    total = math.fsum(math.exp(x["log_prob"]) for x in trained.score(["bibos bibo"] * 25, every))
    assert total == pytest.approx(1, abs=1e-4)
    [partly] = trained.score([line], ["B-N _ O"])
    some = [math.exp(trained.score([line], [f"B-N {n} O"])[0]["log_prob"]) for n in NAMES]
    assert math.exp(partly["log_prob"]) == pytest.approx(math.fsum(some), abs=1e-4)
    assert len(partly["log_probs"]) == 2
    with pytest.raises(UserError, match=r"line 1: 3 words, but 2 tags"):
        trained.score([line], ["B-N O"])
    with pytest.raises(UserError, match=r"line 1: the label 'B-M' was never seen"):
        trained.score([line], ["B-M O O"])
    scores, _ = trained.evaluate("test")
    lines = trained.score(*trained.task.references("test"))
    count = sum(len(each["log_probs"]) for each in lines)
    mean = -math.fsum(each["log_prob"] for each in lines) / count
    assert scores["nll"].value == pytest.approx(mean, abs=1e-5)


NAMES = ["B-N", "B-V", "I-N", "I-V", "O"]


@pytest.mark.parametrize("crf", [False, True], ids=["alone", "crf"])
@pytest.mark.parametrize("encoder", kinds("encoders"))
def test_every_encoder_learns_one_batch_by_heart(encoder: str, crf: bool, tmp_path: Path):
    words = [f"w{n}" for n in range(12)]
    lines = [" ".join(words[n : n + 3]) for n in range(0, 12, 3)]
    blocks = ["\n".join(f"{w} {'AB'[int(w[1:]) % 2]}" for w in line.split()) for line in lines]
    for part in ("train", "test"):
        (tmp_path / f"{part}.txt").write_text("\n\n".join(blocks))
    parts = {
        "dim": 16,
        "input": {"kind": "tokens"},
        "encoder": {"kind": encoder, **SMALL.get(encoder, {})},
        "head": {"crf": crf},
    }
    made = table(tmp_path, model=parts) | {"held_out": {}}
    del made["data"]["test"]
    task, model = untrained(made, tmp_path / "run")
    batch = task.batches(1).at(Position(0, 0))
    assert batch.targets == 12
    steps = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.03)
    losses = []
    for _ in range(40):
        terms, carry = task.loss(model, batch)
        assert carry is None
        losses.append(float(terms["nll"].sum.detach()) / batch.targets)
        steps.zero_grad()
        (terms["nll"].sum / batch.targets).backward()
        steps.step()
    assert losses[0] > 0.3
    assert min(losses[-5:]) < 0.05


def test_an_encoder_that_gives_other_positions_is_refused(folder: Path, tmp_path: Path):
    made = table(folder, model={"encoder": {"kind": "linear", "window": 3}})
    task, model = untrained(made, tmp_path / "run")
    with pytest.raises(RecipeError, match=r"model.encoder: \d+ positions for \d+ tokens"):
        task.loss(model, task.batches(1).at(Position(0, 0)))


@pytest.mark.parametrize("kind", ["word", "bpe", "character"])
def test_the_first_piece_of_a_word_stands_for_it(kind: str, folder: Path, tmp_path: Path):
    tokens = {"input": {"kind": "tokens"}}
    tokenizer = {"kind": kind, "vocabulary": 270}
    made = table(folder, characters=False, tokenizer=tokenizer, model=tokens)
    task, model = untrained(made, tmp_path / "run")
    batch = task.batches(1).at(Position(0, 0))
    lengths = batch["source_mask"].sum(1)
    assert (batch["source_first"].amax(1) < lengths).all()
    assert (batch["source_first"][:, 0] == 0).all()
    words = [sum(row) for row in batch["source_word_mask"].tolist()]
    assert batch.targets == sum(words)
    if kind == "word":
        assert lengths.tolist() == words
    else:
        assert int(lengths.sum()) > 2 * sum(words)
    rows = task.source.encode([["bibos", "bibo"], ["a", "bb", "ccc", "dddd"]])
    together, alone = task.tagger.run(model, rows, 2), task.tagger.run(model, rows, 1)
    for one, other in zip(together, alone, strict=True):
        assert one.values.tolist() == other.values.tolist()
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-5)


def test_resume_is_exact(folder: Path, tmp_path: Path):
    made = table(folder)
    made["model"]["head"] = {"crf": True, "dropout": 0.1}
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


# Numbers


def test_real_values_are_learnt_in_their_own_units(tmp_path: Path):
    """1000 plus 50 for each a in the word and 10 for each in the word before it."""
    dice = random.Random(3)
    lines = []
    for _ in range(300):
        words = ["".join(dice.choices("ab", k=3)) for _ in range(dice.randint(2, 6))]
        before = ["", *words[:-1]]
        pairs = zip(words, before, strict=True)
        tags: list[float | None] = [
            1000.0 + 50 * w.count("a") + 10 * b.count("a") for w, b in pairs
        ]
        tags[dice.randrange(len(tags))] = None
        lines.append(json.dumps({"words": words, "tags": tags}) + "\n")
    (tmp_path / "train.jsonl").write_text("".join(lines[:240]))
    (tmp_path / "test.jsonl").write_text("".join(lines[240:]))
    made = table(tmp_path, labels={"kind": "real"}, model={"input": {"kind": "tokens"}})
    made["data"] |= {"train": ["train.jsonl"], "test": ["test.jsonl"]}
    made["train"] |= {"metric": "mse", "updates": 150, "validate_every": 75}
    model = front.train(made, to=tmp_path / "run")
    scores, outputs = model.evaluate("test")
    spread = 50**2 * 0.75
    assert scores["mse"].value < 0.05 * spread
    assert scores["mae"].value < 10
    [said] = model.predict(["aaa bbb bab"])
    assert [float(x) for x in said.split()] == pytest.approx([1150, 1030, 1050], abs=15)
    assert len(outputs) == 60
    records = [r for r in model.run.records() if r["kind"] == "validation"]
    assert records[-1]["mse"] < records[0]["mse"]
    told = Checkpoint(tmp_path / "run" / "model").progress()["calibration"]
    assert told["deviation"] == pytest.approx(math.sqrt(min(r["mse"] for r in records)), rel=1e-3)
    near, far, none = model.score(["aaa bbb"] * 3, ["1150 1030", "1150 1200", "_ 1030"])
    assert near["log_prob"] > far["log_prob"] + 5
    assert len(none["log_probs"]) == 1
    for odd in ("east", "nan", "inf"):
        with pytest.raises(UserError, match=f"line 1: the tag '{odd}' is not a number"):
            model.score(["aaa"], [odd])


def test_numbers_of_earlier_runs_are_read_from_their_bits(folder: Path, tmp_path: Path):
    """Earlier versions kept unsigned integers alone, and called columns by other names."""
    lines = (folder / "train.txt").read_text().splitlines()
    words = [line.split()[0] if line else "" for line in lines]
    numbers = (
        f"{word} {'_' if word[0] == 'b' else len(word) / 7}" if word else "" for word in words
    )
    (tmp_path / "train.txt").write_text("\n".join(numbers) + "\n")
    (tmp_path / "test.txt").write_text("babibo 1\n")
    made = table(tmp_path, labels={"kind": "real"}, train={"metric": "mae"})
    task, model = untrained(made, tmp_path / "run")
    store = task.folder / "store"
    batch, figures = task.batches(1).at(Position(0, 0)), task.validate(model)
    for part in ("train", "validation"):
        found = Store(store, part)
        bits = {"tags": "<u4"}
        rows = [[row[n].view(bits.get(n, row[n].dtype)).tolist() for n in EARLIER] for row in found]
        for path in store.glob(f"{part}.*"):
            path.unlink()
        earlier_stores.write(store, [f"{part}.{name}" for name in EARLIER.values()], 1 << 32, rows)
    again = task.batches(1).at(Position(0, 0))
    assert batch.targets == again.targets > 0
    for name, tensor in batch.tensors.items():
        torch.testing.assert_close(again[name], tensor, rtol=0, atol=0, equal_nan=True)
    assert task.validate(model) == figures


EARLIER = {
    "source": "symbols", "source_pieces": "pieces", "source_characters": "characters",
    "source_letters": "letters", "tags": "labels",
}  # fmt: skip


# Data


def test_proteins_are_read_residue_by_residue(tmp_path: Path):
    dice = random.Random(4)
    sequences, labels, mask = [], [], []
    for n in range(90):
        part = "test" if n % 9 == 0 else "train"
        residues = dice.choices("ACDEFG", k=dice.randint(5, 30))
        hidden = ["01"[dice.random() < 0.8] for _ in residues]
        says = ["H" if r in "ACD" else "E" for r in residues]
        wrong = [s if h == "1" else "X" for s, h in zip(says, hidden, strict=True)]
        sequences.append(f">p{n}\n{''.join(residues)}\n")
        labels.append(f">p{n} SET={part} VALIDATION={n % 9 == 1}\n{''.join(wrong)}\n")
        mask.append(f">p{n}\n{''.join(hidden)}\n")
    names = ["sequences.fasta", "labels.fasta", "mask.fasta"]
    for name, rows in zip(names, (sequences, labels, mask), strict=True):
        (tmp_path / name).write_text("".join(rows))
    made = table(tmp_path, unit="characters", model={"input": {"kind": "tokens"}})
    made["data"] = {"folder": str(tmp_path)} | dict.fromkeys(files.PARTS, names)
    made["held_out"] = {}
    made["train"] |= {"updates": 30, "validate_every": 30, "metric": "accuracy"}
    model = front.train(made, to=tmp_path / "run")
    task: Any = model.task
    assert task.tags.names == ("E", "H")  # what the mask hides is not learnt
    assert len(Store(tmp_path / "run" / "store", "validation")) == 10
    scores, outputs = model.evaluate("test")
    assert scores["accuracy"].value >= 99
    assert len(outputs) == 10
    assert model.predict(["ACGE"]) == ["H H E E"]
    words, tags = task.references("test")
    assert " " not in words[0]
    assert len(words[0]) == len(tags[0].split())
    assert "_" in " ".join(tags)


def test_a_tag_that_training_never_saw(folder: Path, tmp_path: Path):
    (tmp_path / "odd.txt").write_text("bibos B-N\n\nbibo O\nbibo B-Z\n")
    data = table(folder)["data"] | {"test": [str(tmp_path / "odd.txt")]}
    made = table(folder) | {"data": data}
    task, model = untrained(made, tmp_path / "run")
    with pytest.raises(UserError, match=r"odd.txt:3: the label 'B-Z' was never seen in training"):
        task.evaluate(model, "test", Part("none", None))
    made["labels"] = {"unseen": "wrong"}
    wrong = Task(from_table(made).task, tmp_path / "run")
    scores, outputs = wrong.evaluate(model, "test", Part("none", None))
    assert scores["accuracy"].value <= 200 / 3
    assert scores["nll"].signature.startswith("unseen:1")
    assert [len(each.tokens) for each in outputs] == [1, 2]


def test_spans_beside_unknown_tags_are_left_out_of_scores(folder: Path, tmp_path: Path):
    """A test file whose tags are what the model says, some of them unknown, is all right."""
    made = table(folder)
    task, model = untrained(made, tmp_path / "run")
    lines = [" ".join(word for word, _ in sentence(random.Random(n))) for n in range(20)]
    said = [each.tokens for each in task.predict(model, lines, Part("none", None))]
    dice = random.Random(1)
    hidden = [[tag if dice.random() < 0.7 else "_" for tag in tags] for tags in said]
    pairs = zip(lines, hidden, strict=True)
    blocks = (
        "\n".join(f"{word} {tag}" for word, tag in zip(line.split(), tags, strict=True))
        for line, tags in pairs
    )
    (tmp_path / "odd.txt").write_text("\n\n".join(blocks) + "\n")
    made["data"] |= {"test": [str(tmp_path / "odd.txt")]}
    scores, _ = Task(from_table(made).task, tmp_path / "run").evaluate(
        model, "test", Part("none", None)
    )
    assert {scores[name].value for name in ("accuracy", "f1", "precision", "recall")} == {100}


@pytest.mark.parametrize("tag", ["_", "B-Z"])
def test_a_validation_part_without_known_tags_is_refused_at_once(folder, tmp_path, tag):
    (tmp_path / "odd.txt").write_text(f"bibos {tag}\n")
    made = table(folder, labels={"unseen": "wrong"}) | {"held_out": {}}
    made["data"] |= {"validation": [str(tmp_path / "odd.txt")]}
    with pytest.raises(UserError, match=r"data\.validation: not one word has a tag that is known"):
        Run.create(tmp_path / "run", from_table(made))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a X\nb\n", r"train.txt:2: 1 columns instead of 2"),
        ("a X\nb X\n", r"data.train: there must be at least two labels"),
    ],
)
def test_data_that_cannot_be_learnt_from_leaves_no_run(tmp_path: Path, content: str, said: str):
    (tmp_path / "train.txt").write_text(content)
    (tmp_path / "test.txt").write_text(content)
    with pytest.raises(UserError, match=said):
        Run.create(tmp_path / "run", from_table(table(tmp_path) | {"held_out": {}}))
    assert not (tmp_path / "run").exists()


def test_long_sentences_are_cut_after_a_whole_word(folder: Path, tmp_path: Path):
    tokenizer = {"kind": "character", "vocabulary": 60}
    data = table(folder)["data"] | {"max_length": 11, "on_too_long": "cut"}
    made = table(folder, data=data, tokenizer=tokenizer, model={"input": {"kind": "tokens"}})
    task, _ = untrained(made | {"held_out": {}, "characters": False}, tmp_path / "run")
    store = Store(task.folder / "store", "train")
    assert store.lengths("source").max() <= 11
    for n in range(20):
        row = store[n]
        assert int(sum(row["source_pieces"])) == len(row["source"])
        assert len(row["tags"]) == len(row["source_pieces"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"train": {"metric": "mse"}}, r"train.metric: 'mse' is not one of nll, accuracy, f1"),
        ({"model": {"head": {"kind": "labels"}}}, r"model.head.kind: 'labels' is not for the task"),
        ({"tokenizer": {"kind": "bpe"}}, r"characters: those of words need tokenizer.kind"),
        ({"characters": False}, r"model.input: to read characters, set characters = true"),
        ({"tokenizer": {"kind": "word", "split": "punctuation"}}, r"tokenizer.split: words come"),
        (
            {"labels": {"kind": "real"}, "train": {"metric": "mae"}, "model": {"head": FIELD}},
            r"model.head.crf: numbers have no field",
        ),
        ({"data": {"train": ["x"], "header": True}}, r"data.header"),
    ],
)
def test_recipes_that_cannot_work_are_refused(folder: Path, change: dict[str, Any], said: str):
    with pytest.raises(RecipeError, match=said):
        from_table(table(folder, **change))


def test_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    made = table(folder)
    made["train"] |= {"updates": 2, "validate_every": 2}
    front.train(made, to=tmp_path / "run")
    run = str(tmp_path / "run")
    (tmp_path / "in.txt").write_text("babibos babibo\n\nbabibo\n")
    cli.main(["predict", run, str(tmp_path / "in.txt")])
    lines = capsys.readouterr().out.split("\n")
    assert [len(line.split()) for line in lines] == [2, 0, 1, 0]
    cli.main(["predict", run, str(tmp_path / "in.txt"), "--format", "jsonl"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["status"] for each in found] == ["unknown", "empty", "unknown"]
    assert found[0]["source"] == ["babibos", "babibo"]
    cli.main(["evaluate", run, "--output", str(tmp_path / "out.txt")])
    assert "accuracy" in capsys.readouterr().out
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 60
