"""The Python front door: `regard.train`, `regard.evaluate`, … in a program and in a notebook."""

import doctest
import inspect
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import regard
from regard import cli, door
from regard.checks.findings import Finding
from regard.console.tables import Block, as_html, as_text
from regard.door import progress
from regard.door.results import Exported, Findings, Page, Predictions
from regard.errors import RecipeError
from regard.recipe import config
from regard.tasks import Prediction

NAMES = [
    "compare", "doctor", "evaluate", "export", "inspect", "load", "plan", "predict", "sweep",
    "train", "word2vec",
]  # fmt: skip
WORDS = ["a", "dog", "runs", "two", "cats", "play", "in", "the", "snow"]
BLOCKS = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 16}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe, mine.toml, and its data."""
    folder = tmp_path_factory.mktemp("place")
    parts = {"train": range(40), "validation": range(40, 48), "test": range(48, 56)}
    for part, numbers in parts.items():
        lines = [" ".join(WORDS[(n * k + k) % 9] for k in range(1, 4 + n % 3)) for n in numbers]
        (folder / f"{part}.source").write_text("\n".join(lines) + "\n")
        (folder / f"{part}.target").write_text("\n".join(lines).upper() + "\n")
    table = {
        "task": "translate",
        "data": {part: [f"{part}.source", f"{part}.target"] for part in parts},
        "tokenizer": {"kind": "word"},
        "evaluation": {"lines": 2},
        "model": {"dim": 8, "encoder": BLOCKS, "decoder": BLOCKS},
        "train": {
            "updates": 4, "validate_every": 2, "save_every": 2, "log_every": 1, "threads": 1,
            "allow": ["data.leaked"],
        },
    }  # fmt: skip
    (folder / "mine.toml").write_text(tomli_w.dumps(table))
    return folder


@pytest.fixture(scope="module")
def trained(place: Path) -> Path:
    """The same, with two runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        ask("train")
        regard.train("mine.toml", "seed=2", to="runs/other")
    return place


def ask(name: str) -> None:
    """Run the example of a function's docstring."""
    text = getattr(regard, name).__doc__
    examples = doctest.DocTestParser().get_doctest(text, {"regard": regard}, name, None, None)
    assert examples.examples, f"regard.{name} has no example"
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(examples, out=said.append).failed == 0, "".join(said)


# What is there


def test_the_package_shows_its_functions_alone():
    assert [name for name in dir(regard) if name[0] != "_"] == NAMES
    assert sorted(regard.__all__) == NAMES
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        regard.nonsense  # noqa: B018


@pytest.mark.parametrize("name", NAMES)
def test_every_function_has_its_page(name: str):
    function = getattr(door, name)
    known = getattr(regard, name)
    assert callable(known)
    assert known.__doc__ == function.__doc__
    assert inspect.signature(known) == inspect.signature(function)
    parameters = inspect.signature(function).parameters.values()
    assert all(each.annotation is not inspect.Parameter.empty for each in parameters)
    page = function.__doc__.partition("Args:")[2]
    assert [each.name for each in parameters if each.name not in page] == []


def test_a_room_stays_a_module_that_can_be_imported():
    from regard.compare import Comparison
    from regard.train import lock

    assert isinstance(sys.modules["regard.compare"], types.ModuleType)
    assert sys.modules["regard.train"].lock is lock
    assert sys.modules["regard.compare"].Comparison is Comparison


@pytest.mark.parametrize("name", sorted({*NAMES} - {"load"}))
def test_arguments_are_those_of_the_verb(name: str):
    """But those that print, write or read files, and what a verb alone does."""
    verb, function = (
        inspect.signature(f).parameters for f in (cli.VERBS[name], getattr(door, name))
    )
    alone = {
        "json", "profile", "processes", "ray", "seeds", "file", "format", "input_format", "column",
        "delimiter", "header", "split", "prefix", "png", "svg", "output", "live", "port", "table",
        "nodes", "mtbf", "save_seconds", "restart_minutes", "straggling", "days", "seed", "plot",
    }  # fmt: skip
    here = {*function} | (
        {*inspect.signature(door.load).parameters} if "options" in function else set()
    )
    page = getattr(door, name).__doc__
    assert [n for n in verb if n not in here | alone and n not in page] == []


# The examples


def test_the_example_of_train_and_load(trained: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(trained)
    ask("load")


@pytest.mark.parametrize("name", ["doctor", "predict", "evaluate", "compare", "inspect", "export"])
def test_the_example_of(name: str, trained: Path, monkeypatch: pytest.MonkeyPatch):
    if name == "export":
        pytest.importorskip("ctranslate2")
    monkeypatch.chdir(trained)
    ask(name)


# Results


def test_an_evaluation_is_a_mapping_and_a_table(trained: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(trained)
    model = regard.load("runs/mine")
    found = regard.evaluate(model, baseline="runs/other", search="greedy")
    assert {"bleu", "chrf"} <= {*found}
    assert len(found.predictions) == 8
    assert str(found).startswith("runs/mine: test\nscore")
    assert "paired bootstrap against" in str(found)
    assert f"{found['chrf'].value:.2f}"[:3] in found._repr_html_()
    with pytest.raises(RecipeError, match="device: the model is loaded"):
        regard.evaluate(model, device="cpu")


def test_predictions_of_a_text_of_texts_and_of_a_file(
    trained: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(trained)
    model = regard.load("runs/mine", engine="torch")
    Path("input.txt").write_text("a dog\ntwo cats\n")
    assert len(regard.predict(model, "a dog")) == 1
    found = regard.predict(model, Path("input.txt"))
    assert found.inputs == ("a dog", "two cats")
    assert found.texts == model.predict(["a dog", "two cats"])
    assert found[1:].inputs == ("two cats",)


def test_what_is_shown_of_predictions():
    made = [Prediction(text=f"<{n}>\nb", score=-0.5) for n in range(21)]
    found = Predictions([str(n) for n in range(21)], made)
    lines = str(found).splitlines()
    assert lines[0].split() == ["input", "output", "score", "status"]
    assert lines[1].split() == ["0", "<0>", "b", "-0.500", "ok"]
    assert lines[-1] == "… and 1 more"
    assert "&lt;0&gt; b" in found._repr_html_()
    assert "<0>" not in found._repr_html_()


def test_findings_are_a_list_and_a_table():
    one = Finding(code="data.leaked", place="test", what="3 of 8 lines", severity="error")
    found = Findings([one])
    assert found == [one]
    assert str(found).splitlines()[-1] == "1 error, 0 warnings, 0 notes"
    assert "<td" in found._repr_html_() and "3 of 8 lines" in found._repr_html_()


def test_an_export_says_what_it_costs():
    found = Exported(Path("x"), "onnx", "int8", "same for 8 of 8", "BLEU 30 → 29", ("it loses",))
    assert str(found).splitlines() == [
        "folder   x", "form     onnx", "numbers  int8", "checked  same for 8 of 8",
        "cost     BLEU 30 → 29", "warning: it loses",
    ]  # fmt: skip


def test_a_page_is_shown_in_a_frame(tmp_path: Path):
    path = tmp_path / "page.html"
    path.write_text('<p class="x">a</p>')
    frame = Page(path)._repr_html_()
    assert 'srcdoc="&lt;p class=&quot;x&quot;&gt;a&lt;/p&gt;"' in frame
    assert "sandbox='allow-scripts'" in frame


def test_tables():
    block = Block(("a", "long"), [("1\n2", "<b>")], "Title", ["note"])
    assert as_text(block) == "Title\na    long\n1 2  <b>\nnote"
    assert as_html(block).count("<td") == 2 and "&lt;b&gt;" in as_html(block)
    assert as_text(Block(("", ""), [("x", "1")])) == "x  1"


# Progress


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jupyter, as far as we use it; what it shows."""
    shown: list[str] = []

    class Handle:
        def update(self, page: Any) -> None:
            shown.append(page)

    def display(page: Any, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(page)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    inner = types.ModuleType("IPython.display")
    inner.HTML, inner.display = str, display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    return shown


def test_a_notebook_shows_progress(notebook: list[str], place: Path, monkeypatch, tmp_path: Path):
    monkeypatch.chdir(place)
    records: list[dict[str, Any]] = []
    regard.train("mine.toml", to=tmp_path / "run", callback=records.append)
    assert "preparing …" in notebook[0]
    assert "<progress value='4' max='4'>" in notebook[-1]
    assert "validation" in notebook[-1] and "<td" in notebook[-1]
    assert {"train", "validation"} <= {record["kind"] for record in records}


def test_progress_is_silent_elsewhere_unless_asked_for(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    assert not progress.in_notebook()
    with progress.shown(None, "mine.toml", (), None) as show:
        assert show is None
    with progress.shown(True, "mine.toml", (), None) as show:
        assert show is not None
    assert progress.planned("mine.toml", ["train.updates=7"], None) == 7
    assert progress.planned("mine.toml", ["train.minutes=1"], None) is None
    assert progress.planned("nowhere.toml", [], None) is None
    assert progress.planned("mine.toml", ["train.epochs=3"], None) is None
    made = config.load(Path("mine.toml"), ["train.epochs=3", "train.updates=9"])
    (tmp_path / "recipe.toml").write_text(config.dump(made))
    assert progress.planned(None, [], tmp_path) == 9  # a run has its epochs in updates


def test_what_comes_from_data_is_text(notebook: list[str]):
    view = progress.View(None)
    view.record({"kind": "warning", "text": "<script>"})
    view.record({"kind": "validation", "update": 3, "tokens": 9, "nll": 1.5, "sample": "<i>"})
    assert "&lt;script&gt;" in notebook[-1] and "<i>" not in notebook[-1]
    assert "1.5" in notebook[-1]
    given = {"input_1": "<a>", "wanted_1": "b", "got_1": "c"}
    view.record({"kind": "samples", "update": 3, **given})
    assert "&lt;a&gt; → c (wanted: b)" in notebook[-1]
