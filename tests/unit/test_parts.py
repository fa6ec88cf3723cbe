"""Parts of somebody's own: a file that is broken is named, with the line and what is wrong."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from regard import cli
from regard.errors import RecipeError
from regard.recipe import config, parts
from tests import corpus, small_runs

ENCODER = '[model.encoder]\nlayers = 1\nheads = 2\nfeedforward = 32\nnorm = "post"\ndropout = 0.1\n'
"""As the corpus has it."""
GOOD = """\
from dataclasses import dataclass, field
from torch import nn
@dataclass(frozen=True, kw_only=True)
class Config:
    names: tuple[str, ...] = field(default_factory=tuple)
class Encoder(nn.Module):
    def __init__(self, config, dim):
        super().__init__()
"""
BROKEN = [
    ("x = = 1\n", "FILE:1: invalid syntax"),
    ("x = 1\n\ndef f(:\n", "FILE:3: invalid syntax"),
    ("import no_such_library\n", "FILE:1: ModuleNotFoundError: No module named 'no_such_library'"),
    ("\n\n1 / 0\n", "FILE:3: ZeroDivisionError: division by zero"),
    ("raise SystemExit(0)\n", "FILE:1: SystemExit: 0"),
    ("x = 1\n", "FILE: has no Config, which a part of encoders/ must have"),
    ("class Config: ...\n", "FILE: has no Encoder, which a part of encoders/ must have"),
    ("class Config: ...\nclass Encoder: ...\n", "FILE: Config is no dataclass"),
    ("Config = 3\nclass Encoder: ...\n", "FILE: Config is no dataclass"),
    (GOOD.replace("tuple[str, ...]", "'Nothing'"), "FILE: NameError: name 'Nothing'"),
    (GOOD.replace("super()", "self.nothing()"), "FILE:8: AttributeError: 'Encoder' object has no"),
    (GOOD.replace("config, dim", "config"), "FILE: TypeError: Encoder.__init__() takes"),
    (GOOD.replace("super().__init__()", "raise RuntimeError('no')"), "FILE:8: RuntimeError: no"),
    ("\0", "FILE"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where parts are looked for, for the time of a test."""
    (tmp_path / "parts" / "encoders").mkdir(parents=True)
    monkeypatch.setattr(parts, "_folders", [])
    parts.add_folder(tmp_path / "parts")
    return tmp_path / "parts" / "encoders"


@pytest.mark.parametrize(("source", "wanted"), BROKEN)
def test_a_broken_part(source: str, wanted: str, folder: Path, tmp_path: Path):
    recipe, file = corpus.write(tmp_path / "corpus"), folder / "mine.py"
    text = recipe.read_text(encoding="utf-8")
    head = '[model.encoder]\nkind = "mine"\n'
    recipe.write_text(text.replace(ENCODER, head))
    line = recipe.read_text().splitlines().index('kind = "mine"') + 1
    file.write_text(source)
    for _ in range(2):  # what failed once is not taken for whole the next time
        with pytest.raises(RecipeError) as refused:
            config.load(recipe)
        begins = f"{recipe}:{line}: model.encoder.kind: {wanted.replace('FILE', str(file))}"
        assert str(refused.value).startswith(begins)
        assert "\n" not in str(refused.value)
    assert "regard_parts.encoders.mine" not in sys.modules or "Encoder(" in source


def test_a_part_that_is_whole(folder: Path, tmp_path: Path):
    (folder / "mine.py").write_text(GOOD)
    recipe = corpus.write(tmp_path / "corpus")
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace(ENCODER, ""))
    names = config.load(recipe, ("model.encoder.kind=mine",)).model.encoder.config.names
    assert names == (), "a default that is made"
    with pytest.raises(RecipeError, match=re.escape("model.encoder.names: 3 (int) given")):
        config.load(recipe, ("model.encoder.kind=mine", "model.encoder.names=3"))


def test_a_folder_without_rooms(tmp_path: Path):
    with pytest.raises(RecipeError, match="it has none of the folders inputs, encoders"):
        parts.add_folder(tmp_path)


MINE = (
    GOOD
    + """
    def forward(self, source):
        return source
"""
)


def test_every_verb_that_opens_a_run_takes_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "parts" / "encoders" / "mine.py"
    file.parent.mkdir(parents=True)
    file.write_text(MINE)
    monkeypatch.setattr(parts, "_folders", [])
    parts.add_folder(tmp_path / "parts")
    data = small_runs.TASKS["classify"]["data"]
    data = data | {"folder": str(tmp_path / "run-data"), "test": ["labels.tsv"]}
    run = small_runs.create("classify", {"encoder": {"kind": "mine"}}, tmp_path / "run", data=data)
    (tmp_path / "in.txt").write_text("a dog runs\n")
    page, folder = str(tmp_path / "page.html"), str(run.folder)
    other = str(shutil.copytree(folder, tmp_path / "other"))
    assert parts.with_parts("evaluate", run.folder).endswith(f"--parts {tmp_path / 'parts'}")
    for words in (
        ["predict", folder, str(tmp_path / "in.txt")],
        ["evaluate", folder],
        ["score", folder],
        ["compare", folder, other],
        ["inspect", folder, "a dog runs", "--output", page],
    ):
        monkeypatch.setattr(parts, "_folders", [])
        with pytest.raises(SystemExit, match="2"):
            cli.main(words)
        wanted = "model.encoder.kind: 'mine' is not one of"
        said = capsys.readouterr().err
        assert wanted in said
        assert said.endswith("(a part of your own needs --parts DIR)\n")
        cli.main([*words, "--parts", str(tmp_path / "parts")])
        assert capsys.readouterr().out
