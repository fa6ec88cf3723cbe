"""Words as points: neighbours, analogies, agreement with people, pictures; verbs and Python."""

import doctest
import json
import math
import struct
from typing import Any

import numpy as np
import pytest

import regard
from regard import cli
from regard.data import vector_files, vectors
from regard.errors import RecipeError, UserError
from regard.word2vec import folder, judging, page, training
from regard.word2vec.corpus import Source
from regard.word2vec.settings import Settings, made
from regard.word2vec.space import Space

# Two axes: royal, and female. Lengths differ, which no cosine sees.
WORDS = ["man", "woman", "king", "queen", "apple"]
TABLE = np.array([[2, 0, 0], [1, 1, 0], [3, 0, 2], [1, 1, 1], [0, 0.1, -5]], np.float32)


@pytest.fixture
def space() -> Space:
    return Space(WORDS, TABLE, "toy")


@pytest.fixture
def file(tmp_path):
    vector_files.write(tmp_path / "toy.bin", WORDS, TABLE, binary=True)
    return tmp_path / "toy.bin"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run, trained."""
    place = tmp_path_factory.mktemp("word2vec")
    text = place / "text.txt"
    text.write_text("the cat sat .\nthe dog sat .\n" * 40)
    small = Settings(dim=8, min_frequency=1, epochs=2)
    folder.create(place / "run", Source([text]), small)
    training.train(place / "run", lambda record: None, lambda words, speed: None)
    return place / "run"


def test_cosines(space):
    assert space.similarity("man", "king") == pytest.approx(3 / math.sqrt(13))
    assert space.similarity("woman", "queen") == pytest.approx(2 / math.sqrt(6))
    assert space.vector("woman").tolist() == [1, 1, 0]
    with pytest.raises(ValueError):
        space.vector("woman")[0] = 7


def test_neighbours(space):
    """cos(queen, ·): woman 2/√6 = 0.816, king 5/√39 = 0.801, man 1/√3."""
    found = space.neighbours("queen", count=2)
    assert [each.word for each in found] == ["woman", "king"]
    assert found[0].cosine == pytest.approx(2 / math.sqrt(6))
    assert len(space.neighbours("queen", count=100)) == 4
    both = space.neighbours("man", "queen", count=1)
    assert both[0].word == "king"


def test_analogies(space):
    """woman − man + king, each of length 1: (1/√2 − 1 + 3/√13, 1/√2, 2/√13), nearest to queen."""
    best = space.analogy("man", "woman", "king", count=1)[0]
    half, part = math.sqrt(0.5), 1 / math.sqrt(13)
    point = np.array([half - 1 + 3 * part, half, 2 * part])
    assert best.word == "queen"
    assert best.cosine == pytest.approx(point.sum() / np.linalg.norm(point) / math.sqrt(3))


def test_case_and_words_that_have_no_vector(space):
    assert "Queen" in space and "quen" not in space
    assert space.similarity("KING", "king") == pytest.approx(1)
    with pytest.raises(UserError, match=r"toy: 'quen' has no vector; did you mean 'queen'\?"):
        space.neighbours("quen")


def test_the_plane_keeps_what_lies_on_it(space):
    """Words in a plane keep their distances on the two main axes."""
    places, parts = space.plane(["man", "woman"])
    apart = np.linalg.norm(space.directions[0] - space.directions[1])
    assert np.linalg.norm(places[0] - places[1]) == pytest.approx(float(apart), rel=1e-5)
    assert parts == (pytest.approx(1), pytest.approx(0, abs=1e-6))
    assert space.plane(["man"])[0].tolist() == [[0, 0]]


def test_ranks_and_spearman_by_hand():
    assert judging.ranks(np.array([3.0, 1.0, 3.0, 9.0])).tolist() == [2.5, 1, 2.5, 4]
    x, y = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 1, 4, 3, 50])
    # 1 − 6 Σ d² / n(n² − 1) with d = 1, 1, 1, 1, 0
    assert judging.spearman(x, y) == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert judging.spearman(x, np.ones(5)) is None


def test_the_interval_of_a_correlation():
    """ρ = 0.5, n = 103: artanh 0.5 ± 1.96 √(1.125/100); t = 0.5 √(101/0.75) = 5.80."""
    low, high, p = judging.interval(0.5, 103)
    assert low == pytest.approx(math.tanh(0.549306 - 0.207885), abs=1e-4)
    assert high == pytest.approx(math.tanh(0.549306 + 0.207885), abs=1e-4)
    assert p == pytest.approx(7.6e-8, rel=0.02)  # Student's t with 101 degrees of freedom


def test_wilsons_interval():
    """5 of 10: 0.5 ± z √(¼/n + z²/4n²) / (1 + z²/n) = 23.66 to 76.34 %."""
    assert judging.wilson(5, 10) == pytest.approx((23.66, 76.34), abs=0.01)
    assert judging.wilson(0, 0) == (None, None)
    assert judging.wilson(0, 12)[0] == 0


PAIRS = (
    "# a comment\nman\tking\t9\nWoman\tQueen\t7\nman\tapple\t0.5\nking\tapple\t0\nzebra\tman\t3\n"
)


@pytest.mark.parametrize(
    "text",
    [
        PAIRS,
        PAIRS.replace("\t", ","),
        PAIRS.replace("\t", " "),
        "Word 1,Word 2,Human (mean)\n" + PAIRS.replace("\t", ","),
    ],
)
def test_pairs_in_the_forms_that_they_come_in(space, tmp_path, text):
    (tmp_path / "pairs.txt").write_text(text)
    found: Any = judging.judge(space, tmp_path / "pairs.txt")
    # Cosines 0.83, 0.82, 0, −0.55: in the order of 9, 7, 0.5, 0.
    assert (found.pairs, found.used, found.spearman) == (5, 4, pytest.approx(1))


def test_the_column_of_simlex(space, tmp_path):
    rows = ["man\tking\tN\t9", "woman\tqueen\tN\t7", "man\tapple\tN\t0.5", "king\tapple\tN\t0"]
    (tmp_path / "s.txt").write_text("word1\tword2\tPOS\tSimLex999\n" + "\n".join(rows) + "\n")
    found: Any = judging.judge(space, tmp_path / "s.txt")
    assert found.spearman == pytest.approx(1)


QUESTIONS = """: family
man woman king queen
King queen man woman
: other
man king woman apple
man x y z
"""


def test_analogies_by_section(space, tmp_path):
    (tmp_path / "q.txt").write_text(QUESTIONS)
    found: Any = judging.judge(space, tmp_path / "q.txt")
    assert [tuple(each) for each in found.sections] == [("family", 2, 2, 2), ("other", 2, 1, 0)]
    assert tuple(found.total) == ("total", 4, 3, 2)
    assert found.as_dict()["accuracy"] == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("man\tking\t7\nman\tking\n", "p.txt:2: not two words and a number"),
        (": s\nman woman king\n", "p.txt:2: not a question of four words"),
        ("", "neither pairs of words"),
    ],
)
def test_files_that_ask_nothing_are_refused(space, tmp_path, text, said):
    (tmp_path / "p.txt").write_text(text)
    with pytest.raises(UserError, match=said):
        judging.judge(space, tmp_path / "p.txt")


# Verbs


def said(capsys, *arguments):
    cli.main([str(each) for each in arguments])
    return json.loads(capsys.readouterr().out)


def test_the_verbs_give_json(file, tmp_path, capsys):
    near = said(capsys, "neighbours", file, "queen", "man", "--count", "1", "--json")
    assert [each["neighbours"][0]["word"] for each in near] == ["woman", "king"]
    [answer] = said(capsys, "analogy", file, "man", "woman", "king", "--json")
    assert answer["answers"][0]["word"] == "queen"
    (tmp_path / "pairs.txt").write_text(PAIRS)
    (tmp_path / "q.txt").write_text(QUESTIONS)
    pairs, questions = said(
        capsys, "similarity", file, tmp_path / "pairs.txt", tmp_path / "q.txt", "--json"
    )
    assert pairs["spearman"] == pytest.approx(1)
    assert [each["right"] for each in questions["sections"]] == [2, 0]
    assert said(capsys, "similarity", file, "man", "king", "--json")["cosine"] > 0.7


def test_the_verbs_give_tables(file, tmp_path, capsys):
    (tmp_path / "pairs.txt").write_text(PAIRS)
    (tmp_path / "q.txt").write_text(QUESTIONS)
    cli.main(["similarity", str(file), str(tmp_path / "pairs.txt"), str(tmp_path / "q.txt")])
    shown = capsys.readouterr().out
    assert "4 of 5" in shown and "66.67" in shown
    cli.main(["neighbours", str(file), "queen", "--count", "1"])
    assert capsys.readouterr().out == "queen\n  0.8165  woman\n"


def test_word2vec_from_the_command_line(tmp_path, capsys):
    (tmp_path / "t.txt").write_text("the cat sat .\nthe dog sat .\n" * 20)
    common = ["--dim", "8", "--min-frequency", "1", "--threads", "1", "--epochs", "2"]
    to = tmp_path / "run"
    cli.main(["word2vec", str(tmp_path / "t.txt"), "--to", str(to), *common, "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("update") for line in lines[:2]] == [1, 2]
    assert lines[-1]["words"] == 5
    cli.main(["word2vec", "--resume", str(to)])  # nothing is left to be done
    assert "5 words of dimension 8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "give either files of text or --resume RUN"),
        (["a.txt"], "say by --to where the run goes"),
        (["a.txt", "--to", "x", "--dim", "0"], "dim: 0 must be"),
    ],
)
def test_a_wrong_call_is_named(arguments, what, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["word2vec", *arguments])
    assert stop.value.code == 2
    assert what in capsys.readouterr().err


# Runs


def test_a_run_in_python(run):
    space: Any = regard.load(run)
    assert isinstance(space, Space)
    assert {each.word for each in space.neighbours("cat", count=4)} == {"the", "sat", ".", "dog"}
    assert "5" in str(space) and "skip-gram" in str(space)
    with pytest.raises(RecipeError, match="has vectors of words, and no model"):
        regard.predict(run, ["a"])


def test_the_example_of_python(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("the cat sat .\nthe dog sat .\n" * 20)
    monkeypatch.chdir(tmp_path)
    text = regard.word2vec.__doc__ or ""
    examples = doctest.DocTestParser().get_doctest(text, {"regard": regard}, "", None, None)
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(examples, out=told.append).failed == 0, "".join(told)
    with pytest.raises(RecipeError, match=r"word2vec has no 'dims'; did you mean 'dim'\?"):
        regard.word2vec("text.txt", to="other", dims=3)
    assert not (tmp_path / "other").exists()


def test_settings_have_the_rates_of_their_kind():
    assert made(model="cbow").learning_rate == 0.05
    assert made(model="cbow", learning_rate=0.03).learning_rate == 0.03
    assert made(learning_rate=1e-5).min_learning_rate == 1e-5


def test_a_run_is_exported_and_read_again(run, tmp_path, capsys):
    table = Space.load(run).vectors
    for name in ("v.bin", "v.txt", "v.vec"):
        cli.main(["export", str(run), str(tmp_path / name), "--to", "word2vec"])
        again = Space.load(tmp_path / name)
        assert again.vectors.tobytes() == table.tobytes()
        assert again.words == Space.load(run).words
    data = (tmp_path / "v.bin").read_bytes()
    first = Space.load(run).words[0].encode()
    assert data.startswith(b"5 8\n" + first + b" " + struct.pack("<8f", *table[0].tolist()))
    for arguments, what in (
        (["v.onnx"], "the name must end in .bin, .txt, .vec"),
        (["v.bin"], "is there already"),
        (["w.bin", "--to", "onnx"], "which has no onnx"),
    ):
        with pytest.raises(SystemExit):
            cli.main(["export", str(run), str(tmp_path / arguments[0]), *arguments[1:]])
        assert what in capsys.readouterr().err


def test_the_page_needs_no_network_and_escapes_words(tmp_path, space):
    odd = Space(["<b>", *WORDS[1:]], TABLE, "toy")
    written = page.write(odd, ["<b>", "queen"], tmp_path / "p.html", None, tmp_path)
    text = written[0].read_text()
    assert written[1].name == "space.svg" and "<svg" in text
    assert "<b>" not in text and "&lt;b&gt;" in text
    assert "http" not in text.replace("http://www.w3.org", "").replace(
        "http://purl.org", ""
    ).replace("http://creativecommons.org", "")


def test_pairs_become_arrows(space):
    found = page.asked(space, ["man:woman", "king:queen"])
    assert found.words == ["man", "woman", "king", "queen"]
    assert found.arrows == [("man", "woman"), ("king", "queen")]
    assert page.asked(space, []).words == WORDS


def test_names_on_the_map_give_way_to_what_stands_right_of_them():
    places = np.array([[0.0, 0.0], [0.05, 0.01], [0.05, 0.5], [1.0, 1.0]])
    assert [page.crowded(place, places) for place in places] == [True, False, False, False]
    assert not page.crowded(places[0], places[:1])


def test_inspect_of_a_run(run, tmp_path, capsys):
    files = said(
        capsys, "inspect", run, "cat", "dog", "--output", tmp_path / "p.html", "--json"
    )["files"]  # fmt: skip
    assert files == [str(tmp_path / "p.html")]


def test_a_recipe_takes_the_vectors_of_a_run(run):
    found = vectors.read(run, {"the", "cat", "zebra"}, 8)
    assert found.keys() == {"the", "cat"}
    assert found["cat"].tolist() == Space.load(run).vector("cat").tolist()
    with pytest.raises(UserError, match=r"its vectors have dimension 8, those of model\.input 5"):
        vectors.read(run, {"the"}, 5)
