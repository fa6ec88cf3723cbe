"""Bidirectional language models, and what reads by their layers: ELMo, from text to tags."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import cli, front
from regard.errors import RecipeError, UserError
from regard.examples.stored import collate
from regard.front import Predictor
from regard.recipe.config import from_table
from regard.runs import Run, train
from regard.train.checkpoint import Checkpoint
from regard.types import Position

COLOURS = {"sky": "blue", "grass": "green", "snow": "white", "blood": "red"}
SMALL: dict[str, Any] = {
    "dim": 16,
    "tie": "none",
    "input": {"kind": "characters", "size": 24, "widths": [1, 2, 3]},
}
TRAIN: dict[str, Any] = {
    "updates": 4,
    "validate_every": 2,
    "save_every": 2,
    "threads": 1,
    "samples": 1,
}
TRAIN |= {"allow": ["data.leaked", "data.repeated"]}


def sentence(dice: random.Random) -> str:
    thing = dice.choice([*COLOURS])
    return f"{dice.choice(['look', 'see', 'so'])} {COLOURS[thing]} {thing} isn't here."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("both")
    dice = random.Random(1)
    texts = [" ".join(sentence(dice) for _ in range(dice.randint(1, 3))) for _ in range(300)]
    (made / "train.txt").write_text("\n".join(texts[:260]) + "\n")
    (made / "test.txt").write_text("\n".join(texts[260:]) + "\n")
    rows = ["1\tWe\t_\tPRON", "2-3\tdon't\t_\t_", "2\tdo\t_\tAUX", "3\tn't\t_\tPART"]
    rows += ["4\tsee\t_\tVERB", "5\tmoonlight\t_\tNOUN", "6\tNUMBER\t_\tNUM"]
    block = "\n".join(row + "\t_" * 6 for row in rows)
    blocks = [f"# number {n}\n{block.replace('NUMBER', str(n))}\n\n" for n in range(30)]
    (made / "words.conllu").write_text("".join(blocks))
    labels = [f"{'cold' if 'snow' in text else 'warm'}\t{text}" for text in texts]
    (made / "labels.tsv").write_text("\n".join(labels) + "\n")
    return made


def table(folder: Path, **sections: Any) -> dict[str, Any]:
    """A recipe; `sections` add to its own."""
    files = {"train": ["train.txt", "words.conllu"], "validation": ["test.txt"]}
    made: dict[str, Any] = {
        "task": "bidirectional_language_model",
        "data": {"folder": str(folder), **files, "test": ["test.txt"]},
        "windows": {"length": 12},
        "tokenizer": {"kind": "word", "split": "treebank"},
        "batch": {"tokens": 512},
        "model": SMALL,
        "train": TRAIN,
    }
    for name, section in sections.items():
        made[name] = {**made.get(name, {}), **section} if isinstance(section, dict) else section
    return made


@pytest.fixture(scope="module")
def trained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    sections = {
        "windows": {"length": 24},
        "model": {**SMALL, "dim": 32, "encoder": {"dropout": 0.0}},
        "train": {
            "updates": 80, "validate_every": 40, "optimizer": {"learning_rate": 0.01},
            "schedule": {"kind": "linear", "warmup": 20},
        },
    }  # fmt: skip
    return front.train(table(folder, **sections), to=tmp_path_factory.mktemp("run") / "run")


def reader(task: str, folder: Path, run: Path | str, **sections: Any) -> dict[str, Any]:
    """A recipe of a task whose input reads by a run."""
    held: dict[str, Any] = {"kind": "pretrained", "weights": str(run), "frozen": True}
    data = {"train": ["labels.tsv"]}
    if task == "tag":
        data = {"train": ["words.conllu"]}
    keys = {"task": task, "data": {"folder": str(folder), **data}, "train": TRAIN}
    keys |= {"held_out": {"validation": 0.3}, "batch": {"tokens": 512}}
    model = {"dim": 12, "input": held | sections.pop("input", {})}
    model |= {"encoder": {"kind": "rnn", "layers": 1}} | sections.pop("model", {})
    return keys | {"model": model} | sections


def parts(made: Predictor) -> tuple[Any, Any]:
    """Its task and its model."""
    return made.task, made.model.eval()


def weights(run: Path, key: str = "") -> dict[str, torch.Tensor]:
    found = Checkpoint(run / "model").weights()
    return {n.removeprefix(key): w for n, w in found.items() if n.startswith(key)}


# The language model


def test_it_learns_from_both_ends(trained: Predictor):
    asked = [f"look [MASK] {thing} isn't here." for thing in COLOURS]
    asked += [f"look {colour} [MASK] isn't here." for colour in COLOURS.values()]
    said = [made.masks[0][0]["word"] for made in trained.predictions(asked, top=2)]
    assert said == [*COLOURS.values(), *COLOURS]
    right, wrong = trained.score(["so blue sky isn't here.", "so red sky isn't here."])
    for side in ("log_prob", "log_prob_backward"):
        assert right[side] > wrong[side] + 1
    assert right["tokens"][:5] == ["so", "blue", "sky", "is", "n't"]
    assert len(right["log_probs"]) == len(right["log_probs_backward"]) == 8  # with END, with START


def test_each_direction_sums_to_one(trained: Predictor):
    """exp of the scores of all first words, and of all last words, of texts of one word."""
    task, model = parts(trained)
    words = [task.by.decode([n]) for n in range(len(task.by)) if n not in task.by.special]
    rows = list(trained.score(words))
    for side in ("log_probs", "log_probs_backward"):
        place = 0 if side == "log_probs" else -1
        total = sum(float(torch.tensor(row[side][place]).exp()) for row in rows)
        assert 0.9 < total < 1 + 1e-5, "the rest is for special tokens"
    assert model.size() == sum(w.numel() for w in weights(trained.run.folder).values())


def test_scores_are_those_of_validation(trained: Predictor):
    scores, texts = trained.evaluate("test")
    best = min(r["nll"] for r in trained.run.records() if r["kind"] == "validation")
    assert scores["nll"].value == pytest.approx(best, rel=1e-4)
    assert scores.keys() == {
        "nll", "perplexity", "perplexity.forward", "perplexity.backward", "accuracy",
    }  # fmt: skip
    assert len(texts) == 40 and "window:24" in scores["nll"].signature
    both = scores["perplexity.forward"].value * scores["perplexity.backward"].value
    assert scores["perplexity"].value == pytest.approx(both**0.5)


def test_texts_are_read_as_words_with_their_characters(trained: Predictor):
    """Of plain text those of the treebank's rule, of CoNLL-U its own."""
    task, _ = parts(trained)
    known = {*task.by.pieces(range(len(task.by)))}
    assert {"n't", "moonlight"} <= known and not {"isn't", "don't"} & known
    batch = task.batches(1).at(Position())
    letters = (batch["source_characters"] > 0).sum(-1)
    words = task.by.pieces(batch["source"][0].tolist())
    real = int(batch["source_mask"][0].sum())
    assert letters[0, :real].tolist() == [0, *map(len, words[1 : real - 1]), 0]


def test_a_kill_and_a_resume_change_nothing(folder: Path, tmp_path: Path):
    """Words are drawn again as they were."""
    whole = tmp_path / "whole"
    front.train(table(folder, model={**SMALL, "head": {"samples": 4}}), to=whole)
    stopped = tmp_path / "stopped"
    shutil.copytree(whole, stopped, ignore=shutil.ignore_patterns("model", "00000004"))
    front.train(resume=stopped)
    one, other = weights(whole), weights(stopped)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"windows": {"length": 2}}, "windows.length: 2 has no room for a text"),
        ({"model": {**SMALL, "dim": 15}}, "model.dim = 15 is not even"),
        ({"model": {**SMALL, "tie": "all"}}, "set model.tie = 'none'"),
        ({"characters": False}, "to read characters, set characters = true"),
        ({"model": {**SMALL, "head": {"kind": "vocabulary"}}}, "'vocabulary' is not for the task"),
        ({"tokenizer": {"kind": "bpe", "split": "words"}}, "need tokenizer.kind = 'word'"),
    ],
)
def test_what_cannot_be_is_refused(sections: dict[str, Any], said: str, folder: Path):
    with pytest.raises(RecipeError, match=said.replace(".", r"\.")):
        from_table(table(folder, **sections))


# What reads by its layers


@pytest.fixture(scope="module")
def tagger(trained: Predictor, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """Whose base is gone."""
    base = tmp_path_factory.mktemp("gone") / "base"
    shutil.copytree(trained.run.folder, base)
    made = front.train(reader("tag", folder, base), to=tmp_path_factory.mktemp("tag") / "run")
    shutil.rmtree(base)
    return made


def test_a_tagger_reads_what_the_run_read(trained: Predictor, tagger: Predictor):
    """Layers of words are those of the same text between START and END."""
    words = [("so", "blue", "sky", "is", "n't", "here", "."), ("see", "moonlight")]
    task, model = parts(tagger)
    batch = collate([task.source], task.source.encode(words), range(2))
    found, mask = model.input.layers(batch)
    base, read = parts(trained)
    framed = collate([base.source], base.source.encode([" ".join(w) for w in words]), range(2))
    layers = read.encode_layers(framed)
    assert len(found) == len(layers) == 3
    for mine, theirs in zip(found, layers, strict=True):
        for row, sentence in enumerate(words):
            real = slice(len(sentence))
            torch.testing.assert_close(
                mine[row, real], theirs.states[row, 1 : len(sentence) + 1], atol=1e-6, rtol=1e-5
            )
    assert mask.sum(1).tolist() == [7, 2]


def test_a_frozen_run_stays_as_it_is_and_its_mixture_is_learnt(
    trained: Predictor, tagger: Predictor
):
    base = weights(trained.run.folder)
    held = weights(tagger.run.folder, "input.")
    for name in ("input", "encoder"):
        mine = {n: w for n, w in held.items() if n.startswith(f"{name}.")}
        assert mine and all(torch.equal(w, base[n]) for n, w in mine.items())
    assert held["mixture"].shape == (3,) and bool((held["mixture"] != 0).all())
    assert float(held["factor"]) != 1.0
    kept = Checkpoint(next(iter(sorted(tagger.run.checkpoints.iterdir()))))
    assert not [name for name in kept.optimizer() if ".encoder." in name and "input." in name]


def test_the_input_is_the_mixture_of_layers(tagger: Predictor):
    """γ Σ_j s_j h_j with s = softmax(w)."""
    part: Any = tagger.model.input
    layers = [torch.randn(2, 3, 5) for _ in range(3)]
    shares = part.mixture.softmax(0)
    wanted = part.factor * sum(s * h for s, h in zip(shares, layers, strict=True))
    torch.testing.assert_close(part.mixed(layers), wanted)


def test_the_run_stands_alone(
    tagger: Predictor, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    """Its base is gone: it is evaluated, asked, looked into, exported and begun from."""
    run = str(tagger.run.folder)
    scores, _ = tagger.evaluate("validation")
    assert scores["accuracy"].value >= 0
    cli.main(["predict", run, "We see moonshine"])
    assert len(capsys.readouterr().out.split()) == 3
    cli.main(["inspect", run, "We see moonshine", "--output", str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").is_file()
    with pytest.raises(RecipeError, match=r"model\.input\.weights: .* does not exist"):
        from_table(reader("tag", Path(run), Path(tagger.run.recipe.model.input.training.weights)))


def test_a_tagger_can_be_begun_from(tagger: Predictor, folder: Path, tmp_path: Path):
    again = {k: v for k, v in reader("tag", folder, "").items() if k != "model"}
    made = front.train(again | {"model": {"weights": str(tagger.run.folder)}}, to=tmp_path / "run")
    start = Checkpoint(made.run.folder / "start").weights()
    before = weights(tagger.run.folder)
    assert start.keys() == before.keys()
    assert all(torch.equal(start[name], before[name]) for name in before)


def test_it_is_exported(tagger: Predictor, tmp_path: Path, capsys, monkeypatch):
    import jaxtyping

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    cli.main(["export", str(tagger.run.folder), str(tmp_path / "shipped"), "--json"])
    shipped = json.loads(capsys.readouterr().out)
    assert shipped["parity"]["difference"] < 1e-4


def test_a_classifier_trains_the_run_on(trained: Predictor, folder: Path, tmp_path: Path):
    beside = {"features": "both", "size": 5, "characters": {"size": 6}}
    made = reader(
        "classify",
        folder,
        trained.run.folder,
        input={"frozen": False, "beside": beside, "rate": 0.5},
    )
    run = front.train(made, to=tmp_path / "run")
    held, base = weights(run.run.folder, "input."), weights(trained.run.folder)
    assert any(not torch.equal(w, base[n]) for n, w in held.items() if n.startswith("encoder."))
    assert {n for n in held if n.startswith("beside.")}
    assert run.model.factors == {"input.input": 0.5, "input.encoder": 0.5}
    assert parts(run)[0].config.tokenizer.split == "treebank"
    assert parts(run)[0].source.tokenizer.hash == parts(trained)[0].by.hash
    scores, _ = run.evaluate("validation")
    assert scores["accuracy"].value >= 0


def test_a_masked_language_model_is_read_by_too(folder: Path, tmp_path: Path):
    """All layers of a Transformer, for a classifier and for words of several pieces."""
    blocks = {"kind": "transformer", "layers": 2, "heads": 2, "feedforward": 24}
    base = front.train(
        {
            "task": "masked_language_model",
            "data": {"folder": str(folder), "train": ["train.txt"]},
            "windows": {"length": 24},
            "tokenizer": {"kind": "bpe", "vocabulary": 290},
            "model": {"dim": 16, "encoder": blocks | {"norm": "pre", "position": "learned"}},
            "train": TRAIN,
        },
        to=tmp_path / "mlm",
    )
    with pytest.raises(RecipeError, match=r"model\.input\.encoder\.limit: \d+ positions"):
        from_table(reader("classify", folder, base.run.folder, data={
            "folder": str(folder), "train": ["labels.tsv"], "max_length": 5000}))  # fmt: skip
    for task in ("classify", "tag"):
        run = front.train(reader(task, folder, base.run.folder), to=tmp_path / task)
        text = "so blue sky isn't here."
        (here, model), (there, read) = parts(run), parts(base)
        rows = here.source.encode([text.split() if task == "tag" else text])
        found, _ = model.input.layers(collate([here.source], rows, [0]))
        layers = read.encode_layers(there.filler.batch(there.source.encode([text]), [0]))
        edges = slice(1, -1) if task == "tag" else slice(None)
        for mine, theirs in zip(found, layers, strict=True):
            torch.testing.assert_close(mine, theirs.states[:, edges], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"input": {"dim": 7}}, "model.input.dim: it is 32 in"),
        ({"tokenizer": {"kind": "bpe"}}, "tokenizer.kind: 'bpe' here and 'word' in"),
        ({"characters": False}, "characters: False here and True in"),
        ({"input": {"frozen": False, "encoder": {"layers": 3}}}, "model.input.encoder: it is"),
    ],
)
def test_what_does_not_fit_is_refused(
    sections: dict[str, Any], said: str, trained: Predictor, folder: Path
):
    with pytest.raises(RecipeError, match=said.replace(".", r"\.")):
        from_table(reader("tag", folder, trained.run.folder, **sections))


def test_runs_that_cannot_be_read_by_are_refused(tagger: Predictor, folder: Path, tmp_path: Path):
    none = reader("tag", folder, "", characters=True, tokenizer={"kind": "word"})
    with pytest.raises(RecipeError, match=r"model\.input\.weights: .* wants a run to read by"):
        front.train(none, to=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    with pytest.raises(RecipeError, match="has an input of kind 'pretrained' itself"):
        from_table(reader("tag", folder, tagger.run.folder))
    made = {
        "task": "language_model",
        "unit": "line",
        "data": {"folder": str(folder), "train": ["train.txt"]},
        "tokenizer": {"kind": "word"},
        "model": {"dim": 8, "decoder": {"kind": "rnn", "layers": 1}},
        "train": TRAIN,
    }
    front.train(made, to=tmp_path / "lm")
    with pytest.raises(RecipeError, match="an input and an encoder are wanted"):
        from_table(reader("tag", folder, tmp_path / "lm"))
    lost = tmp_path / "lost"
    shutil.copytree(tagger.run.folder, lost)
    shutil.rmtree(lost / "start")
    for place in [*lost.glob("checkpoints/*")]:
        shutil.rmtree(place)
    with pytest.raises(UserError):
        train(Run(lost))
