"""Printed commands: what a shell makes of them is what was meant."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from regard.console import shell
from regard.errors import RecipeError, UserError
from regard.recipe import config, parts
from regard.runs import Run
from regard.train.progress import Progress
from regard.verbs import display
from tests import corpus

NAMES = [
    "plain", "with blanks", "quote'd", 'dou"ble', "$HOME", "`id`", "a;b", "a&b", "~", "*", "-dash",
    "--to", "back\\slash", "line\nbreak", "tab\t", "\x1b[2J", "ünï", "\u202ex", "\udcff", "#", "!x",
]  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="cmd.exe has rules of its own")
@pytest.mark.parametrize("name", NAMES)
def test_a_shell_reads_the_same_path(name: str):
    line = shell.command("train", "--resume", Path(name))
    assert line.startswith("regard train --resume ")
    words = line.removeprefix("regard train --resume ")
    echoed = subprocess.run(["bash", "-c", f"printf %s {words}"], capture_output=True, check=True)
    assert os.path.normpath(echoed.stdout) == os.fsencode(name)
    assert not words.startswith("-"), "or else it were an option"
    assert line.isprintable()


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        (r"C:\runs\mine", r"C:\runs\mine"),
        (r"C:\my runs\x", r'"C:\my runs\x"'),
        ("a&b", '"a&b"'),
        ('train.allow=["data.leaked"]', r'"train.allow=[\"data.leaked\"]"'),
    ],
)
def test_windows(name: str, quoted: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "name", "nt")
    assert shell.quoted(name) == quoted


def test_every_printed_command_is_quoted(tmp_path: Path, capsys, monkeypatch):
    """Where a run is named to go on with it, to score it, to use it."""
    folder = tmp_path / "my 'own' run"
    run = Run.create(folder, config.load(corpus.write(tmp_path / "corpus")))
    named = shlex.quote(str(folder))
    display.summary(run, Progress(update=5))
    assert f"to go on: regard train --resume {named}\n" in capsys.readouterr().err
    display.summary(run, Progress(update=5, finished=True))
    said = capsys.readouterr().err
    assert f"regard evaluate {named}\n" in said and f"regard predict {named} FILE\n" in said
    with pytest.raises(UserError) as refused:
        Run.create(folder, run.recipe)
    assert str(refused.value).endswith(f"to go on with it: regard train --resume {named}")
    with pytest.raises(RecipeError) as refused:
        config.load(folder)
    assert str(refused.value).endswith(f"to go on with a run: regard train --resume {named}")


def test_somebodys_own_parts_are_named(tmp_path: Path, monkeypatch):
    """Without them the run cannot go on."""
    (tmp_path / "my parts" / "encoders").mkdir(parents=True)
    monkeypatch.setattr(parts, "_folders", [])
    assert parts.resume(Path("run")) == "regard train --resume run"
    parts.add_folder(tmp_path / "my parts")
    named = shlex.quote(str((tmp_path / "my parts").resolve()))
    assert parts.resume(Path("run")) == f"regard train --resume run --parts {named}"


def test_the_demo_can_be_tried(tmp_path: Path, capsys, monkeypatch):
    from regard.verbs import demo

    samples = [{"source": "What's this?", "output": "x", "reference": "x"}]
    monkeypatch.setattr(display, "scores", lambda *_, **__: None)
    demo._show(demo.of("translate", "en-de"), tmp_path / "my run", {}, samples, tmp_path / "a.png")
    line = next(line for line in capsys.readouterr().out.splitlines() if "echo" in line)
    folder = str(tmp_path / "my run")
    wanted = ["echo", "What's this?", "|", "regard", "predict", folder, "--format", "jsonl"]
    assert shlex.split(line) == wanted
