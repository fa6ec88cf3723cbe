"""The program of an exported folder, run as its users run it."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.errors import UserError

PROGRAM = "run.py"


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    for name, content in texts.items():
        (folder / name).write_text(content, encoding="utf-8", newline="\n")


def run_program(folder: Path, lines: Sequence[str], *arguments: str) -> str:
    """What it says to these lines, in a process of its own."""
    command = [sys.executable, "-X", "utf8", str(folder / PROGRAM), *arguments]
    given = "".join(f"{line}\n" for line in lines).encode()
    done = subprocess.run(command, input=given, capture_output=True)
    if done.returncode:
        what = done.stderr.decode(errors="replace").strip().splitlines()
        raise UserError(f"the exported program cannot be run: {what[-1] if what else 'no message'}")
    return done.stdout.decode()
