"""A language model that answers, from prompts in a file to dialogues: it learns answers alone."""

import io
import json
import math
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import cli, front
from regard.doctor.examination import quick_check
from regard.errors import RecipeError, UserError
from regard.front import Predictor
from regard.model import build
from regard.recipe.config import from_table, recipe
from regard.runs import Run, train
from regard.starting import Asked, likeliest, of, written
from regard.types import Position
from tests import small_runs

TRANSFORMER = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 32, "norm": "pre"}
LSTM = {"kind": "rnn", "cell": "lstm", "layers": 1}
ANSWERS = {"a": "one", "b": "two", "c": "six", "d": "four"}
"""A prompt that ends so is answered so."""


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def write(path: Path) -> None:
    """Half of them pairs, half dialogues of two turns; all prompts of pairs differ."""
    keys = [*ANSWERS]
    records: list[dict[str, Any]] = []
    for n in range(60):
        one, two = keys[n % 4], keys[n // 4 % 4]
        records.append({"prompt": f"{n} {one}", "answer": ANSWERS[one]})
        turns = [user(one), assistant(ANSWERS[one]), user(f"{n} {two}"), assistant(ANSWERS[two])]
        records.append({"messages": turns})
    path.write_text("".join(json.dumps(each) + "\n" for each in records))


def table(folder: Path, decoder: dict[str, Any], **sections: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "task": "language_model",
        "unit": "dialogue",
        "data": {"folder": str(folder), "train": ["d.jsonl"], "max_length": 40},
        "held_out": {"validation": 0.1, "test": 0.1},
        "tokenizer": {"kind": "character"},
        "batch": {"tokens": 500},
        "search": {"kind": "greedy"},
        "model": {"dim": 24, "decoder": decoder, "head": {"smoothing": 0.0}},
        "train": {
            "updates": 100,
            "log_every": 1000,
            "validate_every": 100,
            "save_every": 100,
            "metric": "nll",
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("dialogues")
    write(found / "d.jsonl")
    return found


@pytest.fixture(scope="module")
def trained(folder: Path) -> Predictor:
    return front.train(table(folder, TRANSFORMER), to=folder / "trained")


@pytest.fixture(scope="module")
def untrained(folder: Path) -> tuple[Any, Any]:
    """A task with its data prepared, and a model of random weights."""
    run = Run.create(folder / "untrained", recipe(table(folder, TRANSFORMER)))
    torch.manual_seed(3)
    return run.task, build(run.recipe.model, run.task.sizes).eval()


# Learning


def test_it_learns_to_answer(trained: Predictor):
    assert trained.predict(["99 a", "7 c"]) == ["one", "six"]
    turns = [user("b"), assistant("two"), user("5 d")]
    assert trained.predict([turns, "1 b"]) == ["four", "two"]
    scores, outputs = trained.evaluate("test")
    assert scores["exact"].value == 100
    assert scores["perplexity"].value < 1.05
    assert {output.status for output in outputs} == {"ok"}
    assert outputs[0].tokens[-1] == "<end>"


def test_a_recurrent_model_learns_to_answer(folder: Path, tmp_path: Path):
    model = front.train(table(folder, LSTM, train={"validate_every": 0}), to=tmp_path / "run")
    turns = [user("b"), assistant("two"), user("5 d")]
    assert model.predict(["99 a", "7 c", turns]) == ["one", "six", "four"]


def test_the_loss_is_that_of_answers_given_all_before(untrained: tuple[Any, Any]):
    """Σ −log p over the targets of a batch is what `score` says of its answers, turn by turn."""
    task, model = untrained
    batch = task.batches(1).at(Position())
    terms, carry = task.loss(model, batch)
    assert carry is None
    values = [each.values for each in task.plan.whole("train", task.config.data.policy)]
    sides = task.texts.sides([values[n] for n in batch.ids])
    found = [*task.score(model, *sides)]
    assert terms["nll"].count == batch.targets == sum(len(each["log_probs"]) for each in found)
    assert float(terms["nll"].sum) == pytest.approx(-sum(e["log_prob"] for e in found), rel=1e-4)
    answers = sum(len(answer) + 1 for answer in sides[1])
    assert batch.targets == answers, "a character is a token, and each answer has an end"


def test_what_a_prompt_says_is_no_target(untrained: tuple[Any, Any]):
    """No logit at a place of the prompt has a gradient."""
    task, model = untrained
    batch = task.batches(1).at(Position())
    kept: list[Any] = []

    def keep(module: Any, inputs: Any, hidden: Any) -> None:
        hidden[0].retain_grad()
        kept.append(hidden[0])

    hook = model.decoder.register_forward_hook(keep)
    try:
        task.loss(model, batch)[0]["smoothed"].sum.backward()
    finally:
        hook.remove()
    moved = kept[0].grad.abs().sum(-1) > 0
    assert torch.equal(moved, batch["target_mask"])


def test_the_parts_of_a_batch_add_up(untrained: tuple[Any, Any]):
    """Threads and accumulation take rows of a batch: targets and losses are theirs."""
    task, model = untrained
    batches = task.batches(1)
    whole = batches.at(Position())
    halves = [batches.at(Position(), rows) for rows in (slice(0, 7), slice(7, None))]
    assert sum(each.targets for each in halves) == whole.targets
    losses = [float(task.loss(model, each)[0]["nll"].sum) for each in (*halves, whole)]
    assert losses[0] + losses[1] == pytest.approx(losses[2], rel=1e-4)
    assert all(each.targets == int(each["target_mask"].sum()) for each in halves)


def test_resuming_is_exact(folder: Path, tmp_path: Path):
    """Stopped after half of its updates and gone on with, a run has the same weights."""
    made = table(folder, LSTM, train={"updates": 8, "save_every": 4, "validate_every": 0})
    whole = front.train(made, to=tmp_path / "whole")
    run = Run.create(tmp_path / "half", from_table(made))

    def tick(progress: Any) -> None:
        if progress.update == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, tick=tick)
    again = front.train(resume=tmp_path / "half")
    mine, yours = (each.run.find("final").weights() for each in (whole, again))
    assert mine.keys() == yours.keys()
    assert all(torch.equal(mine[name], yours[name]) for name in mine)


def test_uniform_weights_have_the_perplexity_of_the_vocabulary(folder: Path, tmp_path: Path):
    run = Run.create(tmp_path / "run", recipe(table(folder, TRANSFORMER)))
    task: Any = run.task
    model = build(run.recipe.model, task.sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert task.validate(model)["nll"] == pytest.approx(math.log(len(task.by)))


def test_long_ones_are_left_out_or_cut(folder: Path, tmp_path: Path):
    """“10 a” with START, END, “one” and END has ten tokens; dialogues have more."""
    short = table(folder, LSTM, data={"max_length": 10})
    run = Run.create(tmp_path / "skip", recipe(short))
    report = json.loads((run.folder / "data.json").read_text())
    assert report["skipped"]["more than 10 tokens (data.max_length)"] > 30
    cut = table(folder, LSTM, data={"max_length": 10, "on_too_long": "cut"})
    task: Any = Run.create(tmp_path / "cut", recipe(cut)).task
    stored = task._stored("train")
    assert int(stored.lengths.max()) == 9, "the last token is not read"
    assert len(stored) > report["used"]
    batch = task.batches(1).at(Position())
    assert bool(batch["target_mask"].any(1).all()), "each has something to learn"


# Using


def test_score_is_of_the_answer_given_the_prompt(trained: Predictor):
    [right, wrong] = trained.score(["9 a", "9 a"], ["one", "two"])
    assert right["log_prob"] > wrong["log_prob"] + 2
    assert right["tokens"] == ["o", "n", "e", "<end>"]
    [same] = trained.score([[user("9 a")]], ["one"])
    assert same["log_prob"] == pytest.approx(right["log_prob"], rel=1e-5)
    [given] = trained.predictions(["9 a"])
    pairs = zip(given.log_probs, right["log_probs"], strict=True)
    assert all(one >= other - 1e-6 for one, other in pairs), "an answer has no START"


def test_messages_become_tokens_and_an_answer_comes_piece_by_piece(trained: Predictor):
    turns = [user("a"), assistant("one"), user("3 c")]
    tokens = trained.prompt_tokens(turns)
    shown = "".join(trained.task.by.pieces(tokens))  # type: ignore[attr-defined]
    assert shown == "<start>a<end>one<end><start>3▁c<end>"
    assert [*trained.generate(turns)] == ["s", "i", "x", ""]
    assert trained.template is not None
    assert trained.next_words("3 c", 1)[0].text == "six"


def test_what_cannot_be_asked_is_refused(trained: Predictor):
    with pytest.raises(UserError, match=r"inputs\[0\]: a message; a dialogue is a list"):
        trained.predict([user("a")])
    with pytest.raises(UserError, match=r"inputs\[1\]: message 1: the role “bot” is not one"):
        trained.predict(["a", [{"role": "bot", "content": "a"}]])
    with pytest.raises(UserError, match="there is nothing to answer"):
        trained.predict([json.dumps([user("a"), assistant("b")])])


def test_a_prompt_that_is_too_long_is_cut_and_a_long_one_is_read_whole(trained: Predictor):
    """A window holds 39 positions: more than half of it is read, if it is a prompt."""
    short, long = trained.predictions(["9" * 25 + " a", "9" * 50 + " a"])
    assert (len(short.source), short.status) == (29, "ok")
    assert long.status == "cut"


def test_verbs_read_prompts_and_messages_of_tables(
    trained: Predictor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = str(trained.run.folder)
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"prompt": "7 a", "id": 1}\n{"id": 2}\n')
    cli.main(["predict", run, str(asked)])
    out, err = capsys.readouterr()
    assert out == '{"prompt": "7 a", "id": 1, "answer": "one"}\n{"id": 2, "answer": null}\n'
    assert "asked.jsonl:2: it has no “prompt”" in err
    rows = [[user("7 a")], [user("a"), assistant("one"), user("1 d")], [{"from": "x", "value": ""}]]
    asked.write_text("".join(json.dumps({"messages": each}) + "\n" for each in rows))
    cli.main(["predict", run, str(asked)])
    out, err = capsys.readouterr()
    assert [json.loads(line)["answer"] for line in out.splitlines()] == ["one", "four", None]
    assert "asked.jsonl:3: message 1 has “from” and “value”" in err
    (tmp_path / "pairs.tsv").write_text("7 a\tone\n7 a\ttwo\n")
    cli.main(["score", run, str(tmp_path / "pairs.tsv")])
    one, two = (float(line.split("\t")[2]) for line in capsys.readouterr().out.splitlines())
    assert one > two
    cli.main(["evaluate", run, "--samples", "20", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["scores"]["exact"]["score"] == 100
    cli.main(["inspect", run, "7 a", "--output", str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").is_file()


class Terminal(io.TextIOWrapper):
    """Lines that a person types."""

    def isatty(self) -> bool:
        return True


def test_a_dialogue_on_a_terminal_remembers(
    trained: Predictor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    asked: list[Any] = []
    generate = Predictor.generate

    def listen(self: Predictor, text: Any, **options: Any) -> Iterator[str]:
        asked.append([each["content"] for each in text])
        return generate(self, text, **options)

    monkeypatch.setattr(Predictor, "generate", listen)
    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"b\n5 d\n\n1 a\n")))
    cli.main(["predict", str(trained.run.folder)])
    out, err = capsys.readouterr()
    assert out == "two\nfour\none\n"
    assert asked == [["b"], ["b", "two", "5 d"], ["1 a"]]
    assert "a new dialogue begins" in err


# Beginning with another run


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An untrained language model of documents."""
    folder = tmp_path_factory.mktemp("gpt") / "run"
    blocks = small_runs.BLOCKS | {"norm": "pre", "position": "learned", "limit": 40}
    keys: dict[str, Any] = {"unit": "stream", "tokenizer": {"kind": "bpe", "vocabulary": 300}}
    keys |= {"stream": {"streams": 2, "length": 16, "documents": "line"}}
    return small_runs.create("language_model", {"decoder": blocks}, folder, **keys)


@pytest.mark.parametrize("lora", [False, True], ids=["whole", "lora"])
def test_it_begins_with_a_language_model_of_plain_text(
    gpt: Run, folder: Path, tmp_path: Path, lora: bool
):
    """Its tokenizer comes along as it is, and has the tokens of the usual template."""
    made = table(folder, {"lora": {"rank": 2}} if lora else {}, train={"updates": 2})
    del made["tokenizer"], made["data"]["max_length"], made["model"]["dim"]
    made["model"] |= {"weights": str(gpt.folder)}
    made["train"]["validate_every"] = 0
    model = front.train(made, to=tmp_path / "run")
    name = "target.tokenizer.json"
    assert (tmp_path / "run" / name).read_bytes() == (gpt.folder / name).read_bytes()
    assert model.run.recipe.task.data.max_length == 38
    before, after = gpt.find("final").weights(), model.run.find("final").weights()
    same = torch.equal(before["decoder.embedding.weight"], after["decoder.embedding.weight"])
    assert same == lora, "adapters leave all that is not theirs as it was"
    assert len(model.predict(["7 a"])) == 1


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"data": {"max_length": 50}}, r"40 positions, but data\.max_length = 50 asks for 49"),
        ({"tokenizer": {"kind": "word"}}, r"tokenizer\.kind: 'word' here and 'bpe' in "),
        ({"model": {"dim": 32}}, r"model: dim is 32 here and 16 in "),
        ({"template": {"user": "<user>{content}<end>"}}, r"has no token <user>, only <end>"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_read(
    keys: dict[str, Any], message: str, gpt: Run, tmp_path: Path
):
    made = table(tmp_path / "nowhere", {}, **{k: v for k, v in keys.items() if k != "model"})
    if "tokenizer" not in keys:
        del made["tokenizer"]
    if "data" not in keys:
        del made["data"]["max_length"]
    made["model"] = {"weights": str(gpt.folder), **keys.get("model", {})}
    with pytest.raises(RecipeError, match=message):
        Run.create(tmp_path / "run", from_table(made))
    assert not (tmp_path / "run").exists()


def test_a_forged_store_is_refused(folder: Path, tmp_path: Path):
    """Rows whose marks are not as many as their tokens, or that are too long."""
    run = Run.create(tmp_path / "run", recipe(table(folder, LSTM)))
    task: Any = run.task
    longest = int(task._stored("train").lengths.max()) + 1
    task.config = replace(task.config, data=replace(task.config.data, max_length=longest))
    task._stored("train")
    task.config = replace(task.config, data=replace(task.config.data, max_length=longest - 1))
    with pytest.raises(UserError, match="the stored data cannot be read"):
        task._stored("train")


def test_a_recipe_needs_room_for_both(folder: Path):
    with pytest.raises(RecipeError, match=r"data\.max_length: 1 has no room for prompt and"):
        recipe(table(folder, LSTM, data={"max_length": 1}))


# Before training


def test_the_doctor_sees_what_is_wrong_with_dialogues(tmp_path: Path):
    """Prompt and answer count together; prompts of the test part are looked for in training."""
    text = "why do birds fly so far over the sea every single year number"
    train = [{"prompt": f"{text} {n}", "answer": "nobody knows"} for n in range(120)]
    train += [{"prompt": f"{text} 0", "answer": "nobody knows"}] * 20
    train += [{"prompt": "so", "answer": " ".join(["long"] * 80)}, {"prompt": "a", "answer": ""}]
    test = [{"prompt": f"{text} {n}", "answer": "somebody may"} for n in range(30)]
    for name, records in {"train": train, "test": test}.items():
        lines = "".join(json.dumps(each) + "\n" for each in records)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    data = {"train": ["train.jsonl"], "test": ["test.jsonl"], "max_length": 80}
    made = table(tmp_path, LSTM, data=data, tokenizer={"kind": "word"})
    found = {each.code: each for each in quick_check(recipe(made | {"held_out": {}}))}
    assert found["data.long"].what == "more than 80 tokens: 1 of 141 lines (0.71 %) of data.train"
    assert "empty answer" in found["data.empty"].what
    assert "20 of 141 examples" in found["data.repeated"].what
    assert found["data.known"].what == (
        "the prompt is in data.train, too: 30 of 30 lines (100 %) of data.test"
    )


def test_a_first_recipe_for_dialogues(folder: Path, tmp_path: Path):
    asked = Asked((folder / "d.jsonl",))
    assert likeliest(asked) == "language_model"
    draft = of("language_model").look(asked, folder)
    assert draft.facts["dialogues"] == 120 and draft.facts["turns"] == 60
    found = recipe(tomllib.loads(written(draft, [])) | {"train": {"metric": "nll"}})
    assert (found.task.unit, found.model.decoder.kind) == ("dialogue", "transformer")
    assert found.task.search.kind == "greedy"
    path = tmp_path / "alpaca.jsonl"
    record = {"instruction": "Add one.", "input": "4", "output": "5"}
    path.write_text(json.dumps(record) + "\n")
    sections = of("language_model").look(Asked((path,)), tmp_path).sections
    keys = {key.name: key.value for section in sections for key in section.keys}
    assert keys["columns"] == ("instruction", "input", "output")
