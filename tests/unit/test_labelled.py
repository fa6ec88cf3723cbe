"""Texts with labels, words with tags: every defect under its file and line."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.data import files, tokenizers
from regard.data.held_out import ByContent, ByLabel
from regard.data.labelled import sentences, texts
from regard.data.readers import Policy, Report
from regard.errors import RecipeError, UserError
from regard.examples.preparation import Plan
from regard.fields import Example, text
from regard.recipe.config import recipe
from regard.tasks import classify

SKIP = Policy(broken="skip")
CONLLU = """\
# sent_id = 1
# text = It doesn't rain
1\tIt\tit\tPRON\tPRP\t_\t_\t_\t_\t_
2-3\tdoesn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdoes\tdo\tAUX\tVBZ\t_\t_\t_\t_\t_
3\tn't\tnot\tPART\tRB\t_\t_\t_\t_\t_
3.1\tever\tever\tADV\tRB\t_\t_\t_\t_\t_
4\train\train\tVERB\tVB\t_\t_\t_\t_\t_

# sent_id = 2
1\tYes\tyes\tINTJ\tUH\t_\t_\t_\t_\t_
"""


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def tagged(*paths: Path, columns=(), policy=Policy(), report=None, part="train", real=False):  # noqa: B008
    found = sentences(paths, columns, policy, report or Report(), part, real=real)
    return [(each.line, list(each.value), list(each.labels)) for each in found]


def labelled(path: Path, columns=(), policy=Policy(), report=None, **options):  # noqa: B008
    found = texts([path], columns, policy, report or Report(), **options)
    return [(each.line, each.value, list(each.labels)) for each in found]


def jsonl(*records) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


# Texts


def test_one_label_from_every_format(tmp_path):
    expected = [(1, "good film", ["pos"]), (2, "bad, film", ["neg"])]
    assert labelled(put(tmp_path, "a.tsv", "pos\tgood film\nneg\tbad, film\n")) == expected
    assert labelled(put(tmp_path, "a.csv", 'pos,good film\nneg,"bad, film"\n')) == expected
    records = [{"label": "pos", "text": "good film"}, {"text": "bad, film", "label": "neg"}]
    assert labelled(put(tmp_path, "a.jsonl", jsonl(*records))) == expected


def test_columns_by_name(tmp_path):
    path = put(tmp_path, "a.csv", "id,review,stars\n1,fine,5\n")
    assert labelled(path, ("stars", "review"), header=True) == [(2, "fine", ["5"])]
    with pytest.raises(UserError, match=r"a.csv:1: the header has no column “star”"):
        labelled(path, ("star", "review"), header=True)
    number = put(tmp_path, "a.jsonl", jsonl({"label": 1, "text": "fine"}))
    assert labelled(number) == [(1, "fine", ["1"])]


def test_several_labels(tmp_path):
    expected = [(1, "x", ["b", "a"]), (2, "y", []), (3, "z", ["a"])]
    report = Report()
    tsv = put(tmp_path, "a.tsv", "b, a,b\tx\n\ty\na\tz\n")
    assert labelled(tsv, report=report, separator=",") == expected
    assert not report.counts  # a text without a label is no defect
    records = [{"label": ["b", "a"], "text": "x"}, {"label": [], "text": "y"}]
    path = put(tmp_path, "a.jsonl", jsonl(*records, {"label": ["a"], "text": "z"}))
    assert labelled(path, separator=",") == expected


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", "pos\tfine\njust one\n", r"a.tsv:2: 1 columns instead of 2"),
        ("a.tsv", b"pos\tfine\nneg\tb\xffd\n", r"a.tsv:2: not UTF-8"),
        ("a.jsonl", '{"label": "a", "text": "b"}\n{"text": "b"}\n', "a.jsonl:2: no key “label”"),
        ("a.jsonl", '{"label": ["a"], "text": "b"}\n', "a.jsonl:1: “label” is not text"),
    ],
)
def test_broken_lines_are_refused_or_left_out(tmp_path, name, content, said):
    path = put(tmp_path, name, content)
    with pytest.raises(UserError, match=said):
        labelled(path)
    report = Report()
    if path.read_bytes().count(b"\n") > 1:
        assert len(labelled(path, policy=SKIP, report=report)) == 1
        assert sum(report.counts.values()) == 1


def test_lists_of_labels_are_checked(tmp_path):
    null = put(tmp_path, "null.jsonl", jsonl({"label": ["a", None], "text": "b"}))
    with pytest.raises(UserError, match=r"null.jsonl:1: “label” is no list of texts"):
        labelled(null, separator=",")
    path = put(tmp_path, "a.jsonl", jsonl({"label": "a", "text": "b"}, {"label": [], "text": "c"}))
    with pytest.raises(UserError, match=r"a.jsonl:1: “label” is no list of texts"):
        labelled(path, separator=",")
    assert labelled(path, policy=SKIP, separator=",") == [(2, "c", [])]


@pytest.mark.parametrize("separator", ["", ","])
def test_empty_texts(tmp_path, separator):
    path = put(tmp_path, "a.tsv", "pos\t \nneg\tfine\n")
    assert labelled(path, separator=separator) == [(2, "fine", ["neg"])]
    with pytest.raises(UserError, match=r"a.tsv:1: empty text"):
        labelled(path, policy=Policy(empty="refuse"), separator=separator)
    kept = labelled(path, policy=Policy(empty="keep"), separator=separator)
    assert [line for line, *_ in kept] == [1, 2]


def test_an_empty_label_is_never_kept(tmp_path):
    path = put(tmp_path, "a.tsv", "pos\tfine\n\tbad\n")
    assert len(labelled(path)) == 1
    with pytest.raises(UserError, match=r"a.tsv:2: empty label: “bad”"):
        labelled(path, policy=Policy(empty="keep"))


# What is held out


def data(**names) -> files.Config:
    return files.Config(train=("train.tsv",), **names)


def holds(held_out: ByContent, part: files.Part, lines: list[str]) -> set[str]:
    """Those lines that are of a part."""
    parts = held_out.parts(lambda: lines)
    return {text for text, its in zip(lines, parts, strict=True) if its == part}


def test_held_out_shares_are_disjoint_and_as_large_as_asked_for():
    held_out = ByContent(validation=0.2, test=0.1)
    lines = [f"text {n}" for n in range(5000)]
    parts = {part: holds(held_out, part, lines) for part in files.PARTS}
    assert sum(map(len, parts.values())) == len(set.union(*parts.values())) == 5000
    assert len(parts["validation"]) == pytest.approx(1000, abs=100)
    assert len(parts["test"]) == pytest.approx(500, abs=80)
    assert holds(held_out, "test", lines[::-1]) == parts["test"]
    other = ByContent(validation=0.2, test=0.1, seed=2)
    assert holds(other, "test", lines) != parts["test"]


def test_every_label_has_its_share():
    labels = ["a"] * 100 + ["b"] * 10 + ["c"] * 3 + ["d"] * 2 + ["e"]
    lines = [f"text {n}" for n in range(len(labels))]
    held_out = ByLabel(validation=0.2, test=0.1, stratified=True)

    def counts(lines: list[str], labels: list[str]) -> dict[str, Counter[str]]:
        found = {str(part): Counter[str]() for part in files.PARTS}
        parts = held_out.parts(lambda: lines, lambda: labels)
        for label, part in zip(labels, parts, strict=True):
            found[part][label] += 1
        return found

    assert counts(lines, labels) == {
        "train": {"a": 70, "b": 7, "c": 1, "d": 2, "e": 1},
        "validation": {"a": 20, "b": 2, "c": 1},
        "test": {"a": 10, "b": 1, "c": 1},
    }
    # Equal texts are of one part, whatever their labels, and the order does not matter.
    twice = counts(lines * 2, labels + ["z"] * len(labels))
    assert twice["test"] == {"a": 10, "b": 1, "c": 1, "z": 12}
    assert counts(lines[::-1], labels[::-1]) == counts(lines, labels)


def test_files_of_a_part_are_of_the_part_altogether(tmp_path):
    rows = "".join(f"{'ab'[n % 2]}\ttext {n}\n" for n in range(100))
    names = [put(tmp_path, f"{part}.tsv", rows).name for part in ("train", "validation")]
    own = files.Config(folder=str(tmp_path), train=(names[0],), validation=(names[1],))
    held_out = ByContent(test=0.5)

    def read(part: files.Part, policy: Policy, report: Report) -> Iterator[Example]:
        for each in texts(own.paths(part), (), policy, report):
            yield Example((each.path,), each.line, (each.value, each.labels))

    fields = {"text": text.Field("source", tokenizers.Config())}
    plan = Plan(fields=fields, data=own, read=read, held_out=held_out)
    found = {part: [*plan.examples(part, Report())] for part in files.PARTS}
    assert len(found["validation"]) == 100
    assert len(found["train"]) < 100
    assert len(found["train"]) + len(found["test"]) == 100
    assert held_out.has(own, "validation")
    assert not ByContent().has(own, "test")


def prepared(folder: Path, **shares: float) -> Plan:
    """That of a classifier, whose training files are all that there is."""
    put(folder, "train.tsv", "".join(f"{'ab'[n % 2]}\ttext {n}\n" for n in range(100)))
    table = {"data": {"folder": str(folder), "train": ["train.tsv"]}, "held_out": shares}
    plan = classify.plan(recipe({"task": "classify", "tokenizer": {"kind": "word"}, **table}).task)
    plan.prepare(folder / "run", None)
    return plan


def test_a_share_that_draws_nothing_is_refused_when_it_is_wanted(tmp_path):
    """Training has no use for a test part; evaluation has."""
    plan = prepared(tmp_path, test=1e-9)
    with pytest.raises(
        UserError, match=r"^held_out.test: no example is drawn: take a larger fraction$"
    ):
        plan.whole("test", Policy())
    with pytest.raises(UserError, match=r"^held_out.validation: no example is drawn: take a"):
        prepared(tmp_path, validation=1e-9)


def test_a_share_of_what_has_files_is_refused():
    with pytest.raises(RecipeError, match=r"held_out.test: data.test names files"):
        ByContent(test=0.1).check(data(test=("test.tsv",)))
    with pytest.raises(RecipeError, match=r"validation: with test it must be below 1"):
        ByContent(validation=0.5, test=0.5)


# Sentences


def test_conllu_leaves_out_tokens_of_several_words_and_empty_nodes(tmp_path):
    path = put(tmp_path, "a.conllu", CONLLU)
    words = ["It", "does", "n't", "rain"]
    assert tagged(path) == [(1, words, ["PRON", "AUX", "PART", "VERB"]), (10, ["Yes"], ["INTJ"])]
    assert tagged(path, columns=("xpos",))[1] == (10, ["Yes"], ["UH"])
    assert tagged(path, columns=("lemma", "xpos"))[0][1] == ["it", "do", "not", "rain"]
    with pytest.raises(RecipeError, match=r"CoNLL-U has no column 'pos'; it has id, form"):
        tagged(path, columns=("pos",))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("2\tdoes\tdo\tAUX", "2\tdoes\tdo", r"a.conllu:5: 9 columns instead of 10"),
        ("3\tn't", "4\tn't", r"a.conllu:6: the number of the word is not 3"),
        ("1\tIt\t", "1\t\t", r"a.conllu:1: word 1 of 4 is empty"),
        ("does\tdo", "d\x01es\tdo", r"a.conllu:5: control character U\+0001"),
    ],
)
def test_a_defect_breaks_its_sentence_and_no_other(tmp_path, old, new, said):
    path = put(tmp_path, "a.conllu", CONLLU.replace(old, new, 1))
    with pytest.raises(UserError, match=said):
        tagged(path)
    report = Report()
    assert tagged(path, policy=SKIP, report=report) == [(10, ["Yes"], ["INTJ"])]
    assert (report.used, sum(report.counts.values())) == (1, 1)


def test_columns_between_blanks(tmp_path):
    content = "-DOCSTART- -X- O O\n\nU.N. NNP I-NP B-ORG\nofficial NN I-NP O\n\n# # I-NP O\n"
    path = put(tmp_path, "a.conll", content)
    assert tagged(path) == [(3, ["U.N.", "official"], ["B-ORG", "O"]), (6, ["#"], ["O"])]
    assert tagged(path, columns=("2",))[0][2] == ["NNP", "NN"]
    assert tagged(path, columns=("2", "1"))[0][1:] == (["NNP", "NN"], ["U.N.", "official"])
    with pytest.raises(UserError, match=r"a.conll:3: 4 columns: no tag, or not all of 1 and 5"):
        tagged(path, columns=("5",))
    with pytest.raises(RecipeError, match=r"columns go by number"):
        tagged(path, columns=("upos",))


def test_columns_between_tabs_may_hold_blanks(tmp_path):
    path = put(tmp_path, "a.tsv", "10 000\tNUM\ndays\tNOUN")
    assert tagged(path) == [(1, ["10 000", "days"], ["NUM", "NOUN"])]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a X\nb\n", "a.txt:2: 1 columns instead of 2"),
        ("a\nb\n", "a.txt:1: 1 columns: no tag"),
    ],
)
def test_words_without_tags_are_refused(tmp_path, content, said):
    with pytest.raises(UserError, match=said):
        tagged(put(tmp_path, "a.txt", content))


def test_json_lines(tmp_path):
    record = {"words": ["a", "dog"], "tags": ["DET", None], "more": 1}
    path = put(tmp_path, "a.jsonl", jsonl(record, {"words": ["x"], "tags": [1.5]}))
    assert tagged(path) == [(1, ["a", "dog"], ["DET", "_"]), (2, ["x"], ["1.5"])]
    other = put(tmp_path, "b.jsonl", jsonl({"w": ["a"], "t": ["b"]}))
    assert tagged(other, columns=("w", "t")) == [(1, ["a"], ["b"])]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"words": ["a", "b"], "tags": ["X"]}, "2 words, but 1 tags"),
        ({"words": "a b", "tags": ["X"]}, "“words” is no list of texts"),
        ({"words": ["a"]}, "“tags” is no list of texts"),
        ({"words": [None], "tags": ["X"]}, "“words” is no list of texts"),
        ({"words": ["a\nb"], "tags": ["X"]}, r"control character U\+000A"),
        (["a"], "not a JSON object"),
    ],
)
def test_json_lines_that_do_not_fit(tmp_path, record, said):
    good = {"words": ["a"], "tags": ["X"]}
    path = put(tmp_path, "a.jsonl", jsonl(good, record))
    with pytest.raises(UserError, match=f"a.jsonl:2: {said}"):
        tagged(path)
    assert tagged(path, policy=SKIP) == [(1, ["a"], ["X"])]


def test_real_tags_must_be_numbers(tmp_path):
    odd = put(tmp_path, "odd.txt", "a 1_5\n")
    with pytest.raises(UserError, match=r"odd.txt:1: tag 1 of 1 is not a number"):
        tagged(odd, real=True)
    path = put(tmp_path, "a.txt", "a 1.5\nb -2e1\nc _\n\nd east\n")
    assert tagged(path, policy=SKIP, real=True) == [(1, ["a", "b", "c"], ["1.5", "-2e1", "_"])]
    with pytest.raises(UserError, match=r"a.txt:5: tag 1 of 1 is not a number"):
        tagged(path, real=True)


# FASTA


def fasta(folder: Path, **content: str) -> list[Path]:
    return [put(folder, f"{name}.fasta", text) for name, text in content.items()]


def test_fasta_entries_belong_together_by_name_and_to_the_part_they_say(tmp_path):
    paths = fasta(
        tmp_path,
        sequences=">a\nMK\nV\n>b\nAC\n>c\nG\n",
        labels=(
            ">c SET=test VALIDATION=False\nH\n>b SET=train VALIDATION=True\nCE\n"
            ">a SET=train VALIDATION=False\nHHC\n"
        ),
        mask=">a\n011\n>b\n11\n>c\n1\n",
    )
    assert tagged(*paths) == [(1, ["M", "K", "V"], ["_", "H", "C"])]
    assert tagged(*paths, part="validation") == [(4, ["A", "C"], ["C", "E"])]
    assert tagged(*paths, part="test") == [(6, ["G"], ["H"])]
    assert tagged(*paths[:2])[0][2] == ["H", "H", "C"]


def test_fasta_headers_without_a_part_are_of_every_part(tmp_path):
    paths = fasta(tmp_path, sequences=">a\nMK\n", labels=">a\n01\n")
    assert tagged(*paths) == tagged(*paths, part="test") == [(1, ["M", "K"], ["0", "1"])]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (">a\nHH\n>b\nH\n", r"sequences.fasta:1: unequal lengths: 3, 2: “a”"),
        (">b\nH\n", r"sequences.fasta:1: .*labels.fasta has nothing of this name"),
        (">a\nHHC\n>b\nH\n>x\nH\n", r"labels.fasta:5: .*sequences.fasta has nothing of this name"),
        (">a\nHHC\n>b\nH\n>b\nH\n", r"labels.fasta:5: a second 'b'"),
        (">a\nHHC\n>b SET=tset\nH\n", r"SET=tset is not one of train, validation, test"),
        ("HHC\n", r"labels.fasta:1: not FASTA"),
    ],
)
def test_fasta_files_that_do_not_fit(tmp_path, labels, said):
    paths = fasta(tmp_path, sequences=">a\nMKV\n>b\nA\n", labels=labels)
    with pytest.raises(UserError, match=said):
        tagged(*paths)


def test_fasta_that_is_broken_is_left_out(tmp_path):
    paths = fasta(tmp_path, sequences=">a\nMKV\n>b\nA\n", labels=">a\nHH\n>b\nH\n")
    report = Report()
    assert tagged(*paths, policy=SKIP, report=report) == [(3, ["A"], ["H"])]
    assert report.counts == {"unequal lengths: 3, 2": 1}
    with pytest.raises(UserError, match=r"give a FASTA file of sequences, one of labels"):
        tagged(paths[0])


# Real files


def test_the_english_treebank(shared_data):
    path = shared_data("ud-ewt") / "en_ewt-ud-dev.conllu"
    report = Report()
    found = tagged(path, columns=("upos",), report=report)
    assert (len(found), sum(len(words) for _, words, _ in found)) == (2001, 25147)
    assert len({tag for *_, tags in found for tag in tags}) == 17
    assert not report.counts


def test_the_proteins(shared_data):
    folder = shared_data("protein")
    paths = [folder / f"{name}.fasta" for name in ("sequences", "sampled", "mask")]
    found = tagged(*paths, part="test")
    assert len(found) == 364
    assert {tag for *_, tags in found for tag in tags} == {"H", "E", "C", "_"}
