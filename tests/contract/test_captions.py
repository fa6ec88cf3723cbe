"""Captions and contrast: every kind of model, what is asked of it, and what is refused."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import front
from regard.data import scenes
from regard.data.derived_pictures import photographs
from regard.errors import RecipeError, UserError
from regard.examples.stored import collate
from regard.recipe import config
from regard.runs import Run
from regard.types import Position
from regard.verbs import demo
from tests import small_runs

COUNTS = {"train": 16, "validation": 4, "test": 4}
CNN = {"kind": "cnn", "stem": 4, "widths": [8]}
PATCHES = {"kind": "patches", "patch": 8, "class_token": False}
BLOCKS = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 16}
RNN = {"kind": "rnn", "layers": 1}
CAPTION: dict[str, Any] = {
    "task": "caption",
    "data": {part: [f"{part}.tsv"] for part in COUNTS},
    "source": {"size": [16, 16]},
    "tokenizer": {"kind": "word"},
    "evaluation": {"lines": 2, "metrics": ["bleu", "cider", "exact"], "multiple_references": " | "},
    "model": {"dim": 16, "tie": "output", "input": CNN, "decoder": RNN},
    "train": {"updates": 2, "validate_every": 2, "save_every": 2, "threads": 1, "metric": "nll"},
}
CONTRAST: dict[str, Any] = {
    **{key: CAPTION[key] for key in ("data", "source", "tokenizer")},
    "task": "contrast",
    "batch": {"sentences": 8},
    "evaluation": {"multiple_references": " | "},
    "model": {
        "dim": 16,
        "towers": {"source": {"input": CNN}, "target": {"encoder": BLOCKS}},
    },
    "train": {**CAPTION["train"], "metric": "r1"},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenes")
    scenes.write(folder, COUNTS)
    return folder


def _task(made: front.Predictor) -> Any:
    return made.task


def recipe(base: dict[str, Any], folder: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    made = {**base, **{name: {**base.get(name, {}), **each} for name, each in sections.items()}}
    return {**made, "data": {**made["data"], "folder": str(folder)}}


@pytest.mark.parametrize(
    "model",
    [
        {"decoder": {**RNN, "attention": "additive"}},
        {"decoder": {**RNN, "attention": "none", "summary": "mean"}},  # vec2seq
        {"input": PATCHES, "encoder": {**BLOCKS, "position": "none"}, "decoder": BLOCKS},
    ],
)
def test_every_kind_of_captioner(data: Path, tmp_path: Path, model: dict[str, Any]):
    made = front.train(recipe(CAPTION, data, model=model), to=tmp_path / "run")
    pictures = [str(data / "test" / f"{n:04}.png") for n in range(4)]
    alone = [made.predict([each])[0] for each in pictures]
    assert made.predict([pictures[2], "", *pictures]) == [alone[2], "", *alone]
    scores, outputs = made.evaluate("test")
    assert {"bleu", "cider", "exact"} == scores.keys() and len(outputs) == 4
    assert all(each["log_prob"] < 0 for each in made.score(pictures, ["a red circle"] * 4))
    [begun] = made.predictions(pictures[:1], prefixes=["a red"])
    assert begun.text.startswith("a red")


def test_it_learns_a_few_pictures(data: Path, tmp_path: Path):
    """Four by heart, and any true caption counts. The search waits for more results than the usual
    ones: of few words, poor endings are soon as many as the beams."""
    rows = (data / "test.tsv").read_text().splitlines()
    first = [row.split(" | ")[0] for row in rows]
    (data / "few.tsv").write_text("\n".join(first) + "\n")
    sections: dict[str, Any] = {
        "data": {"train": ["few.tsv"], "validation": ["test.tsv"]},
        "source": {"size": [32, 32]},
        "model": {"dim": 32, "decoder": {"dropout": 0.0}, "head": {"smoothing": 0.0}},
        "search": {"beams": 3, "patience": 4.0},
        "train": {
            "updates": 250, "validate_every": 250, "save_every": 250, "threads": 1, "metric": "nll",
            "allow": ["data.leaked", "image.leaked"], "optimizer": {"learning_rate": 0.004},
            "schedule": {"kind": "linear", "warmup": 10},
        },
    }  # fmt: skip
    made = front.train(recipe(CAPTION, data, **sections), to=tmp_path / "run")
    assert made.evaluate("test")[0]["exact"].value == 100
    path = tmp_path / "attention.png"
    source = str(data / "test" / "0000.png")
    demo.draw_words(made, source, next(iter(made.predictions([source]))), path)
    assert path.stat().st_size > 1000


def test_words_are_drawn_over_the_picture(tmp_path: Path):
    from regard.inspect import report

    run = small_runs.make("describer", tmp_path / "run")
    target = "a blue cross"
    made = report.build([run], [small_runs.example("caption")], report.Options(target=target))
    [reading] = made.runs[0]["frames"][0]["readings"]
    names = [each["name"] for each in reading["picture"]["maps"]]
    assert [name for name in names if name.startswith("word ")] == [
        "word 1, a",
        "word 2, blue",
        "word 3, cross",
        "word 4, <end>",
    ]


def test_the_matrix_of_similarities(tmp_path: Path):
    from regard.inspect import report

    run = small_runs.make("comparer", tmp_path / "run")
    made = report.build([run], [small_runs.example("contrast")])
    [reading] = made.runs[0]["frames"][0]["readings"]
    found = reading["similarities"]
    assert len(found["rows"]) == 1 + len(found["columns"]) == 4
    task: Any = run.task
    assert reading["picture"] and reading["output"] in task.matcher.choices.names


def test_a_batch_of_contrast_is_whole(data: Path, tmp_path: Path):
    made = front.train(recipe(CONTRAST, data), to=tmp_path / "run")
    batches = made.task.batches(1)
    batch = batches.at(Position())
    assert not batch.divisible and batch.targets == len(batch) == 8
    lengths = {int(n) for k in range(2) for n in batches.at(Position(0, k))["target_mask"].sum(1)}
    assert len(lengths) > 1  # whatever their lengths
    terms, _ = made.task.loss(made.model, batch, None)
    assert terms["nll"].count == 8


def test_what_contrast_says(data: Path, tmp_path: Path):
    made = front.train(recipe(CONTRAST, data), to=tmp_path / "run")
    pictures = [str(data / "test" / f"{n:04}.png") for n in range(3)]
    alone = [next(iter(made.predictions([each]))) for each in pictures]
    together = [*made.predictions([pictures[1], "", *pictures])]
    assert [each.text for each in together] == [alone[1].text, "", *(each.text for each in alone)]
    np.testing.assert_allclose(together[0].vector, alone[1].vector, atol=1e-5)
    assert np.linalg.norm(alone[0].vector) == pytest.approx(1, abs=1e-4)
    chosen = front.load(tmp_path / "run", choices=["red\ta red circle\ta red star", "a blue star"])
    [said] = chosen.predictions(pictures[:1])
    assert [*said.probabilities] == ["red", "a blue star"]
    assert sum(said.probabilities.values()) == pytest.approx(1)
    matcher = _task(chosen).matcher
    vectors = matcher.of_texts(chosen.model, 1, ["a red circle", "a red star", "a blue star"])
    red = torch.nn.functional.normalize(vectors[:2].mean(0), dim=0)
    both = matcher.weights(chosen.model)
    torch.testing.assert_close(both, torch.stack([red, vectors[2]]))
    [scored] = made.score(pictures[:1], ["a red circle"])
    assert scored["log_prob"] < 0 and -1 <= scored["similarity"] <= 1
    demo.draw_similarities(made, pictures[0], alone[0], tmp_path / "matrix.png")
    assert (tmp_path / "matrix.png").stat().st_size > 1000


def test_the_classifier_is_the_two_towers(tmp_path: Path):
    """Labels by prompts are the similarities of both towers."""
    run = small_runs.make("comparer", tmp_path / "run")
    task: Any = run.task
    model, matcher = run.model(), task.matcher
    [row] = matcher.rows(0, [small_runs.example("contrast")])
    reader: Any = matcher.classifier(model)
    with torch.inference_mode():
        memory = reader.encode(collate([task.source], [row], [0]))
        found = reader.head.logits(reader.head.pool(memory))
    own = matcher.vectors(model, 0, [row])
    expected = matcher.similarities(model, own, matcher.weights(model))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_two_languages(tmp_path: Path):
    lines = [(f"{a} {b}", f"{b} {a}") for a in ("one", "two", "six") for b in ("cat", "dog", "cow")]
    for part in COUNTS:
        for side, n in (("en", 0), ("de", 1)):
            text = "".join(f"{pair[n]}\n" for pair in lines)
            (tmp_path / f"{part}.{side}").write_text(text)
    tower = {"input": {"kind": "tokens"}, "encoder": RNN}
    sections: dict[str, Any] = {
        "data": {part: [f"{part}.en", f"{part}.de"] for part in COUNTS},
        "tokenizer": {"joint": True},
        "model": {"towers": dict.fromkeys(("source", "target"), tower)},
        "train": {**CONTRAST["train"], "allow": ["data.leaked", "data.known"]},
    }
    table = recipe(CONTRAST, tmp_path, **sections) | {"source": {"kind": "text"}}
    made = front.train(table, to=tmp_path / "run")
    assert list(made.task.fields) == ["source", "target"]
    scores, _ = made.evaluate("test")
    assert "source_to_target_r1" in scores and "target_to_source_r10" in scores
    assert made.predict(["one cat"])[0] in {other for _, other in lines}


def test_what_does_not_fit_is_refused(data: Path):
    for base, sections, said in [
        (CAPTION, {"model": {**CAPTION["model"], "tie": "all"}}, "model.tie: 'all'"),
        (CAPTION, {"search": {"kind": "ctc"}}, "search.kind: 'ctc' is not for"),
        (CAPTION, {"data": {**CAPTION["data"], "columns": [1]}}, "data.columns: the picture's"),
        (CONTRAST, {"model": {"head": {"kind": "labels"}}}, "model.head.kind: 'labels' is not for"),
        (CONTRAST, {"model": {"towers": {"image": {}}}}, "model.towers.image: no such key"),
        (CONTRAST, {"model": {"towers": {"source": {"size": 3}}}}, "model.towers.source.size"),
        (CONTRAST, {"evaluation": {"labelled": ["x.tsv"]}}, "prompts: 0 files for 1"),
    ]:
        with pytest.raises(RecipeError) as error:
            config.from_table(recipe(base, data, **sections))
        assert said in str(error.value), str(error.value)


def test_towers_of_unlike_widths(data: Path):
    towers = {"source": {"dim": 24, "input": CNN}, "target": {"encoder": BLOCKS}}
    made = config.from_table(recipe(CONTRAST, data, model={"dim": 16, "towers": towers}))
    assert made.model.widths() == {"source": 24, "target": 16}
    again = config.from_table(tomllib.loads(config.dump(made)))
    assert again.model == made.model


def test_photographs_are_in_three_parts(tmp_path: Path):
    """A picture is in one part, with all of its captions."""
    rows = [f'{n:03}.jpg,"a dog, {m}"' for n in range(40) for m in range(2)]
    (tmp_path / "captions.txt").write_text("\n".join(["image,caption", *rows]) + "\n")
    photographs(tmp_path, lambda name: tmp_path / name)
    parts = {p: (tmp_path / f"{p}.tsv").read_text().splitlines() for p in COUNTS}
    assert {name: len(lines) for name, lines in parts.items()} == {
        "train": 2 * 34, "validation": 2, "test": 4,
    }  # fmt: skip
    assert parts["test"][0] == "../flickr8k-1k/images/000.jpg\ta dog, 0 | a dog, 1"
    seen = [{line.split("\t")[0] for line in lines} for lines in parts.values()]
    assert sum(map(len, seen)) == len(set.union(*seen)) == 40


def test_a_picture_that_is_broken_is_reported(data: Path, tmp_path: Path):
    made = front.train(recipe(CAPTION, data), to=tmp_path / "run")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    [said] = made.predictions([str(tmp_path / "bad.png")])
    assert said.status == "broken" and "bad.png" in str(said.problem)
    with pytest.raises(UserError):
        front.load(tmp_path / "run", choices=[])
    assert json.loads((tmp_path / "run" / "data.json").read_text())["used"] == 16
    assert isinstance(made.run, Run)


@pytest.mark.parametrize("base", [CAPTION, CONTRAST])
def test_pictures_and_texts_in_parquet(base: dict[str, Any], data: Path, tmp_path: Path):
    """The pictures' bytes in a column of any name; a row that is broken has its number."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for part in COUNTS:
        rows = [line.split("\t") for line in (data / f"{part}.tsv").read_text().splitlines()]
        cells = [{"bytes": (data / name).read_bytes(), "path": name} for name, _ in rows]
        cells += [{"bytes": b"no picture", "path": "odd.png"}] * (part == "train")
        texts = [text for _, text in rows] + ["odd"] * (part == "train")
        table = pyarrow.table({"said": texts, "seen": cells})
        parquet.write_table(table, tmp_path / f"{part}.parquet")
    files: dict[str, Any] = {part: [f"{part}.parquet"] for part in COUNTS}
    files |= {"columns": ["seen", "said"], "on_bad_line": "skip"}
    made = front.train(recipe(base, tmp_path, data=files), to=tmp_path / "run")
    assert len(_task(made)._stored("train")) == COUNTS["train"]
    kept = (tmp_path / "run" / "data.json").read_text()
    assert f"train.parquet#{COUNTS['train']}" in kept and "not a picture" in kept
    assert [each.status for each in made.predictions([f"{tmp_path}/test.parquet#1"])] == ["ok"]
    assert made.evaluate("test")[1]
