"""Faults planted in parallel corpora: the doctor finds each, and clean data has none.

The same faults in sentences of the embedded phrasebook, and in a part of multi30k.
"""

import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

import phrasebook
from regard.checks.findings import Finding
from regard.doctor.examination import quick_check
from regard.recipe import config

SIZES = {"train": 1200, "validation": 250, "test": 250}
MIDDLE = 500
Corpus = dict[str, list[str]]
"""Lines of each file: train.source, train.target, validation.source, …"""


def lines_of(corpus: Corpus, part: str) -> tuple[list[str], list[str]]:
    return corpus[f"{part}.source"], corpus[f"{part}.target"]


def every(corpus: Corpus, name: str, step: int, change: Callable[[str], str]) -> None:
    """Change every `step`-th line of a file."""
    lines = corpus[name]
    lines[::step] = [change(line) for line in lines[::step]]


# Each plants one fault, named by what the doctor must call it.


def emptied(corpus: Corpus) -> None:
    corpus["train.target"] = []


def dropped(corpus: Corpus) -> None:
    del corpus["train.target"][MIDDLE]


def shifted(corpus: Corpus) -> None:
    corpus["train.target"].append(corpus["train.target"].pop(MIDDLE))


def inserted(corpus: Corpus) -> None:
    corpus["train.source"].insert(MIDDLE, "An additional line that nobody wanted to be here .")
    corpus["train.source"].pop()


def shifted_far(corpus: Corpus) -> None:
    """Forty lines that came to stand at the end."""
    lines = corpus["train.target"]
    corpus["train.target"] = lines[:MIDDLE] + lines[MIDDLE + 40 :] + lines[MIDDLE : MIDDLE + 40]


def shifted_between(corpus: Corpus) -> None:
    """One missing, one too many: the last lines are right again."""
    lines = corpus["train.target"]
    lines.insert(MIDDLE + 400, lines.pop(MIDDLE))


def shuffled(corpus: Corpus) -> None:
    random.Random(1).shuffle(corpus["train.target"])


def sorted_side(corpus: Corpus) -> None:
    corpus["train.source"].sort()


def shuffled_from(corpus: Corpus) -> None:
    """The lines after the first eight hundred."""
    rest = corpus["train.target"][800:]
    random.Random(1).shuffle(rest)
    corpus["train.target"][800:] = rest


def swap(part: str) -> Callable[[Corpus], None]:
    def swapped(corpus: Corpus) -> None:
        source, target = lines_of(corpus, part)
        corpus[f"{part}.source"], corpus[f"{part}.target"] = target, source

    return swapped


def some_swapped(corpus: Corpus) -> None:
    source, target = lines_of(corpus, "train")
    source[::7], target[::7] = target[::7], source[::7]


def untranslated(corpus: Corpus) -> None:
    """Targets that are other sentences of the source's language."""
    source, target = lines_of(corpus, "train")
    target[::7] = [source[n - 1] for n in range(0, len(source), 7)]


def copied(corpus: Corpus) -> None:
    source, target = lines_of(corpus, "train")
    target[::10] = source[::10]


def leaked(corpus: Corpus) -> None:
    for side in ("source", "target"):
        corpus[f"train.{side}"] += corpus[f"test.{side}"]


def partly_leaked(corpus: Corpus) -> None:
    for side in ("source", "target"):
        corpus[f"train.{side}"] += corpus[f"test.{side}"][:50]


def same_test(corpus: Corpus) -> None:
    for side in ("source", "target"):
        corpus[f"test.{side}"] = list(corpus[f"validation.{side}"])


def known_sources(corpus: Corpus) -> None:
    corpus["train.source"][:30] = corpus["test.source"][:30]


def repeated(corpus: Corpus) -> None:
    for side in ("source", "target"):
        corpus[f"train.{side}"] += corpus[f"train.{side}"][:300]


def latin(corpus: Corpus) -> None:
    """Written as Latin-1: see `write`."""
    corpus["train.target"] = [
        line.encode("latin-1", "replace").decode("latin-1") for line in corpus["train.target"]
    ]
    corpus["latin-1"] = ["train.target"]


def sixteen(corpus: Corpus) -> None:
    corpus["utf-16"] = ["train.target"]


def mojibake(corpus: Corpus) -> None:
    every(corpus, "train.target", 1, lambda line: line.encode().decode("cp1252", "replace"))


def replacement(corpus: Corpus) -> None:
    every(corpus, "train.target", 100, lambda line: line.replace("e", "\ufffd"))


def control(corpus: Corpus) -> None:
    every(corpus, "train.source", 300, lambda line: line[:5] + "\x07" + line[5:])


def marks(corpus: Corpus) -> None:
    corpus["train.source"][MIDDLE] = "\ufeff" + corpus["train.source"][MIDDLE]


def invisible(corpus: Corpus) -> None:
    every(corpus, "train.target", 200, lambda line: line[:4] + "\u00ad" + line[4:])


def empty(corpus: Corpus) -> None:
    every(corpus, "train.target", 100, lambda line: "")


def long(corpus: Corpus) -> None:
    corpus["train.source"][3] = "word " * 3000


def cyrillic(corpus: Corpus) -> None:
    every(corpus, "train.source", 150, lambda line: "Двое мужчин стоят у реки и смотрят на воду .")


def other_script(corpus: Corpus) -> None:
    every(corpus, "test.target", 1, lambda line: "Двое мужчин стоят у реки и смотрят на воду .")


def lowered(corpus: Corpus) -> None:
    every(corpus, "train.target", 1, str.lower)


def lowered_everywhere(corpus: Corpus) -> None:
    for part in SIZES:
        every(corpus, f"{part}.target", 1, str.lower)


def tokenised(corpus: Corpus) -> None:
    for side in ("source", "target"):
        spaced = lambda line: line.replace(".", " .").replace(",", " ,")  # noqa: E731
        every(corpus, f"train.{side}", 1, spaced)


def escaped(corpus: Corpus) -> None:
    every(corpus, "train.target", 10, lambda line: f"&quot;{line}&quot;")


def decomposed(corpus: Corpus) -> None:
    every(corpus, "train.target", 1, lambda line: unicodedata.normalize("NFD", line))


def cut(corpus: Corpus) -> None:
    every(corpus, "train.target", 1, lambda line: line[:40])


def other_language(corpus: Corpus) -> None:
    corpus["validation.target"] = [
        "Deux hommes regardent une rivière qui coule vers la mer, et ils parlent de leurs enfants."
    ] * SIZES["validation"]


def ratio(corpus: Corpus) -> None:
    every(corpus, "train.target", 50, lambda line: f"{line} " * 12)


FAULTS: list[tuple[Callable[[Corpus], None], str]] = [
    (dropped, "pairs.lines"),
    (emptied, "pairs.lines"),
    (shifted, "pairs.shifted"),
    (inserted, "pairs.shifted"),
    (shifted_far, "pairs.shifted"),
    (shifted_between, "pairs.shifted"),
    (shuffled, "pairs.unrelated"),
    (sorted_side, "pairs.unrelated"),
    (shuffled_from, "pairs.unrelated"),
    (swap("train"), "pairs.swapped"),
    (swap("validation"), "pairs.swapped"),
    (swap("test"), "pairs.swapped"),
    (some_swapped, "pairs.mixed"),
    (untranslated, "pairs.mixed"),
    (copied, "pairs.copies"),
    (ratio, "pairs.ratio"),
    (leaked, "data.leaked"),
    (partly_leaked, "data.leaked"),
    (same_test, "data.leaked"),
    (known_sources, "data.known"),
    (repeated, "data.repeated"),
    (empty, "data.empty"),
    (long, "data.long"),
    (sixteen, "data.unreadable"),
    (latin, "text.encoding"),
    (mojibake, "text.mojibake"),
    (replacement, "text.replacement"),
    (control, "text.control"),
    (marks, "text.mark"),
    (invisible, "text.invisible"),
    (cyrillic, "text.script"),
    (other_script, "text.script"),
    (lowered, "text.case"),
    (lowered_everywhere, "text.case"),
    (tokenised, "text.tokenised"),
    (escaped, "text.markup"),
    (decomposed, "text.normal"),
    (cut, "text.cut"),
    (other_language, "text.other"),
]
ERRORS = {
    dropped, emptied, shifted, inserted, shifted_far, shifted_between, shuffled, sorted_side,
    leaked, partly_leaked, latin, sixteen, mojibake, control, other_script,
}  # fmt: skip


EXACT: dict[Callable[[Corpus], None], tuple[str, str]] = {
    copied: ("train.target:1", "120 of 1,200 pairs (10 %) of data.train"),
    partly_leaked: ("test.source:", "50 of 250 examples (20 %) of data.test are in data.train"),
    same_test: ("test.source:", "250 of 250 examples (100 %) of data.test are in data.validation"),
    repeated: ("train.source:1201", "300 of 1,500 examples (20 %) of data.train"),
    empty: ("train.target:1", "12 of 1,200 lines (1 %) of data.train"),
    long: ("train.source:4", "1 of 1,200 lines (0.083 %) of data.train"),
    control: ("train.source:1", "4 of 1,200 lines (0.33 %) of data.train"),
    marks: (f"train.source:{MIDDLE + 1}", "1 of 1,200 lines (0.083 %) of data.train"),
    invisible: ("train.target:1", "6 of 1,200 lines (0.5 %) of data.train"),
    cyrillic: ("train.source:1", "8 of 1,200 lines (0.67 %) of data.train"),
    escaped: ("train.target:1", "120 of 1,200 lines (10 %) of data.train"),
    ratio: ("train.source:", "24 of 1,200 pairs (2 %) of data.train"),
}
"""Where a fault stands, and how much of it there is."""


@pytest.fixture(scope="module")
def phrases() -> Corpus:
    corpus: Corpus = {}
    for part, count in SIZES.items():
        found = phrasebook.pairs("en-de", part, count)  # type: ignore[arg-type]
        corpus[f"{part}.source"], corpus[f"{part}.target"] = map(list, zip(*found, strict=True))
    return corpus


@pytest.fixture(scope="module")
def captions(shared_data) -> Corpus:
    folder = shared_data("multi30k")
    names = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
    return {
        f"{part}.{side}": read(folder / f"{names[part]}.{language}")[:count]
        for part, count in SIZES.items()
        for side, language in (("source", "en"), ("target", "de"))
    }


@pytest.fixture(params=["phrases", "captions"])
def corpus(request: pytest.FixtureRequest) -> Corpus:
    found: Corpus = request.getfixturevalue(request.param)
    return {name: list(lines) for name, lines in found.items()}


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def examined(folder: Path, corpus: Corpus) -> list[Finding]:
    encodings = {name: kind for kind in ("latin-1", "utf-16") for name in corpus.pop(kind, [])}
    for name, lines in corpus.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / name).write_bytes(text.encode(encodings.get(name, "utf-8"), "replace"))
    parts = dict.fromkeys(name.partition(".")[0] for name in corpus)
    data = {part: [f"{part}.source", f"{part}.target"] for part in parts}
    return quick_check(
        config.from_table({"task": "translate", "data": {"folder": str(folder), **data}})
    )


def test_clean_data_has_no_error_and_no_warning(tmp_path, corpus):
    found = examined(tmp_path, corpus)
    assert [str(each) for each in found if each.severity != "note"] == []
    assert [each.what for each in found if each.code == "data.counts"] == [
        "examples: train 1,200, validation 250, test 250"
    ]


@pytest.mark.parametrize(("plant", "code"), FAULTS, ids=[f"{f.__name__}-{c}" for f, c in FAULTS])
def test_a_planted_fault_is_found(tmp_path, corpus, plant, code):
    plant(corpus)
    found = [each for each in examined(tmp_path, corpus) if each.code == code]
    assert found, code
    worst = found[0]
    swapped = code == "pairs.swapped"
    assert worst.severity == ("error" if plant in ERRORS or swapped else "warning")
    assert worst.place and worst.what and worst.advice
    place, count = EXACT.get(plant, ("", ""))
    assert worst.place.startswith(f"{tmp_path}/{place}" if place else "") and count in worst.what
    assert worst.place.endswith(place) or place.endswith(":")


@pytest.mark.parametrize("plant", [dropped, shifted, inserted, shifted_between])
def test_the_place_of_a_shift_is_told(tmp_path, corpus, plant):
    plant(corpus)
    found = [each for each in examined(tmp_path, corpus) if each.code == "pairs.shifted"]
    path, _, line = found[0].place.rpartition(":")
    assert path.endswith("target")
    assert abs(int(line) - MIDDLE) <= 10
    assert len(found) == 1


def test_the_line_from_which_on_a_side_is_shuffled(tmp_path, corpus):
    shuffled_from(corpus)
    [found] = [each for each in examined(tmp_path, corpus) if each.code == "pairs.unrelated"]
    path, _, line = found.place.rpartition(":")
    assert path == f"{tmp_path}/train.source" and abs(int(line) - 801) <= 20


def test_of_two_parts_the_smaller_is_taken_to_be_swapped(tmp_path, corpus):
    swap("test")(corpus)
    found = examined(tmp_path, {n: c for n, c in corpus.items() if "validation" not in n})
    [swapped] = [each for each in found if each.code == "pairs.swapped"]
    assert swapped.place == f"{tmp_path}/test.source:1"


def test_the_swapped_part_is_named(tmp_path, corpus):
    swap("train")(corpus)
    places = [each.place for each in examined(tmp_path, corpus) if each.code == "pairs.swapped"]
    assert places == [f"{tmp_path}/train.source:1"]


def test_all_bad_lines_are_counted_not_the_first_alone(tmp_path, corpus):
    control(corpus)
    [found] = [each for each in examined(tmp_path, corpus) if each.code == "text.control"]
    assert found.place == f"{tmp_path}/train.source:1"
    assert "4 of 1,200 lines" in found.what
