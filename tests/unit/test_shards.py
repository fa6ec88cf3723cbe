"""`regard predict RUN FOLDER`: a file for each file, whole or not there."""

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pytest import CaptureFixture, MonkeyPatch

from regard import cli
from regard.decoding.prediction import Prediction
from regard.front import Predictor
from regard.verbs import outputs, shards
from tests import small_runs

TEXTS = {
    "a.txt": b"a dog runs\na man sits\n\ntwo dogs play",
    "b.tsv": b"id\ttext\n1\ta man sits\n2\ta dog\n",
    "deep/c.txt.gz": gzip.compress(b"a dog runs\n" * 3),
    "empty": b"",
    ".hidden": b"\xff\n",
}
SEEN = sorted(name for name in TEXTS if not name.startswith("."))


class Said(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Said]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards") / "run"
    small_runs.make("classifier", folder)
    return folder


@pytest.fixture
def call(run: Path, tmp_path: Path, capsys: CaptureFixture[str], monkeypatch: MonkeyPatch) -> Call:
    """`call("in", …)`: the verb on what is given, where a folder "in" is."""
    monkeypatch.chdir(tmp_path)
    for name, data in TEXTS.items():
        path = Path("in", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def predict(*words: object) -> Said:
        capsys.readouterr()
        code: Any = 0
        try:
            cli.main(["predict", str(run), *map(str, words)])
        except SystemExit as stop:
            code = stop.code
        return Said(code or 0, *capsys.readouterr())

    return predict


def contents(folder: str) -> dict[str, bytes]:
    found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in found
        if not path.name.startswith(".")
    }


def lines(name: str, data: bytes) -> int:
    data = gzip.decompress(data) if name.endswith(".gz") else data
    return len(data.splitlines())


# What is written


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_each_file_becomes_what_it_is_alone(options: list[str], call: Call):
    found = call("in", "--to", "out", *options)
    assert found.code == 0 and "out: 4 files written\n" in found.err and not found.out
    made = contents("out")
    assert [*made] == SEEN
    for name, data in made.items():
        alone = call(Path("in", name), *options).out
        assert (gzip.decompress(data) if name.endswith(".gz") else data).decode() == alone
        header = name.endswith(".tsv") and bool(options)
        assert lines(name, data) == lines(name, TEXTS[name]) - header


def test_without_a_folder_for_it_all_goes_to_stdout_in_order(call: Call):
    alone = [call(Path("in", name)).out for name in SEEN]
    assert call("in").out == "".join(alone)


def test_what_cannot_be_read_of_a_line_is_reported_with_its_file(call: Call):
    Path("in", "a.txt").write_bytes(b"a dog\n\xff\n")
    found = call("in", "--to", "out")
    assert "in/a.txt:2: not UTF-8: taken as empty" in found.err
    assert len(Path("out/a.txt").read_bytes().splitlines()) == 2


# Whole or not there


@pytest.fixture
def predicted(monkeypatch: MonkeyPatch) -> list[str]:
    """The names of the files that are predicted for, in their order."""
    seen, make = list[str](), shards.Shards.make

    def noted(self: shards.Shards, name: str) -> bytes:
        seen.append(name)
        return make(self, name)

    monkeypatch.setattr(shards.Shards, "make", noted)
    return seen


def test_files_that_are_whole_are_not_made_again(call: Call, predicted: list[str]):
    call("in", "--to", "out")
    whole = contents("out")
    Path("out", "b.tsv").unlink()
    Path("out", ".b.tsv.01234567-new").write_bytes(b"half")
    predicted.clear()
    found = call("in", "--to", "out")
    assert predicted == ["b.tsv"]
    assert "4 files written, 3 of them before" in found.err
    assert contents("out") == whole and not [*Path("out").glob(".*-new")]


def test_what_was_begun_is_not_there(call: Call, monkeypatch: MonkeyPatch):
    """Ctrl-C within the second file; then the same again."""
    call("in", "--to", "whole")
    with monkeypatch.context() as patch:
        of_rows = outputs._of_rows

        def stopped(*given: Any) -> Iterator[bytes]:
            yield next(of_rows(*given))
            raise KeyboardInterrupt

        patch.setattr(outputs, "_of_rows", stopped)
        assert call("in", "--to", "out").code == 130
    assert [*contents("out")] == ["a.txt"]
    assert call("in", "--to", "out").code == 0
    assert contents("out") == contents("whole")


def test_a_file_that_has_changed_is_predicted_for_again(call: Call, predicted: list[str]):
    call("in", "--to", "out")
    Path("in", "a.txt").write_bytes(b"a dog\n")
    Path("in", "new.txt").write_bytes(b"a man\n")
    predicted.clear()
    assert "a.txt has changed since it was predicted for" in call("in", "--to", "out").err
    assert predicted == ["a.txt", "new.txt"]
    assert len(contents("out")["a.txt"].splitlines()) == 1


def test_a_file_that_cannot_be_read_ends_it_and_those_before_it_stay(call: Call):
    Path("in", "b.tsv").chmod(0)
    Path("in", "b.csv.gz").write_bytes(gzip.compress(b"text\na dog\n" * 9)[:-9])
    found = call("in", "--to", "out")
    assert found.code == 1 and not found.out
    if os.geteuid():
        assert "in/b.tsv cannot be read" in found.err
    else:
        assert "in/b.csv.gz is not a whole gzip file" in found.err
        assert [*contents("out")] == ["a.txt"]


# What is refused


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["in", "--to", "in/out"], 1, "--to in/out: it is inside in"),
        (["in", "--to", "in"], 1, "--to in: it is inside in"),
        (["in", "--to", "in/a.txt"], 1, "it is inside in"),
        (["in", "--to", "file"], 1, "--to file: it is a file: name a folder"),
        (["in", "--to", "full"], 1, "--to full: it is not empty"),
        (["none"], 1, "none is a folder without files"),
        (["other"], 1, "other/c.txt is a zip archive"),
        (["in", "--to", "out", "--beams", "3"], 2, "beams: the task classify has no search"),
        (["in", "--to", "out", "--batch", "0"], 2, "batch: 0 must be"),
        (["a dog", "--to", "out"], 2, "to: the text is no folder of files"),
        (["file", "--ray", "auto"], 2, "ray: file is no folder of files"),
        (["in", "--next", "3"], 1, "in is a folder: name a file in it"),
    ],
)
def test_what_is_refused(words: list[str], code: int, said: str, call: Call):
    for name in ("file", "full/file", "other/c.txt"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(b"PK\x03\x04")
    Path("none").mkdir()
    found = call(*words)
    assert (found.code, found.out) == (code, "") and said in found.err
    assert not Path("out").exists()


def test_outputs_of_another_model_or_other_options_are_left_alone(call: Call):
    call("in", "--to", "out")
    before = contents("out")
    found = call("in", "--to", "out", "--json")
    assert found.code == 1 and "of another model or of other options" in found.err
    assert call("in", "--to", "out", "--batch", "3").code == 0
    note = Path("out", shards.NOTE)
    note.write_text(json.dumps({**json.loads(note.read_text()), "key": "another"}))
    assert call("in", "--to", "out").code == 1
    note.write_text("{")
    assert "Name another folder" in call("in", "--to", "out").err
    assert contents("out") == before


def test_no_more_than_a_chunk_is_in_memory(run: Path, tmp_path: Path, monkeypatch: MonkeyPatch):
    """Lines come while a file is read."""
    monkeypatch.setattr("regard.front.CHUNK", 2)
    (tmp_path / "a.txt").write_bytes(b"a dog\n" * 9)
    asked, predictor = list[int](), Predictor.predictions

    def counted(self: Predictor, inputs: Any, **options: Any) -> Iterator[Prediction]:
        asked.append(len(inputs))
        return predictor(self, inputs, **options)

    monkeypatch.setattr(Predictor, "predictions", counted)
    given = shards.Shards(regard_load(run), tmp_path, "auto", outputs.How(options={}), None)
    found = given.lines("a.txt")
    next(found)
    assert asked == [2]
    assert len([*found]) == 8 and asked == [2, 2, 2, 2, 1]


def regard_load(run: Path) -> Predictor:
    from regard import front

    return front.load(run)
