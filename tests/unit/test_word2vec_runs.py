"""Runs of word2vec: made, stopped, taken up, damaged, used."""

import gzip
import json
import os
import shutil
import signal
from dataclasses import asdict
from itertools import count
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from regard.data.tokenizers import Config, Tokenizer
from regard.errors import RecipeError, UserError
from regard.word2vec import folder, training
from regard.word2vec.corpus import Corpus, Source
from regard.word2vec.settings import Settings
from regard.word2vec.space import Space

SMALL: Any = {"dim": 8, "min_frequency": 1, "window": 2, "subsample": 0.0}


def text(lines=300):
    """Two topics that never meet: animals eat, machines compute."""
    topics = (["cat", "dog", "mouse", "eats", "sleeps"], ["disk", "chip", "code", "runs", "stops"])
    draw = np.random.default_rng(1)
    return [" ".join(draw.choice(topics[n % 2], 9)) for n in range(lines)]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(text()) + "\n")
    return path


def make(path, source, **settings):
    return folder.create(path, Source([source]), Settings(**(SMALL | settings)))[0]


def run(path, tick=lambda words, speed: None):
    return training.train(path, lambda record: None, tick)


def vectors(path):
    return load_file(path / "model/model.safetensors")["inputs"]


@pytest.mark.parametrize("model", ["skip-gram", "cbow"])
@pytest.mark.parametrize("loss", ["negatives", "hierarchical"])
def test_what_is_used_alike_comes_near(tmp_path, file, model, loss):
    make(tmp_path / "run", file, model=model, loss=loss, epochs=12, learning_rate=0.1)
    assert run(tmp_path / "run").finished
    space = Space.load(tmp_path / "run")
    for one, others in (("cat", "dog mouse eats sleeps"), ("disk", "chip code runs stops")):
        near = {each.word for each in space.neighbours(one, count=4)}
        assert near == {*others.split()}


def test_a_stopped_run_ends_with_the_same_bits(tmp_path, file, monkeypatch):
    for name in ("one", "two"):
        make(tmp_path / name, file, epochs=4)
    run(tmp_path / "one")

    class Killed(BaseException):
        pass

    calls = 0

    def kill(words, speed):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Killed

    with pytest.raises(Killed):
        run(tmp_path / "two", kill)
    assert [c.name for c in (tmp_path / "two/checkpoints").iterdir()] == ["00000002"]
    with pytest.raises(UserError, match="is not finished; to go on: regard word2vec --resume"):
        Space.load(tmp_path / "two")
    assert run(tmp_path / "two").update == 4
    assert vectors(tmp_path / "one").tobytes() == vectors(tmp_path / "two").tobytes()
    assert not (tmp_path / "two/store").exists()
    assert run(tmp_path / "two").finished  # nothing is left to be done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("model", ["skip-gram", "cbow"])
@pytest.mark.parametrize("loss", ["negatives", "hierarchical"])
def test_a_killed_run_ends_with_the_same_bits(tmp_path, file, model, loss):
    """kill -9 in the first epoch, in the third, and then not at all."""
    for name in ("one", "two"):
        make(tmp_path / name, file, epochs=4, model=model, loss=loss)
    run(tmp_path / "one")
    for after, epochs in ((1, []), (3, ["00000002"])):
        assert killed(tmp_path / "two", after) == -signal.SIGKILL
        places = tmp_path / "two/checkpoints"
        assert [c.name for c in places.glob("0*")] == epochs
    assert run(tmp_path / "two").update == 4
    assert vectors(tmp_path / "one").tobytes() == vectors(tmp_path / "two").tobytes()


def killed(path, after):
    """How a process ends that kills itself when it has learnt from so many pieces."""
    child = os.fork()
    if not child:
        calls = count(1)

        def tick(words, speed):
            if next(calls) == after:
                os.kill(os.getpid(), signal.SIGKILL)

        run(path, tick)
        os._exit(0)
    return -os.WTERMSIG(os.waitpid(child, 0)[1])


def test_a_checkpoint_that_is_damaged_is_left_out(tmp_path, file):
    for name in ("one", "two"):
        make(tmp_path / name, file, epochs=2)
    run(tmp_path / "one")
    seen: list[dict[str, Any]] = []

    def stop(words, speed):
        if (tmp_path / "two/checkpoints/00000001").is_dir():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "two", stop)
    weights = tmp_path / "two/checkpoints/00000001/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"bits")
    training.train(tmp_path / "two", seen.append, lambda words, speed: None)
    assert seen[0]["kind"] == "warning" and "damaged" in seen[0]["text"]
    assert vectors(tmp_path / "one").tobytes() == vectors(tmp_path / "two").tobytes()


def test_several_threads_learn_all_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.word2vec.corpus.PIECE", 100)
    (tmp_path / "t.txt").write_text("\n".join(text()) + "\n")
    made = make(tmp_path / "run", tmp_path / "t.txt", threads=3, epochs=12, learning_rate=0.1)
    assert len(Corpus(made.path)) == 27  # of 100 words, rounded up to whole lines
    words = []
    run(made.path, lambda done, speed: words.append(done))
    assert max(words) == 12 * 2700
    near = Space.load(made.path).neighbours("cat", count=4)
    assert {each.word for each in near} == {"dog", "mouse", "eats", "sleeps"}


def test_pieces_are_the_text(tmp_path, monkeypatch):
    """Rare words are not there, long lines are cut, empty ones left out."""
    monkeypatch.setattr("regard.word2vec.corpus.PIECE", 3)
    monkeypatch.setattr("regard.word2vec.corpus.LONGEST", 4)
    (tmp_path / "t.txt").write_text("a a b\nrare\na b a b a b b\n\nb A\n")
    made = make(tmp_path / "run", tmp_path / "t.txt", min_frequency=2)
    assert made.text | {"files": 0} == {
        "files": 0, "words": 13, "known": 12, "vocabulary": 2, "skipped": {"empty line": 1},
    }  # fmt: skip
    assert made.counts().tolist() == [6, 6]
    found = Corpus(made.path)
    assert (found.words, found.sentences) == (12, 4)
    pieces = [found.piece(n) for n in range(len(found))]
    assert [p.tokens.tolist() for p in pieces] == [[0, 0, 1], [0, 1, 0, 1], [0, 1, 1], [1, 0]]
    assert [p.first for p in pieces] == [0, 3, 7, 10]


def test_tables_and_gzip(tmp_path):
    with gzip.open(tmp_path / "t.tsv.gz", "wt") as packed:
        packed.write("pos\tgood film\nneg\tbad film\n")
    (tmp_path / "t.jsonl").write_text('{"text": "good good"}\n')
    sources = [tmp_path / "t.tsv.gz", tmp_path / "t.jsonl"]
    made, _ = folder.create(tmp_path / "run", Source(sources), Settings(**SMALL))
    assert made.text["words"] == 6
    assert made.counts().tolist() == [3, 2, 1]  # good, film, bad


def test_words_are_those_of_a_recipes_tokenizer(tmp_path):
    lines = ["Don't stop... don't!", "L'été, c'est bien; STOP\tit"]
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n")
    made = make(tmp_path / "run", tmp_path / "t.txt")
    own = Tokenizer.load(made.path / "words.tokenizer.json")
    recipe = Tokenizer.train(Config(kind="word", split="punctuation", lowercase=True), lines)
    assert own.json == recipe.json
    assert "don't" in own.pieces(range(len(own)))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dim": 0}, "dim: 0 must be"),
        ({"window": 10**9}, "window"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": 1e-5}, "min_learning_rate: it is above"),
        ({"keep": "both"}, "keep: 'both' is none of inputs, outputs"),
        ({"keep": "outputs", "loss": "hierarchical"}, "keep: outputs of the hierarchical loss"),
    ],
)
def test_settings_are_checked(settings, said):
    with pytest.raises(RecipeError, match=said):
        Settings(**settings)


@pytest.mark.parametrize("keep", ["inputs", "outputs"])
def test_the_vectors_that_are_wanted_are_kept(tmp_path, file, keep, monkeypatch):
    monkeypatch.setattr(folder, "clear", lambda path: None)
    made = make(tmp_path / "run", file, epochs=2, keep=keep)
    run(made.path)
    both = load_file(made.path / "checkpoints/00000002/model.safetensors")
    assert not np.allclose(both["inputs"], both["outputs"])
    space = Space.load(made.path)
    assert np.array_equal(space.vectors, both[keep])


def test_a_run_from_before_outputs_could_be_kept_is_read(tmp_path, file, monkeypatch):
    def older(own):
        return {key: value for key, value in asdict(own).items() if key != "keep"}

    monkeypatch.setattr(Settings, "as_dict", older)
    made = make(tmp_path / "run", file)
    assert "keep" not in (made.path / "word2vec.json").read_text()
    assert made.settings.keep == "inputs"


def test_what_cannot_be_made_leaves_nothing(tmp_path, file):
    with pytest.raises(UserError, match=r"fewer than two words are seen 5,000 times"):
        make(tmp_path / "run", file, min_frequency=5000)
    with pytest.raises(UserError, match=r"nothing.txt: no such file"):
        make(tmp_path / "run", tmp_path / "nothing.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["text.txt"]
    made = make(tmp_path / "run", file)
    with pytest.raises(UserError, match="is there already"):
        make(made.path, file)


def test_a_rate_that_is_too_high_is_named(tmp_path, file):
    make(tmp_path / "run", file, learning_rate=1e9, epochs=3)
    with pytest.raises(UserError, match=r"epoch 1: .* not finite: learning_rate = 1e\+09"):
        run(tmp_path / "run")


def _settings(path, change):
    table = json.loads((path / "word2vec.json").read_text())
    change(table)
    (path / "word2vec.json").write_text(json.dumps(table))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda p: (p / "store/tokens.bin").write_bytes(b"1234"), "tokens.bin is damaged"),
        (lambda p: shutil.rmtree(p / "store"), "is missing"),
        (lambda p: (p / "counts.json").write_text('{"counts": [1]}'), "counts.json is damaged"),
        (lambda p: _settings(p, lambda t: t["settings"].update(dim=9)), "word2vec.json is damaged"),
        (lambda p: (p / "word2vec.json").unlink(), "is not a run of word2vec"),
    ],
)
def test_a_damaged_run_is_refused(tmp_path, file, damage, said):
    made = make(tmp_path / "run", file)
    damage(made.path)
    with pytest.raises(UserError, match=said):
        run(made.path)
