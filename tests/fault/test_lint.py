"""Whatever could run code that is in a file is banned, and the ban works."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def findings(source: str) -> str:
    """What the project's own rules say of a module of the package."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "concise", "--no-cache"]
    command += ["--stdin-filename", "regard/data/mine.py", "-"]
    ended = subprocess.run(command, input=source, cwd=PROJECT, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("import pickle", "TID251"),
        ("from pickle import loads", "TID251"),
        ("import _pickle", "TID251"),
        ("import dill", "TID251"),
        ("import cloudpickle", "TID251"),
        ("import joblib", "TID251"),
        ("import shelve", "TID251"),
        ("import marshal", "TID251"),
        ("import torch\n\ntorch.load('x')", "TID251"),
        ("from torch import load", "TID251"),
        ("import torch\n\ntorch.save(1, 'x')", "TID251"),
        ("import torch\n\ntorch.jit.load('x')", "TID251"),
        ("import torch\n\ntorch.hub.load('x', 'y')", "TID251"),
        ("import torch\n\ntorch.package.PackageImporter('x')", "TID251"),
        ("import pandas as pd\n\npd.read_pickle('x')", "TID251"),
        ("import yaml\n\nyaml.load('x')", "S506"),
        ("import yaml\n\nyaml.unsafe_load('x')", "TID251"),
        ("import yaml\n\nyaml.full_load('x')", "TID251"),
        ("x = eval('1')", "S307"),
        ("exec('1')", "S102"),
        ("import subprocess\n\nsubprocess.run('ls', shell=True)", "S602"),
        ("import os\n\nos.system('ls')", "S605"),
    ],
)
def test_it_is_banned(line: str, rule: str):
    assert rule in findings(f"{line}\n"), f"{line!r} is let through"


def test_nothing_is_let_through_by_a_comment():
    """The rules may be switched off for a line only where they are not about safety."""
    unsafe = ("TID251", "S102", "S301", "S302", "S307", "S506", "S602", "S604", "S605")
    for path in sorted((PROJECT / "regard").rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            _, mark, rules = line.partition("# noqa")
            assert not mark or rules.startswith(":"), f"{path}:{number}: a ban of all rules is off"
            assert not any(rule in rules for rule in unsafe), f"{path}:{number}: {rules}"


def test_arrays_are_never_read_with_pickles_allowed():
    """ruff has no rule for it; of itself, numpy does not."""
    for path in sorted((PROJECT / "regard").rglob("*.py")):
        assert "allow_pickle=True" not in path.read_text(encoding="utf-8"), path
