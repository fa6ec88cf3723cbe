"""A run by either engine, and exported: a folder that stands on its own."""

import importlib.util
import json
import math
import shutil
import sys
import types
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Library

from regard import cli, front
from regard.data import tokenizers
from regard.data.tokenizers import Tokenizer
from regard.errors import RecipeError, UserError
from regard.interop import conversion, ctranslate2, export, nearness, shortlist
from regard.interop.alone import alone
from regard.runs import Run
from regard.tasks import translate
from tests.exported import alone_program, code_lines
from tests.translators import native, signed, teacher_forced

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (regard[ctranslate2])")

LINES = [
    "the cat sees the dog",
    "",
    "a dog",
    "the dog sees a cat and the cat sees a dog",
    "  ",
    "Zebra! ünseen",
    "a cat",
]


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> front.Predictor:
    """A short training on a few phrases."""
    folder = tmp_path_factory.mktemp("run")
    words = {"the": "die", "a": "eine", "cat": "Katze", "dog": "Hündin", "sees": "sieht"}
    lines = [f"{x} {y} sees {u} {v}" for x in ("the", "a") for y in ("cat", "dog")
             for u in ("the", "a") for v in ("cat", "dog")]  # fmt: skip
    (folder / "source.txt").write_text("".join(f"{line}\n" for line in lines))
    targets = (" ".join(words[word] for word in line.split()) for line in lines)
    (folder / "target.txt").write_text("".join(f"{line}\n" for line in targets))
    files = [str(folder / "source.txt"), str(folder / "target.txt")]
    part = {"layers": 1, "heads": 2, "feedforward": 32, "dropout": 0.0}
    table = {
        "task": "translate",
        "data": {"train": files, "validation": files, "max_length": 12},
        "tokenizer": {"vocabulary": 290},
        "model": {"dim": 32, "encoder": part, "decoder": part},
        "train": {
            "updates": 60,
            "validate_every": 0,
            "save_every": 30,
            "device": "cpu",
            "threads": 1,
        },
        "output": {"extra": 5},
        "evaluation": {"lines": 0},
    }
    return front.train(table, to=folder / "run")


def test_predict_gives_the_same_by_either_engine(predictor: front.Predictor):
    engine = ctranslate2.engine(predictor.run, workers=1)
    search = predictor.search(nbest=3)
    options: dict[str, Any] = {"batch": 2, "align_tokens": True}
    ours = list(predictor.task.predict(predictor.model, LINES, search, **options))
    theirs = list(
        predictor.task.predict(predictor.model, LINES, search, finder=engine.find, **options)
    )
    assert [p.status for p in theirs][1] == "empty" and len({p.text for p in theirs}) > 3
    for a, b in zip(theirs, ours, strict=True):
        assert (a.text, a.status, a.tokens, a.source) == (b.text, b.status, b.tokens, b.source)
        assert a.alignment == b.alignment
        assert a.log_probs == pytest.approx(b.log_probs, abs=1e-4)
        assert [x["text"] for x in a.alternatives] == [x["text"] for x in b.alternatives]


def test_a_run_is_converted_once(predictor: front.Predictor, monkeypatch: pytest.MonkeyPatch):
    ctranslate2.engine(predictor.run, workers=1)
    engines = predictor.run.folder / "engines"
    assert [f.name.startswith("ctranslate2-float32-") for f in engines.iterdir()] == [True]

    def never(*_: Any) -> None:
        raise AssertionError("converted again")

    with monkeypatch.context() as context:
        context.setattr(ctranslate2, "convert", never)
        ctranslate2.engine(predictor.run, workers=1)
        with pytest.raises(AssertionError, match="converted again"):
            ctranslate2.engine(predictor.run, "30", workers=1)
    assert len(list(engines.iterdir())) == 1, "what fails leaves nothing behind"
    ctranslate2.engine(predictor.run, "30", workers=1)
    assert len(list(engines.iterdir())) == 2, "other weights are another engine"


def test_a_run_that_cannot_be_written_to_still_works(
    predictor: front.Predictor, monkeypatch: pytest.MonkeyPatch
):
    def denied(_: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ctranslate2, "whole", denied)
    engine = ctranslate2.engine(predictor.run, "30", "int8", workers=1)
    assert len(engine.score([[5, 6]], [[7]])[0]) == 2


# How near it is


@pytest.fixture
def copied(predictor: front.Predictor, tmp_path: Path) -> Path:
    """The run without any engine."""
    folder = tmp_path / "run"
    shutil.copytree(predictor.run.folder, folder, ignore=shutil.ignore_patterns("engines"))
    return folder


def test_nearness_is_measured_once_for_each_processor(
    copied: Path, monkeypatch: pytest.MonkeyPatch
):
    [line] = front.load(copied, quantization="int8").notes
    assert line.startswith("int8: the same output as the original for ")
    assert front.load(copied, quantization="int8").notes == [], "it has been said"
    [path] = copied.glob("engines/ctranslate2-int8-*/nearness.json")
    [(here, entry)] = json.loads(path.read_text()).items()
    assert here == nearness.features() and entry["computed"] == "int8_float32"

    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")  # as if the processor were another
    with monkeypatch.context() as context:
        context.setattr(ctranslate2, "convert", None)  # the engine itself is for any processor
        assert front.load(copied, quantization="int8").notes[0].startswith("int8: the same output")
    assert set(json.loads(path.read_text())) == {here, nearness.features()}
    changes: list[dict[str, Any]] = [
        {"loss": "little"}, {"equal": math.inf}, {"sentences": 10**30}, {"computed": "a\nb"},
    ]  # fmt: skip
    entries = [json.dumps({nearness.features(): {**entry, **change}}) for change in changes]
    for damaged in ("{", "[]", "[" * 100_000, *entries):
        path.write_text(damaged)
        assert len(front.load(copied, quantization="int8").notes) == 1, "it is measured anew"
    assert [f.name for f in copied.glob("engines/*/.*")] == []


def test_what_is_too_far_is_said_each_time(copied: Path, monkeypatch: pytest.MonkeyPatch):
    front.load(copied, quantization="int8")
    monkeypatch.setattr(nearness, "LIMIT", -1.0)
    for _ in range(2):
        [line] = front.load(copied, quantization="int8").notes
        assert ": too far on this processor, use float32" in line


def test_verbs_say_it_on_stderr(copied: Path, capsys: pytest.CaptureFixture[str]):
    (copied / "lines.txt").write_text("a cat\n")
    command = ["predict", str(copied), str(copied / "lines.txt"), "--quantization", "int8"]
    cli.main(command)
    out, err = capsys.readouterr()
    assert out.count("\n") == 1 and err.startswith("regard: int8: the same output as the original")
    cli.main(command)
    assert capsys.readouterr() == (out, "")


def test_without_validation_data_inputs_are_random(copied: Path, monkeypatch: pytest.MonkeyPatch):
    def gone(*_: Any) -> Any:
        raise UserError("data.validation: no such file")

    monkeypatch.setattr(translate.Task, "references", gone)
    assert "of 16 random inputs;" in front.load(copied, quantization="int8").notes[0]


# What is asked for by hand, and is not there


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    conversion.missing.cache_clear()
    yield
    conversion.missing.cache_clear()


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"engine": "ctranslate2"}, "engine"),
        ({"quantization": "int8"}, "quantization"),
        ({"engine": "ctranslate2", "quantization": "int8"}, "quantization"),
        ({"shortlist": True}, "shortlist"),
    ],
)
def test_where_ctranslate2_is_missing(
    options: dict[str, Any], key: str, copied: Path, without: None
):
    message = f"^{key}: CTranslate2 is not installed: pip install ctranslate2$"
    with pytest.raises(RecipeError, match=message):
        front.load(copied, **options)
    assert not (copied / "engines").exists()
    assert front.load(copied).predict(["", "a cat"])[0] == "", "auto does without"


def test_no_export_where_ctranslate2_is_missing(copied: Path, tmp_path: Path, without: None):
    with pytest.raises(UserError, match=r"^export: CTranslate2 is not installed: pip"):
        export.export(Run(copied), tmp_path / "new" / "export")
    assert not (tmp_path / "new").exists()


def test_a_broken_installation_is_as_good_as_none(
    copied: Path, without: None, monkeypatch: pytest.MonkeyPatch
):
    broken = types.ModuleType("ctranslate2")
    broken.__spec__ = importlib.util.spec_from_loader("ctranslate2", None)
    monkeypatch.setitem(sys.modules, "ctranslate2", broken)
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(RecipeError, match=r"^engine: CTranslate2 cannot be loaded \("):
        front.load(copied, engine="ctranslate2")
    assert front.load(copied).predict(["", "a cat"])[0] == ""


def test_numbers_that_the_processor_lacks_are_refused(copied: Path):
    there = conversion.computable()
    kinds: tuple[Any, ...] = ("int16", "float16", "bfloat16")
    lacking = [kind for kind in kinds if kind not in there]
    assert lacking, "no processor has all of them"
    for kind in lacking:
        message = f"^quantization: on this processor CTranslate2 has no {kind}, only "
        with pytest.raises(RecipeError, match=message + ", ".join(there)):
            front.load(copied, quantization=kind)
    assert not (copied / "engines").exists()


def test_a_shortlist_bounds_what_is_written(predictor: front.Predictor):
    """The model has hardly learnt, and would like to write what no translation has."""
    folder, line = predictor.run.folder, "a cat sees a dog"
    task: Any = predictor.task
    seen = set(chain(*task.target.tokenizer.encode(task.references("train")[1])))
    assert not set(task.target.tokenizer.encode(predictor.predict([line]))[0]) <= seen
    bound = front.load(folder, shortlist=True).predict([line])
    assert bound != [""] and set(task.target.tokenizer.encode(bound)[0]) <= seen

    [engine] = [f for f in (folder / "engines").iterdir() if "shortlist" in f.name]
    every = " ".join(map(str, range(len(task.target.tokenizer))))
    (engine / shortlist.NAME).write_text(f"\t{every}\n")
    signed(engine)
    assert front.load(folder, shortlist=True).predict(LINES) == predictor.predict(LINES)
    shutil.rmtree(engine)


def test_an_export_can_have_a_shortlist(predictor: front.Predictor, tmp_path: Path):
    export.export(predictor.run, tmp_path / "export", "float32", shortlist=True)
    quick = front.load(predictor.run.folder, shortlist=True)
    lines = ["the cat sees the dog", "", "a dog sees a cat"]
    assert run_alone(tmp_path / "export", lines) == [quick.predict([line])[0] for line in lines]


def test_without_training_data_there_is_no_shortlist(predictor: front.Predictor, tmp_path: Path):
    shipped = tmp_path / "shipped"
    shutil.copytree(
        predictor.run.folder, shipped, ignore=shutil.ignore_patterns("store", "engines")
    )
    with pytest.raises(
        UserError, match=r"shortlist: it is learnt from the training data, and .*store"
    ):
        front.load(shipped, shortlist=True).predict(["a cat"])
    assert not any((shipped / "engines").glob("*")), "nothing half-written is left"


def test_a_shortlist_is_for_ctranslate2_alone(predictor: front.Predictor):
    with pytest.raises(UserError, match="shortlist: torch's search has the whole vocabulary"):
        front.load(predictor.run.folder, engine="torch", shortlist=True)


def run_alone(folder: Path, lines: list[str]) -> list[str]:
    """What the program says, which the README shows and which has about ten lines."""
    program = (folder / "run.py").read_text()
    assert program in (folder / "README.md").read_text()
    assert code_lines(program) <= 12
    return alone_program(folder, "".join(f"{line}\n" for line in lines)).splitlines()


def test_an_export_stands_on_its_own(predictor: front.Predictor, tmp_path: Path):
    folder = tmp_path / "new" / "export"
    found = export.export(predictor.run, folder).parity
    assert found.sentences == 16 and found.equal == 1.0 and found.difference < 1e-4
    assert json.loads((folder / "regard.json").read_text())["parity"]["equal"] == 1.0
    assert [f.name for f in folder.parent.iterdir()] == ["export"]
    assert run_alone(folder, LINES) == predictor.predict(LINES)


def test_an_export_in_int8_says_how_near_it_is(predictor: front.Predictor, tmp_path: Path):
    """As found here from the folder alone: the original's outputs, scored by both."""
    task: Any = predictor.task
    folder, model = tmp_path / "export", predictor.model
    found, price = export.export(predictor.run, folder, "int8")
    assert price is not None and (price.metric, price.inputs) == ("bleu", 16)
    assert price.megabytes[1] < price.megabytes[0] and not price.worse
    assert price.float32 == pytest.approx(predictor.evaluate("validation")[0]["bleu"].value)
    sources = task.source.tokenizer.encode(task.references("validation")[0])
    rows = [task.source.row(tokens) for tokens in sources]
    request = task.translator.request(model, rows, [[]] * 16, list(range(16)))
    engine, search = ctranslate2.Engine(folder, workers=1), predictor.search()
    ours, theirs = native(model, sources, request, search), engine.find(sources, request, search)
    same = [a[0].tokens == b[0].tokens for a, b in zip(ours, theirs, strict=True)]
    assert found.equal == np.mean(same)

    def cut(rows: list[list[float]]) -> Any:
        """Without the end of those that have none."""
        ends = [len(best[0].tokens) + best[0].finished for best in ours]
        return np.concatenate([row[:end] for row, end in zip(rows, ends, strict=True)])

    outputs = [list(best[0].tokens) for best in ours]
    lost = cut(teacher_forced(model, sources, outputs)) - cut(engine.score(sources, outputs))
    assert found.difference == pytest.approx(np.abs(lost).max(), abs=1e-4) and found.difference > 0
    assert found.loss == pytest.approx(lost.mean(), abs=1e-4) and not found.far
    assert (found.sentences, found.basis, found.computed) == (16, "validation", "int8_float32")
    assert json.loads((folder / "regard.json").read_text())["parity"] == asdict(found)
    assert "Weights in int8. Compared with" in (text := (folder / "README.md").read_text())
    assert f"{found}.\n" in text and f"{price}.\n" in text


def test_an_export_says_what_this_processor_computes_instead(
    predictor: front.Predictor, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    if "float16" in conversion.computable():
        pytest.skip("this processor computes float16")
    folder = tmp_path / "export"
    cli.main(["export", str(predictor.run.folder), str(folder), "--quantization=float16"])
    said = "this processor computes float32 instead of float16"
    out, err = capfd.readouterr()
    assert f"regard: {folder}: {said}\n" in err and "[ctranslate2]" not in err
    assert (
        f"{folder}: ctranslate2, float16: the same output as the original for 16 of 16 sentences"
        in out
    )
    assert said in (folder / "README.md").read_text()


def test_an_export_never_writes_over_something(predictor: front.Predictor, tmp_path: Path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        export.export(predictor.run, tmp_path)
    assert [f.name for f in tmp_path.iterdir()] == ["precious.txt"]


def test_a_failing_export_leaves_nothing(
    predictor: front.Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "save_both", full)
    with pytest.raises(UserError, match="No space left"):
        export.export(predictor.run, tmp_path / "new" / "export")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "bpe", "vocabulary": 300},
        {"kind": "bpe", "vocabulary": 300, "split": "whitespace", "lowercase": True},
        {"kind": "unigram", "vocabulary": 300},
        {"kind": "word"},
        {"kind": "character", "lowercase": True},
        {"kind": "bytes"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_tokenizers_stand_on_their_own(settings: dict[str, Any], tmp_path: Path):
    text = [line for line in LINES if line.strip()]
    tokenizer = Tokenizer.train(tokenizers.Config(**settings), text * 3)
    alone(tokenizer, tmp_path / "tokenizer.json")
    library = Library.from_file(str(tmp_path / "tokenizer.json"))
    for line in [*text, " two  blanks ", "日本 🎉"]:
        symbols = tokenizer.encode([line])[0]
        assert library.encode(line).ids == symbols
        known = [
            symbol for symbol in symbols if symbol != tokenizer.unknown
        ]  # which is never written
        assert library.decode(known) == tokenizer.decode(known)
