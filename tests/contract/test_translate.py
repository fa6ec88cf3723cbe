"""The task of translation: what it makes of data, and that batches do not matter."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.store import Store
from regard.data.tokenizers import Tokenizer
from regard.decoding import translation
from regard.errors import RecipeError, UserError
from regard.examples import stored
from regard.inspect.views import read
from regard.interop.export import export
from regard.recipe import config
from regard.runs import Run
from regard.tasks.translate import SIDES
from regard.types import Position
from tests import corpus

LINES = [*corpus.sentences(25, seed=8), "", "ka", "   ", "lo lo lo lo lo lo lo lo lo lo lo lo"]


@pytest.fixture(scope="module")
def predictor() -> regard.Predictor:
    return regard.load(corpus.trained())


def close(a: list[float], b: list[float]) -> bool:
    return len(a) == len(b) and all(abs(x - y) < 1e-4 for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("search", ["beam", "greedy", "sample"])
def test_results_do_not_depend_on_the_batch(search: str, predictor: regard.Predictor):
    options: dict[str, Any] = {"search": search, "align": True}
    one = list(predictor.predictions(LINES, batch=1, **options))
    assert len(one) == len(LINES)
    assert [p.status for p in one[25:]] == ["empty", one[26].status, "empty", one[28].status]
    for size in (7, 128):
        many = list(predictor.predictions(LINES, batch=size, **options))
        for a, b in zip(one, many, strict=True):
            assert (a.text, a.tokens, a.status) == (b.text, b.tokens, b.status)
            assert a.alignment == b.alignment
            assert close(a.log_probs, b.log_probs)
            assert a.score == pytest.approx(b.score, abs=1e-4)


def test_results_do_not_depend_on_the_neighbours(predictor: regard.Predictor):
    together = predictor.predict(LINES)
    assert predictor.predict(list(reversed(LINES))) == list(reversed(together))


def test_scores_do_not_depend_on_the_batch(predictor: regard.Predictor):
    sources = [line for line in LINES if line.strip()]
    targets = [corpus.translate(line) for line in sources]
    one, many = (
        list(predictor.task.score(predictor.model, sources, targets, batch=size))  # type: ignore[call-arg]
        for size in (1, 128)
    )
    for a, b in zip(one, many, strict=True):
        assert a["tokens"] == b["tokens"]
        assert close(a["log_probs"], b["log_probs"])


def test_what_is_cut_before_it_is_scored_is_told(predictor: regard.Predictor):
    long = " ".join(["lo"] * (predictor.task.config.data.max_length + 1))  # type: ignore[attr-defined]
    right = corpus.translate("ka")
    found = predictor.score(["ka", long, "ka", "zz"], [right, right, "zz", right])
    assert [line["status"] for line in found] == ["ok", "cut", "unknown", "unknown"]


def test_something_was_learnt(predictor: regard.Predictor):
    """Or else all that is equal might be equally empty. By chance one word in nine is right."""
    single = predictor.predict(list(corpus.WORDS))
    right = [corpus.translate(word) for word in corpus.WORDS]
    assert sum(a == b for a, b in zip(single, right, strict=True)) >= 5


def test_the_true_target_is_likelier_than_another(predictor: regard.Predictor):
    sources = corpus.sentences(20, seed=4)
    true = [corpus.translate(source) for source in sources]
    wrong = [*true[1:], true[0]]
    likelihoods = [
        sum(line["log_prob"] for line in predictor.score(sources, targets))
        for targets in (true, wrong)
    ]
    assert likelihoods[0] > likelihoods[1]


def test_a_stream_is_answered_line_by_line_with_batches_of_one(predictor: regard.Predictor):
    asked: list[str] = []

    def lines():
        for line in LINES[:4]:
            asked.append(line)
            yield line

    stream = predictor.stream(lines(), batch=1)
    assert asked == []
    first = next(stream)
    assert asked == LINES[:1]
    assert [first.text, *(p.text for p in stream)] == predictor.predict(LINES[:4])


def test_wrong_calls_from_python(predictor: regard.Predictor):
    with pytest.raises(UserError, match="a list of texts"):
        predictor.predict("ka")
    with pytest.raises(UserError, match="2 inputs, but 1 prefixes"):
        predictor.predict(["ka", "lo"], prefixes=["Haus"])
    with pytest.raises(UserError, match="either a recipe, or a run"):
        regard.train()
    with pytest.raises(UserError, match="has only"):
        predictor.predict(["ka"], beems=3)


def test_numbers_that_no_engine_computes_with_are_refused(predictor: regard.Predictor):
    with pytest.raises(UserError, match="quantization: torch computes in float32, not in int8"):
        regard.load(predictor.run.folder, engine="torch", quantization="int8")
    quantized = regard.load(predictor.run.folder, quantization="int8")
    with pytest.raises(UserError, match="engine ctranslate2: 'sample' search"):
        quantized.predict(["ka"], search="sample")


# Data


def prepared(folder: Path, *changes: str, **counts: int) -> Run:
    recipe = config.load(corpus.write(folder / "corpus", **counts), changes)
    return Run.create(folder / "run", recipe)


def test_one_vocabulary_or_two(tmp_path: Path):
    apart = prepared(tmp_path / "apart").task
    own = {"tokens": 4 + 9}
    assert apart.sizes.fields == {"source": own, "target": own | {"outputs": 4 + 9}}
    assert not apart.sizes.shared
    joint = prepared(tmp_path / "joint", "tokenizer.joint=true", "model.tie=all")
    assert {size["tokens"] for size in joint.task.sizes.fields.values()} == {4 + 18}
    assert joint.task.sizes.shared
    names = [f"{side}.tokenizer.json" for side in SIDES]
    assert len({(joint.folder / name).read_bytes() for name in names}) == 1


def test_pairs_can_be_learnt_both_ways(tmp_path: Path):
    joint = ("tokenizer.joint=true", "model.tie=all")
    there = prepared(tmp_path / "one", *joint).folder / "store"
    both = prepared(tmp_path / "both", *joint, "pairs.both_directions=true").folder / "store"
    one, other, left, right = (
        [row.tolist() for row in store.read(side, range(len(store)))]
        for store in (Store(folder, "train") for folder in (there, both))
        for side in SIDES
    )
    assert (left[::2], right[::2]) == (one, other)
    assert (left[1::2], right[1::2]) == (other, one)
    name = "validation.source.00000.values"
    same = (there / name).read_bytes() == (both / name).read_bytes()
    assert same, "only training goes both ways"
    with pytest.raises(RecipeError, match=r"pairs\.both_directions: it needs one vocabulary"):
        prepared(tmp_path / "apart", "pairs.both_directions=true")


def test_batches_hold_both_sides(tmp_path: Path):
    run = prepared(tmp_path)
    task: Any = run.task
    batch = task.batches(1).at(Position())
    row = batch.tensors["source"][0].tolist()
    text = task.source.tokenizer.decode(row)
    wanted = corpus.translate(text)
    assert task.target.tokenizer.decode(batch["target_out"][0].tolist()) == wanted
    assert batch["target_in"][0, 0] == Tokenizer.start
    assert row[int(batch["source_mask"][0].sum()) - 1] == Tokenizer.end
    assert int(batch["target_mask"].sum()) == batch.targets


def test_collate_by_hand(tmp_path: Path):
    """To search with, and to learn from."""
    sources, targets = [[7, 8], []], [[5], [6, 9]]
    searched = translation.collate(sources, targets)
    task: Any = prepared(tmp_path).task
    rows = [{"source": x, "target": y} for x, y in zip(sources, targets, strict=True)]
    learnt = stored.collate(list(task.fields.values()), rows, [3, 4])
    start, end, pad = Tokenizer.start, Tokenizer.end, Tokenizer.pad
    for batch in (searched, learnt):
        assert batch["source"].tolist() == [[7, 8, end], [end, pad, pad]]
        assert batch["source_mask"].tolist() == [[True, True, True], [True, False, False]]
        assert batch["target_in"].tolist() == [[start, 5, pad], [start, 6, 9]]
        assert batch["target_out"].tolist() == [[5, end, pad], [6, 9, end]]
        assert batch["target_mask"].tolist() == [[True, True, False], [True, True, True]]
        assert batch.targets == 5
    assert (searched.ids, learnt.ids) == ((0, 1), (3, 4))


@pytest.mark.parametrize("rule", ["skip", "cut", "refuse"])
def test_sentences_that_are_too_long(rule: str, tmp_path: Path):
    changes = ("data.max_length=3", f"data.on_too_long={rule}")
    lengths = [len(line.split()) for line in corpus.sentences(80)]
    if rule == "refuse":
        with pytest.raises(UserError, match=r"train\.source:\d+: more than 3 tokens"):
            prepared(tmp_path, *changes)
        assert not (tmp_path / "run").exists()
        return
    run = prepared(tmp_path, *changes)
    kept = sum(n <= 3 for n in lengths) if rule == "skip" else 80
    store = Store(run.folder / "store", "train")
    assert len(store) == kept
    assert max(store.lengths("source")) == 3
    report = json.loads((run.folder / "data.json").read_text())
    assert report["used"] == kept
    checked = [len(line.split()) for line in corpus.sentences(10, 1)]
    met = sum(n > 3 for n in lengths + checked)
    assert list(report["skipped"].values()) == [met]
    [told] = run.notes()
    assert f"{met} × more than 3 tokens (data.max_length)" in told and "data.json" in told


def test_what_is_left_out_of_validation_is_told_too(tmp_path: Path):
    recipe = corpus.write(tmp_path / "corpus")
    path = tmp_path / "corpus" / "validation.target"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([lines[0], "", *lines[2:]]) + "\n", encoding="utf-8")
    run = Run.create(tmp_path / "run", config.load(recipe, ()))
    report = json.loads((run.folder / "data.json").read_text())
    assert report["skipped"] == {"empty target": 1} and f"{path}:2" in " ".join(report["report"])


def test_as_many_samples_as_are_asked_for(predictor: regard.Predictor):
    [found] = predictor.predictions(["ka lo"], search="sample", nbest=3, seed=2)
    assert len(found.alternatives) == 3


def test_a_set_that_is_not_here_is_told_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "none"))
    with pytest.raises(RecipeError, match=r"data\.set: the data set multi30k is not there"):
        prepared(tmp_path, "data.set=multi30k")


def test_a_line_that_cannot_be_read_keeps_its_place_in_evaluation(tmp_path: Path):
    run = prepared(tmp_path, "data.on_bad_line=skip")
    path = tmp_path / "corpus" / "test.source"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"\xff\n", *lines[2:]]))
    task: Any = run.task
    sources, targets = task.references("test")
    assert len(sources) == len(targets) == 10
    assert sources[1] == "" and targets[1] and sources[2].encode() + b"\n" == lines[2]


def test_all_of_a_prefix_comes_out_however_long(predictor: regard.Predictor):
    forced = " ".join(["Haus", "Baum"] * 40)
    assert predictor.predict(["ka"], prefixes=[forced])[0].startswith(forced)
    with pytest.raises(RecipeError, match="length: 80 tokens, but the prefix has 80 already"):
        predictor.predict(["ka"], prefixes=[forced], length=80)


def test_nothing_left_to_learn_from(tmp_path: Path):
    changes = ("data.max_length=1", "tokenizer.kind=character")
    with pytest.raises(RecipeError, match=r"data\.max_length: no example of data\.train"):
        prepared(tmp_path, *changes)
    assert not (tmp_path / "run").exists()


def test_empty_sides_are_left_out_of_training_and_kept_in_evaluation(tmp_path: Path):
    recipe = corpus.write(tmp_path / "corpus")
    for part in ("train", "test"):
        path = recipe.parent / f"{part}.target"
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(["", *lines[1:]]) + "\n", encoding="utf-8")
    predictor = regard.train(recipe, "train.updates=1", to=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "data.json").read_text())["used"] == 79
    _, predictions = predictor.evaluate("test")
    assert len(predictions) == 10


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_other_forms_of_files_give_the_same_data(suffix: str, tmp_path: Path):
    recipe = corpus.write(tmp_path / "corpus")
    plain = prepared(tmp_path / "plain")
    sources = corpus.sentences(80)
    rows = [(source, corpus.translate(source)) for source in sources]
    table = {
        "tsv": "".join(f"{a}\t{b}\n" for a, b in rows),
        "csv": "".join(f'"{a}","{b}"\n' for a, b in rows),
        "jsonl": "".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in rows),
    }
    (recipe.parent / f"train.{suffix}").write_text(table[suffix], encoding="utf-8")
    loaded = config.load(recipe, (f'data.train=["train.{suffix}"]',))
    run = Run.create(tmp_path / "run", loaded)
    for name in ("train.source.00000.values", "train.target.00000.lengths", "train.json"):
        assert (run.folder / "store" / name).read_bytes() == (
            plain.folder / "store" / name
        ).read_bytes()


# Learning


def test_one_batch_is_learnt_by_heart(tmp_path: Path):
    quiet = ("model.encoder.dropout=0", "model.decoder.dropout=0", "model.head.smoothing=0")
    records: list[dict[str, Any]] = []
    regard.train(
        corpus.write(tmp_path / "corpus", train=6, validation=6),
        *quiet,
        "train.updates=150",
        "train.log_every=50",
        "train.validate_every=0",
        "batch.tokens=500",
        to=tmp_path / "run",
        callback=records.append,
    )
    losses = [record["nll"] for record in records if record["kind"] == "train"]
    assert losses[0] > 1
    assert losses[-1] < 0.05


@pytest.mark.parametrize("tie", ["none", "output", "all"])
def test_tied_weights_are_stored_once_and_tied_again(tie: str, tmp_path: Path):
    changes = ("tokenizer.joint=true", f"model.tie={tie}", "train.updates=2")
    predictor = regard.train(corpus.write(tmp_path / "corpus"), *changes, to=tmp_path / "run")
    again = regard.load(tmp_path / "run")
    sizes = {"none": 3, "output": 2, "all": 1}
    embeddings = [w for w in again.model.parameters() if w.shape == (22, 16)]
    assert len(embeddings) == sizes[tie]
    for a, b in zip(predictor.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_side_that_is_too_long_is_named(tmp_path: Path):
    (tmp_path / "a").write_text("ka\nlo\n")
    (tmp_path / "b").write_text("x x x x\ny\n")
    table = {
        "train": [str(tmp_path / "a"), str(tmp_path / "b")],
        "max_length": 3,
        "on_too_long": "refuse",
    }
    recipe = config.from_table(
        {"task": "translate", "data": table, "tokenizer": {"kind": "word"}, "model": {"dim": 16}}
    )
    with pytest.raises(
        UserError, match=rf"{re.escape(str(tmp_path / 'b'))}:1: more than 3 .*x x x"
    ):
        Run.create(tmp_path / "run", recipe)


# Choices

CHOSEN = ["Haus", "Baum rot", "ein Hund läuft", "der Baum"]


def choices(folder: Path, *lines: str) -> Path:
    path = folder / "choices.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("search", ["beam", "greedy", "sample"])
def test_nothing_but_the_choices_is_written(
    search: str, predictor: regard.Predictor, tmp_path: Path
):
    bound = regard.load(predictor.run.folder, choices=choices(tmp_path, *CHOSEN, "", "Haus"))
    one = list(bound.predictions(LINES, search=search, batch=1))
    many = list(bound.predictions(LINES, search=search, batch=128))
    assert {p.text for p in one if p.status != "empty"} <= set(CHOSEN)
    assert [p.text for p in one if p.status == "empty"] == ["", ""]
    assert [p.text for p in one] == [p.text for p in many]
    assert {p.status for p in one} <= {"ok", "empty", "unknown"}, "none is cut short"
    assert bound.notes == []


def test_a_wide_beam_takes_the_likeliest_choice(predictor: regard.Predictor, tmp_path: Path):
    bound = regard.load(predictor.run.folder, choices=choices(tmp_path, *CHOSEN))
    lines = corpus.sentences(20, seed=5)
    found = bound.predict(lines, beams=8, length_penalty=0.0)
    for line, text in zip(lines, found, strict=True):
        scores = predictor.score([line] * len(CHOSEN), CHOSEN)
        best = max(range(len(CHOSEN)), key=lambda n: scores[n]["log_prob"])
        assert text == CHOSEN[best]
    assert len(set(found)) > 1


def test_choices_of_the_recipe_go_with_the_run(tmp_path: Path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    path = choices(folder, *CHOSEN, "zz Haus", " ".join(["Haus"] * 21))
    run = prepared(tmp_path, "output.choices=choices.txt")
    path.unlink()
    met = json.loads((run.folder / "data.json").read_text(encoding="utf-8"))
    assert met["skipped"]["tokens that no training text has"] == 1
    assert met["skipped"]["more than 20 tokens (data.max_length)"] == 1
    right = (folder / "validation.target").read_text(encoding="utf-8").splitlines()
    lacking = sum(line not in CHOSEN for line in right)
    assert met["skipped"]["targets that output.choices lacks"] == lacking > 0
    assert f"{path}:5: “zz Haus”" in " ".join(met["report"])
    assert run.task.translator.choices.longest == 3  # type: ignore[attr-defined]


def test_a_run_with_choices_is_used_by_all(tmp_path: Path):
    """Validated, opened, looked into; and shipped, where it is said that it is not bound."""
    folder = tmp_path / "corpus"
    recipe = corpus.write(folder)
    choices(folder, *CHOSEN)
    bound = regard.train(recipe, "output.choices=choices.txt", to=tmp_path / "run")
    assert {*bound.predict(LINES)} <= {*CHOSEN, ""}
    page = read(bound.run, bound.task, bound.model, "ka lo", bound.search())
    assert page.output in CHOSEN
    free = regard.load(tmp_path / "run", choices="none")
    assert free.task.translator.choices is None and free.predict(LINES) != bound.predict(LINES)  # type: ignore[attr-defined]
    found = export(bound.run, tmp_path / "shipped").parity
    assert found.equal == 1
    assert "this one writes any text" in (tmp_path / "shipped" / "README.md").read_text()


def test_what_the_choices_lack_is_told_by_what_can_be_written(tmp_path: Path):
    """Case is lost in these tokens, so “HAUS” is what “haus” is; of several answers one does."""
    folder = tmp_path / "corpus"
    recipe = corpus.write(folder)
    choices(folder, "haus", "BAUM  rot")
    (folder / "validation.source").write_text("ka\nlo\nmi\n", encoding="utf-8")
    (folder / "validation.target").write_text("HAUS\nHund | Baum Rot\nHund\n", encoding="utf-8")
    changes = ["tokenizer.lowercase=true", "output.choices=choices.txt"]
    changes += ["evaluation.multiple_references=' | '"]
    run = Run.create(tmp_path / "run", config.load(recipe, changes))
    met = json.loads((run.folder / "data.json").read_text(encoding="utf-8"))
    assert met["skipped"] == {"targets that output.choices lacks": 1}
    assert f"{folder / 'validation.target'}:3: “Hund”" in " ".join(met["report"])


def test_choices_that_cannot_be(predictor: regard.Predictor, tmp_path: Path):
    folder = predictor.run.folder
    path = choices(tmp_path, *CHOSEN, "zz")
    bound = regard.load(folder, choices=path)
    assert bound.notes == [
        "1 × tokens that no training text has:", f"  {path}:5: “zz”"
    ]  # fmt: skip
    with pytest.raises(RecipeError, match="prefix: no choice begins with its tokens, rot"):
        bound.predict(["ka"], prefixes=["rot"])
    assert bound.predict(["ka"], prefixes=["Baum"]) == ["Baum rot"]
    with pytest.raises(RecipeError, match=r"length: the choices say how long .*; leave it out"):
        bound.predict(["ka"], length=4)
    with pytest.raises(RecipeError, match=r"search\.min_length: the choices say .*; set it to 0"):
        bound.predict(["ka"], min_length=4)
    for options in ({"engine": "ctranslate2"}, {"quantization": "int8"}, {"shortlist": True}):
        with pytest.raises(RecipeError, match="choices: CTranslate2 writes any text"):
            regard.load(folder, choices=path, **options)
    with pytest.raises(UserError, match="there is no text that could be written"):
        regard.load(folder, choices=choices(tmp_path, "zz", ""))
    with pytest.raises(UserError, match=r"choces\.txt: no such file .*; did you mean choices\.txt"):
        regard.load(folder, choices=tmp_path / "choces.txt")
    path.write_bytes(b"Haus\n\xff\n")
    with pytest.raises(UserError, match=r"choices\.txt:2: not UTF-8"):
        regard.load(folder, choices=path)
    with pytest.raises(RecipeError, match="prefix: no choice begins with its tokens, Haus"):
        regard.load(folder, choices=CHOSEN).predict(["ka"], prefixes=["Haus Haus"])
    assert regard.load(folder, choices=["Haus", "zz"]).notes[1:] == ["  choices:2: “zz”"]
    assert regard.load(folder, choices="none").predict(LINES) == predictor.predict(LINES)


def test_choices_that_a_recipe_cannot_have(tmp_path: Path):
    with pytest.raises(RecipeError, match=r"output\.choices: .*words\.txt: there is no such file"):
        prepared(tmp_path, "output.choices=words.txt")
    with pytest.raises(RecipeError, match=r"search\.min_length: the choices say how long"):
        prepared(tmp_path, "output.choices=words.txt", "search.min_length=2")
    assert not (tmp_path / "run").exists()
