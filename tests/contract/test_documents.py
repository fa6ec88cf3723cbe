"""A language model of documents, from files to continuation and back."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import cli, front
from regard.data.store import Store
from regard.errors import RecipeError, UserError
from regard.front import Predictor
from regard.model import build
from regard.recipe.config import recipe
from regard.runs import Run
from regard.tasks import language_model
from regard.types import Position

TRANSFORMER = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 32, "norm": "pre"}
DECODERS: dict[str, dict[str, Any]] = {
    "learned": TRANSFORMER | {"position": "learned", "limit": 20},
    "rotary": TRANSFORMER | {"position": "rotary"},
    "lstm": {"kind": "rnn", "cell": "lstm", "layers": 1},
}
DOCUMENTS = ["abc de\nfgh", "k lmno", "p\nqr\nst"]


def table(folder: Path, decoder: str = "rotary", **sections: Any) -> dict[str, Any]:
    text = "\n\n".join(DOCUMENTS * 30)
    (folder / "text.txt").write_text(f"\n{text}\n\n\n")
    made: dict[str, Any] = {
        "task": "language_model",
        "data": {"folder": str(folder), "train": ["text.txt"]},
        "held_out": {"validation": 0.1, "test": 0.1},
        "tokenizer": {"kind": "bytes"},
        "stream": {"streams": 3, "length": 20, "documents": "paragraph"},
        "model": {
            "dim": 16,
            "decoder": {"dropout": 0.0, **DECODERS[decoder]},
            "head": {"smoothing": 0.0},
        },
        "train": {
            "updates": 150,
            "validate_every": 150,
            "metric": "bits_per_byte",
            "threads": 1,
            "precision": "float32",
            "optimizer": {"learning_rate": 0.02},
            "schedule": {"kind": "cosine", "warmup": 5},
        },
    }
    for name, value in sections.items():
        made[name] = made.get(name, {}) | value
    return made


@pytest.fixture(scope="module", params=["rotary", "lstm"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    folder = tmp_path_factory.mktemp(request.param)
    return front.train(table(folder, request.param), to=folder / "run")


def test_documents_keep_their_lines_and_have_one_end(tmp_path: Path):
    run = Run.create(tmp_path / "run", recipe(table(tmp_path)))
    task: Any = run.task
    store = Store(run.folder / "store", "train")
    rows = [task.by.decode(row["target"].tolist()) for row in store]
    assert rows[:4] == [*DOCUMENTS, DOCUMENTS[0]]
    assert all((row["target"] == task.by.end).sum() == 1 for row in store)
    assert task.references("test") == (DOCUMENTS * 3,)
    assert set(task._validation()[0]) == set(DOCUMENTS)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("line", ["a b", "c", "d"]),
        ("paragraph", ["a b\nc", "d"]),
        ("file", ["a b\nc\n\nd"]),
    ],
)
def test_what_a_document_is(kind: str, texts: list[str], tmp_path: Path):
    (tmp_path / "one.txt").write_text("\na b\nc\n\nd\n\n")
    (tmp_path / "two.txt").write_text("x\n")
    data = {"folder": str(tmp_path), "train": ["one.txt", "two.txt"]}
    made = {"task": "language_model", "data": data, "stream": {"documents": kind}}
    plan = language_model.plan(recipe(made).task)
    assert [each.values[0] for each in plan.whole("train", plan.policy)] == [*texts, "x"]


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_packed_document_has_the_probability_that_it_has_alone(decoder: str, tmp_path: Path):
    """Windows hold whole documents here, so that each of them can be scored by itself."""
    made = table(tmp_path, decoder, stream={"streams": 3, "length": 100, "documents": "paragraph"})
    made["model"]["decoder"] |= {"limit": 100} if decoder == "learned" else {}
    run = Run.create(tmp_path / "run", recipe(made))
    task: Any = run.task
    model = build(run.recipe.model, task.sizes).eval()
    batch = task.batches(1).at(Position(0, 0))
    state = model.start(batch).bounded(task.by.end)  # type: ignore[attr-defined]
    with torch.inference_mode():
        hidden, _ = model.decode(batch["target_in"], state)
        found = model.head.logits(hidden).log_softmax(-1)
    alone = {text: np.array(row["log_probs"]) for text, row in zip(
        DOCUMENTS, task.score(model, DOCUMENTS), strict=True)}  # fmt: skip
    said = batch["target_out"]
    chances = found.gather(-1, said[..., None])[..., 0].numpy()
    compared = 0
    for row, tokens in enumerate(said.tolist()):
        ends = [n + 1 for n, token in enumerate(tokens) if token == task.by.end]
        for first, end in pairwise(ends):
            text = task.by.decode(tokens[first : end - 1])
            np.testing.assert_allclose(chances[row, first:end], alone[text], atol=2e-5)
            compared += 1
    assert compared > 10


@pytest.mark.parametrize("decoder", DECODERS)
def test_across_borders_what_stands_before_is_seen(decoder: str, tmp_path: Path):
    def losses(across: bool) -> float:
        folder = tmp_path / str(across)
        folder.mkdir()
        settings = {"streams": 3, "length": 20, "documents": "paragraph", "across": across}
        run = Run.create(folder / "run", recipe(table(folder, decoder, stream=settings)))
        task: Any = run.task
        torch.manual_seed(1)
        model = build(run.recipe.model, task.sizes).eval()
        terms, _ = task.loss(model, task.batches(1).at(Position(0, 0)))
        return float(terms["nll"].sum)

    assert losses(True) != pytest.approx(losses(False), rel=1e-6)


def test_it_learns_documents_and_where_they_end(trained: Predictor):
    scores, _ = trained.evaluate("test")
    assert scores["bits_per_byte"].value < 1.0
    assert scores["bits_per_byte"].value == pytest.approx(scores["bits_per_character"].value)
    assert "unit:paragraph|" in scores["bits_per_byte"].signature
    found = [*trained.predictions(["abc de\nf", "k", "p\nq"], search="greedy")]
    assert [(each.text, each.status) for each in found] == [
        ("gh", "ok"), (" lmno", "ok"), ("r\nst", "ok"),
    ]  # fmt: skip


def test_it_is_streamed_and_stopped_and_its_words_ranked(
    trained: Predictor, capsys: pytest.CaptureFixture[str]
):
    assert "".join(trained.generate("k", search="greedy")) == " lmno"
    assert "".join(trained.generate("k", search="greedy", stop="m")) == " l"
    run = str(trained.run.folder)
    cli.main(["predict", run, "k", "--stream", "--search", "greedy", "--stop", "n"])
    assert capsys.readouterr().out == "k lm\n"
    cli.main(["predict", run, "k", "--search", "greedy", "--stop", "n", "x"])
    assert capsys.readouterr().out == " lm\n"
    cli.main(["predict", run, "k", "--next", "2"])
    first = capsys.readouterr().out.splitlines()[0].split("\t")
    assert first[1] == "lmno"
    assert float(first[0]) > 0.5
    cli.main(["predict", run, "k", "--next", "2", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["next"][0]["word"] == "lmno"
    assert trained.next_words("k", 1)[0].probability == pytest.approx(
        found["next"][0]["probability"], rel=1e-4
    )


def test_int8_says_nearly_the_same(trained: Predictor):
    rounded = Predictor(trained.run, quantization="int8")
    one, two = (model.score(DOCUMENTS) for model in (trained, rounded))
    for exact, near in zip(one, two, strict=True):
        assert near["log_prob"] == pytest.approx(exact["log_prob"], abs=0.5)


def test_what_does_not_fit_is_refused(tmp_path: Path, trained: Predictor):
    made = table(tmp_path) | {"unit": "line"}
    with pytest.raises(RecipeError, match=r"stream\.documents: with unit = 'line'"):
        Run.create(tmp_path / "run", recipe(made))
    with pytest.raises(RecipeError, match="stream: beam search"):
        next(trained.generate("k", search="beam"))
    with pytest.raises(RecipeError, match="stop: beam search"):
        trained.predict(["k"], search="beam", stop=["x"])
    with pytest.raises(UserError, match="half of a character"):
        trained.predict(["k"], stop=["\ud800"])
    with pytest.raises(RecipeError, match="torch's"):
        Predictor(trained.run, quantization="int8", engine="ctranslate2")


def test_it_can_be_looked_into(trained: Predictor, tmp_path: Path):
    """A document of several lines: what is read is the whole of it, with one end."""
    task: Any = trained.task
    found = task.look(trained.model, DOCUMENTS[0], trained.search("greedy"), "", 9)
    assert found.batch["target_out"].tolist() == [task.by.encode([DOCUMENTS[0]])[0]]
    page = tmp_path / "page.html"
    cli.main(["inspect", str(trained.run.folder), DOCUMENTS[0], "--output", str(page)])
    assert page.read_text().lower().startswith("<!doctype html")
