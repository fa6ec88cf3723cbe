"""Faults planted in parallel corpora: the doctor finds each, and clean data has none.

The same faults in sentences of the embedded phrasebook, and in a part of multi30k.
"""

import random
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import phrasebook
from regard.checks.findings import Finding, counted
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


class Right(NamedTuple):
    """Where a fault stands, and what must be said of it: mostly how much of it there is."""

    place: str
    says: str
    near: int = 0
    """How far line and count may be from that: a shift is found by statistics."""


def lines(code: str, count: int, line: int = 1) -> Right:
    return Right(f"{code}:{line}", f"{counted(count, 1200, 'lines')} of data.train")


def target_lines(clean: Corpus, has: Callable[[str], bool]) -> Right:
    """All lines of the training target that have something, from the first on."""
    hit = [n for n, line in enumerate(clean["train.target"], 1) if has(line)]
    return lines("train.target", len(hit), hit[0])


def right(plant: Callable[[Corpus], None], clean: Corpus) -> Right:
    """Of each fault in FAULTS; most can be read off the function that plants it."""
    if plant in COUNTED:
        return target_lines(clean, COUNTED[plant])
    return EXACT[plant]


COUNTED: dict[Callable[[Corpus], None], Callable[[str], bool]] = {
    latin: lambda line: any("\x80" <= c <= "\xff" for c in line),
    mojibake: lambda line: not line.isascii(),
    decomposed: lambda line: unicodedata.normalize("NFD", line) != line,
    cut: lambda line: len(line) >= 40,
}
"""Faults that only some lines can have."""
EXACT: dict[Callable[[Corpus], None], Right] = {
    dropped: Right("data.train", "train.source has 1,200, {folder}/train.target has 1,199"),
    emptied: Right("data.train", "train.source has 1,200, {folder}/train.target has 0"),
    shifted: Right("train.target:501", "(700 of 1,200 lines (58 %) of data.train)", 10),
    inserted: Right("train.target:501", "(699 of 1,200 lines (58 %) of data.train)", 10),
    shifted_far: Right("train.target:501", "(700 of 1,200 lines (58 %) of data.train)", 10),
    shifted_between: Right("train.target:501", "(400 of 1,200 lines (33 %) of data.train)", 10),
    shuffled: Right("data.train", "the lines of data.train do not belong together"),
    sorted_side: Right("data.train", "the lines of data.train do not belong together"),
    shuffled_from: Right("train.source:801", "(400 of 1,200 lines (33 %) of data.train)", 20),
    # Every third pair is tried: 1 in 21 of all is tried and has the fault.
    some_swapped: Right("train.target:1", "58 of 400 pairs (14 %) that were tried, of 1,200"),
    untranslated: Right("train.target:1", "58 of 400 pairs (14 %) that were tried, of 1,200"),
    copied: Right("train.target:1", "120 of 1,200 pairs (10 %) of data.train"),
    ratio: Right("train.source:1", "24 of 1,200 pairs (2 %) of data.train"),
    leaked: Right("test.source:1", "250 of 250 examples (100 %) of data.test are in data.train"),
    partly_leaked: Right("test.source:1", "50 of 250 examples (20 %) of data.test are in data.tr"),
    same_test: Right("test.source:1", "250 of 250 examples (100 %) of data.test are in data.val"),
    known_sources: Right("test.source:1", "30 of 250 lines (12 %) of data.test"),
    repeated: Right("train.source:1201", "300 of 1,500 examples (20 %) of data.train"),
    empty: lines("train.target", 12),
    long: lines("train.source", 1, 4),
    sixteen: Right("data.train", "{folder}/train.target is UTF-16"),
    replacement: lines("train.target", 12),
    control: lines("train.source", 4),
    marks: lines("train.source", 1, MIDDLE + 1),
    invisible: lines("train.target", 6),
    cyrillic: lines("train.source", 8),
    other_script: Right("test.target:1", "is Latin in data.train, Cyrillic in data.test"),
    lowered: Right("validation.target:1", "no capitals in data.train, but has in data.validation"),
    lowered_everywhere: Right("train.target:1", "of data.train has no capitals, but the source"),
    tokenised: Right("validation.source:1", "the source of data.train, but not in that of data.v"),
    escaped: lines("train.target", 120),
    other_language: Right("validation.target:1", "of data.validation are unlike those of data.tr"),
}
EXACT |= {
    plant: Right(f"{part}.source:1", f"data.{part} has the language of the target first, unlike")
    for (plant, code), part in zip(
        (each for each in FAULTS if each[1] == "pairs.swapped"), SIZES, strict=True
    )
}


def judge(found: Finding, wanted: Right, folder: Path) -> None:
    if not wanted.near:
        named = wanted.place if wanted.place.startswith("data.") else f"{folder}/{wanted.place}"
        assert found.place == named
        assert wanted.says.format(folder=folder) in found.what
        return
    (file, line), (path, start) = (each.rsplit(":", 1) for each in (wanted.place, found.place))
    assert path == f"{folder}/{file}" and abs(int(start) - int(line)) <= wanted.near
    counts = [re.search(r"\((\d+) of 1,200 lines", what) for what in (wanted.says, found.what)]
    most, count = (int(each[1]) for each in counts if each)
    assert abs(most - count) <= wanted.near, found.what


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
    wanted = right(plant, corpus)
    plant(corpus)
    found = [each for each in examined(tmp_path, corpus) if each.code == code]
    assert found, code
    swapped = code == "pairs.swapped"
    assert found[0].severity == ("error" if plant in ERRORS or swapped else "warning")
    assert found[0].advice
    judge(found[0], wanted, tmp_path)


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
