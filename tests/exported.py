"""Exported programs: run where neither regard nor torch is, and counted."""

import ast
import subprocess
import sys
from pathlib import Path

HIDDEN = (
    "import sys, runpy; sys.modules.update(regard=None, torch=None); "
    "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


def alone_program(folder: Path, given: str, *arguments: str) -> str:
    """What an exported folder's program says where neither regard nor torch can be imported."""
    command = [sys.executable, "-X", "utf8", "-c", HIDDEN, str(folder / "run.py"), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def code_lines(program: str) -> int:
    """Lines that have code: no blank ones, no comments, not the docstring."""
    first = ast.parse(program).body[1].lineno  # after the docstring
    lines = (line.strip() for line in program.split("\n")[first - 1 :])
    return sum(bool(line) and not line.startswith("#") for line in lines)
