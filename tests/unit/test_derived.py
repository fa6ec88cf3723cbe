"""Sets made from others: grouped, split for good, nothing of the test in training; their scores."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.data import catalogue, derived
from regard.errors import RecipeError, UserError
from regard.metrics.text import Evaluation

DICTIONARY = """\
a AH0
a(2) EY1
tomato T AH0 M EY1 T OW2
tomato(2) T AH0 M AA1 T OW2
tomato(3) T AH1 M EY0 T OW0
aalen AE1 L AH0 N # place, german
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def pairs(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


# Pronunciation


def test_pronunciations_are_grouped_by_word_without_stress_each_once(tmp_path: Path):
    assert derived.pronunciations(write(tmp_path / "cmudict.dict", DICTIONARY)) == {
        "a": ["AH", "EY"],
        "tomato": ["T AH M EY T OW", "T AH M AA T OW"],
        "aalen": ["AE L AH N"],
    }


@pytest.mark.parametrize("line", ["silent", "word W ER1 d", "two words W ER1 D", "(2) T UW1"])
def test_a_bad_entry_is_named_with_its_line(tmp_path: Path, line: str):
    path = write(tmp_path / "cmudict.dict", f"a AH0\n\n{line} # so\n")
    with pytest.raises(UserError, match=re.escape(f"{path}:3: wanted: a word and its phonemes")):
        derived.pronunciations(path)


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path):
    (tmp_path / "cmudict.dict").write_bytes(b"a AH0\nz\xfcrich Z\n")
    with pytest.raises(UserError, match=r"cmudict.dict:2: not UTF-8"):
        derived.pronunciations(tmp_path / "cmudict.dict")


def test_words_are_split_for_good_and_variants_stay_together(tmp_path: Path):
    words = [f"{a}{b}{c}" for a in "abcdefghij" for b in "aeiou" for c in "bcdfghklmn"]
    entries = "".join(f"{w} K AA1\n{w}(2) K {'EY' if w < 'f' else 'OW'}1\n" for w in words)
    source = write(tmp_path / "cmudict.dict", entries)
    derived.pronunciation(tmp_path, lambda name: tmp_path / name)
    found = {name: pairs(tmp_path / f"{name}.tsv") for name in ("train", "validation", "test")}
    spelt = {name: {letters for letters, _ in rows} for name, rows in found.items()}
    assert set.union(*spelt.values()) == {" ".join(word) for word in words}
    assert sum(map(len, spelt.values())) == len(words) == 500
    assert 30 < len(spelt["test"]) < 70 and 10 < len(spelt["validation"]) < 45
    assert len(found["train"]) == 2 * len(spelt["train"])
    assert ["a a b", "K AA | K EY"] in found["test"] + found["validation"] + [
        ["a a b", " | ".join(t for s, t in found["train"] if s == "a a b")]
    ]
    # Where a word belongs does not depend on the others.
    source.write_text(entries[len(entries) // 2 :])
    derived.pronunciation(tmp_path, lambda name: tmp_path / name)
    fewer = {letters for letters, _ in pairs(tmp_path / "test.tsv")}
    assert fewer and fewer <= spelt["test"]


def test_the_shares_are_those_of_the_hash():
    assert derived.part("any", test=1, validation=0) == "test"
    assert derived.part("any", test=0, validation=1) == "validation"
    assert derived.part("any", test=0, validation=0) == "train"
    # sha256("a") = ca97… → 0.79; sha256("b") = 3e23… → 0.24
    assert derived.part("a", test=0.78, validation=0.02) == "validation"
    assert derived.part("b", test=0.25, validation=0.1) == "test"


# Spelling

FILES = {
    "missp.dat": "$their\nthier\ntheir\nther\n$a_lot\nalot\n$Nevada\nnevade\n"
    "$deceive\ndecieve\n$piece\npeice\n$conceive\nconceve\n",
    "wikipedia.dat": "$receive\nrecieve\n$their\nthier\n",
    "cmudict.dict": "a AH0\na(2) EY1\nain't EY1 N T\na.m. EY1 EH2 M\npiece P IY1 S\n",
    "aspell.dat": "$Nevada\nnevade\n$receive\nRecieve\n$unknown\nunkown\n",
}


def spelling(folder: Path) -> dict[str, list[list[str]]]:
    for name, text in FILES.items():
        write(folder / name, text)
    derived.spelling_correction(folder, lambda name: folder / name)
    return {name: pairs(folder / f"{name}.tsv") for name in ("train", "validation", "test")}


def test_misspellings_have_their_word_and_blanks(tmp_path: Path):
    path = write(tmp_path / "missp.dat", FILES["missp.dat"])
    assert derived.misspellings(path) == [
        ("thier", "their"), ("ther", "their"), ("alot", "a lot"), ("nevade", "Nevada"),
        ("decieve", "deceive"), ("peice", "piece"), ("conceve", "conceive"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "wanted"),
    [("thier\n", 1, "$ and a word first"), ("$a\nb c\n", 2, "one word"), ("$a\nb\n$\n", 3, "one")],
)
def test_a_bad_line_of_misspellings_is_named(tmp_path: Path, text: str, line: int, wanted: str):
    path = write(tmp_path / "missp.dat", text)
    with pytest.raises(UserError, match=re.escape(f"{path}:{line}: wanted: {wanted}")):
        derived.misspellings(path)


def test_no_pair_of_the_test_is_learnt_from_in_any_case(tmp_path: Path):
    found = spelling(tmp_path)
    assert found["test"] == [["nevade", "Nevada"], ["Recieve", "receive"], ["unkown", "unknown"]]
    learnt = {tuple(text.lower() for text in pair) for pair in found["train"]}
    held = {tuple(text.lower() for text in pair) for pair in found["validation"] + found["test"]}
    assert not learnt & held and ("recieve", "receive") not in learnt
    # A word whose only pair is held back is still learnt, and made-up misspellings are made as
    # the real ones are: “decieve” is how “conceive” may go wrong.
    words = {"their", "a lot", "Nevada", "receive", "deceive", "piece", "conceive"}
    assert words == {word for _, word in found["train"]}
    assert ["their", "their"] in found["train"] and ["thier", "their"] in found["train"]
    assert ["concieve", "conceive"] in found["train"]
    assert len(found["train"]) == len(set(map(tuple, found["train"])))
    assert spelling(tmp_path) == found


def test_which_words_there_are(tmp_path: Path):
    """What may be answered: the test says nothing of it."""
    spelling(tmp_path)
    found = (tmp_path / "words.txt").read_text(encoding="utf-8").splitlines()
    words = {"their", "a lot", "Nevada", "receive", "deceive", "piece", "conceive"}
    assert found == sorted(words | {"a", "ain't"})


# The catalogue


def test_the_source_set_is_taken_from_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_data: Callable[[str], Path]
):
    """On the real files: counts that are written in the descriptions."""
    root = shared_data("spelling").parent
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    folder = catalogue.get("pronunciation", root)
    assert folder == catalogue.find("pronunciation")
    assert catalogue.find("cmudict") == tmp_path / "cmudict"
    counts = {p: len(pairs(folder / f"{p}.tsv")) for p in ("train", "validation", "test")}
    assert counts == {"train": 114_608, "validation": 6_343, "test": 12_584}
    assert "114,608 / 6,343 / 12,584" in catalogue.describe("pronunciation")["what"]


def test_the_real_misspellings(shared_data: Callable[[str], Path]):
    folder = shared_data("spelling")
    test = derived.misspellings(folder / "aspell.dat")
    real = derived.misspellings(folder / "missp.dat")
    assert (len(test), len(real)) == (531, 36_116)
    assert ("tunnellike", "tunnel like") in test


def test_a_source_set_that_is_not_there_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "home"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"cmudict\.dict"):
        catalogue.get("pronunciation", tmp_path / "empty")


# Scores

OUTPUTS = [["K AE T", "K AH T"], ["D AO", "D AO G"], ["B IY"]]
ANSWERS = [["K EY T", "K AE T"], ["D AO G"], ["B IY", "B EH IY Z"]]


def test_any_of_the_answers_is_right_and_the_nearest_counts():
    found = Evaluation().scores(OUTPUTS, ANSWERS, ["line_error_rate", "per", "nbest", "exact"])
    assert list(found) == ["line_error_rate", "per", "nbest", "exact"]
    assert found["line_error_rate"].value == pytest.approx(100 / 3)
    assert found["per"].value == pytest.approx(100 * 1 / (3 + 3 + 2))
    assert (found["nbest"].value, found["nbest"].name) == (100, "exact at 2")
    assert found["exact"].value == pytest.approx(200 / 3)
    assert not found["line_error_rate"].higher_is_better and not found["per"].higher_is_better


def test_intervals_of_errors_are_those_of_what_is_right():
    found = Evaluation().scores(OUTPUTS, ANSWERS, ["exact", "line_error_rate"], samples=100)
    right, wrong = found["exact"], found["line_error_rate"]
    assert right.low is not None and right.high is not None
    assert (wrong.low, wrong.high) == (100 - right.high, 100 - right.low)


def test_case_is_ignored_where_that_is_asked_for():
    keys = ["exact", "nbest", "cer"]
    strict = Evaluation().scores([["Cat"]], [["cat"]], keys)
    lower = Evaluation(lowercase=True).scores([["Cat"]], [["cat"]], keys)
    assert [strict[key].value for key in keys] == [0, 0, pytest.approx(100 / 3)]
    assert [lower[key].value for key in keys] == [100, 100, 0]


# Learning in miniature


def recipe(folder: Path, **evaluation: Any) -> dict[str, Any]:
    parts = ("train", "validation", "test")
    return {
        "task": "translate",
        "data": {"folder": str(folder)} | {part: [f"{part}.tsv"] for part in parts},
        "tokenizer": {"kind": "word", "joint": False},
        "batch": {"tokens": 300},
        "search": {"kind": "beam", "beams": 3, "nbest": 2},
        "model": {
            "dim": 32,
            "tie": "output",
            "encoder": {"kind": "rnn", "layers": 1, "dropout": 0.0},
            "decoder": {"kind": "rnn", "layers": 1, "dropout": 0.0},
            "head": {"smoothing": 0.0},
        },
        "train": {
            "updates": 60, "validate_every": 30, "save_every": 30, "threads": 1,
            "metric": "line_error_rate", "optimizer": {"learning_rate": 0.02},
            "schedule": {"kind": "cosine", "warmup": 5},
        },
        "evaluation": {"metrics": ["line_error_rate", "per", "nbest"], "lines": 10} | evaluation,
    }  # fmt: skip


def test_letters_become_phonemes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each letter has its sound; c has two, and either is right."""
    monkeypatch.setattr("regard.runs.finishing.draw", lambda folder, records: None)
    letters = [a + b + c for a in "abc" for b in "dei" for c in "ou"]
    rows = [(" ".join(w), " ".join(w.upper())) for w in letters]
    both = [(s, f"{t} | {t.replace('C', 'K')}" if "C" in t else t) for s, t in rows]
    write(tmp_path / "train.tsv", "".join(f"{s}\t{t}\n" for s, t in rows[1:] * 4))
    for name in ("validation", "test"):
        write(tmp_path / f"{name}.tsv", "".join(f"{s}\t{t}\n" for s, t in both))
    made = recipe(tmp_path, multiple_references=" | ", unseen=True)
    model = regard.train(made, to=tmp_path / "run")
    sources, answers = model.task.alternatives("test")  # type: ignore[attr-defined]
    assert (sources[-1], answers[-1]) == ("c i u", ["C I U", "K I U"])
    assert model.task.references("test")[1][-1] == "C I U"
    scores, predictions = model.evaluate("test")
    assert scores["line_error_rate"].value <= 10 and scores["per"].value <= 5
    assert scores["nbest"].value >= 100 - scores["line_error_rate"].value
    right = [p.text in texts for p, texts in zip(predictions, answers, strict=True)]
    assert scores["line_error_rate"].value == pytest.approx(100 * right.count(False) / len(right))
    # The first word alone was left out of training.
    assert scores["line_error_rate.unseen"].value == 100.0 * (not right[0])
    seen = 100 * right[1:].count(False) / len(right[1:])
    assert scores["line_error_rate.seen"].value == pytest.approx(seen)
    figures = [r for r in model.run.records() if r["kind"] == "validation"]
    assert {"nll", "line_error_rate", "per"} <= figures[-1].keys() and "nbest" not in figures[-1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("search.nbest=1",), "'nbest' needs a beam search with search.nbest > 1"),
        (("train.metric=bleu",), "train.metric: 'bleu' is not one of nll, perplexity, line_error"),
        (("evaluation.metrics=[]",), "evaluation.metrics: names no score"),
        (('evaluation.metrics=["wre"]',), "evaluation.metrics"),
    ],
)
def test_scores_that_cannot_be_told_are_refused(
    tmp_path: Path, changes: tuple[str, ...], said: str
):
    with pytest.raises(RecipeError, match=re.escape(said)):
        regard.train(recipe(tmp_path), *changes, to=tmp_path / "run")


def test_few_sentences_are_drawn_three_times(tmp_path: Path):
    blocks = [f"# sent_id = {n}\n1\tw{n}\t_\tX\n\n" for n in range(2000)]
    for part in ("train", "dev", "test"):
        write(tmp_path / f"en_ewt-ud-{part}.conllu", "".join(blocks))
    (made := tmp_path / "made").mkdir()
    derived.few_sentences(made, lambda name: tmp_path / name)
    drawn = []
    for draw in (1, 2, 3):
        found = (made / f"train-{draw}.conllu").read_text().split("\n\n")[:-1]
        numbers = [int(each.split()[3]) for each in found]
        assert len(numbers) == len({*numbers}) == 1000 and numbers == sorted(numbers)
        assert [f"{each}\n\n" for each in found] == [blocks[n] for n in numbers]
        drawn.append({*numbers})
    assert all(400 < len(drawn[a] & drawn[b]) < 600 for a, b in ((0, 1), (0, 2), (1, 2)))
    assert (made / "test.conllu").read_text() == "".join(blocks)
