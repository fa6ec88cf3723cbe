"""Contestants: each runs in a process, and where it must in a virtual environment, of its own.

A contestant is a script that prints a line `{"ready": …}` when it is set up, and then, for each
line that it reads, does one round of work and prints `{"tokens": …, "seconds": …}`. So rounds can
be interleaved, and only one contestant works at a time.
"""

import json
import os
import subprocess
import sys
import time
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HOME = HERE.parent / ".bench"

ENVIRONMENTS = {
    "huggingface": ["torch==2.13.0", "transformers==5.22.2", "numpy==2.4.6", "safetensors==0.8.0"],
    # What Joey NMT imports in training: its own list leaves importlib_metadata out, asks for a
    # protobuf of 2022 and a sentencepiece of any version, and brings linters and plots along.
    "joeynmt": [
        "torch==2.13.0",
        "numpy==2.4.6",
        "importlib_metadata==10.2.0",
        "matplotlib==3.11.2",
        "packaging==26.3",
        "PyYAML==6.0.3",
        "sacrebleu==2.6.0",
        "sentencepiece==0.2.0",
        "subword-nmt==0.3.8",
        "tensorboard==2.21.0",
        "tqdm==4.70.1",
    ],
}
ALONE = {"joeynmt": ["joeynmt==2.3.0"]}
"""What is installed without what it asks for."""


class Unavailable(Exception):
    """A contestant that cannot take part, and why."""


def python(environment: str) -> str:
    """The interpreter of an environment, which is made if it is not there."""
    if environment == "own":
        return sys.executable
    folder = HOME / "venvs" / environment
    interpreter = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = folder / "done.txt"
    packages, alone = ENVIRONMENTS[environment], ALONE.get(environment, [])
    wanted = "\n".join(packages + alone)
    if not done.exists() or done.read_text(encoding="utf-8") != wanted:
        print(f"making the environment of {environment} in {folder}")
        venv.create(folder, clear=True, with_pip=True)
        install = [str(interpreter), "-m", "pip", "install", "--quiet"]
        try:
            constraints = str(HERE.parent / "constraints.txt")
            subprocess.run([*install, "-c", constraints, *packages], check=True)
            if alone:
                subprocess.run([*install, "--no-deps", *alone], check=True)
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"pip could not install it (code {error.returncode})") from None
        done.write_text(wanted, encoding="utf-8")
    return str(interpreter)


@dataclass
class Peer:
    """A contestant that is running."""

    name: str
    process: subprocess.Popen[str]
    ready: dict[str, Any]
    rounds: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def start(cls, name: str, script: str, environment: str, options: dict[str, Any]) -> "Peer":
        """Start a script of `bench/contestants` and wait until it is set up."""
        command = [python(environment), str(HERE / "contestants" / script), json.dumps(options)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent
        )
        peer = cls(name, process, {})
        peer.ready = peer._answer()
        return peer

    def round(self) -> dict[str, Any]:
        """One round of work."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.rounds.append(self._answer())
        return self.rounds[-1]

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise Unavailable(f"it stopped with code {self.process.wait()}")

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def rates(self) -> list[float]:
        """Tokens (or sentences, or whatever is counted) per second of each round."""
        return [r["tokens"] / r["seconds"] for r in self.rounds]


@dataclass(frozen=True)
class Contestant:
    """Who is to take part: a script of `bench/contestants`, its environment and its options."""

    name: str
    script: str
    options: dict[str, Any]
    environment: str = "own"


def start(contestants: list[Contestant]) -> tuple[list[Peer], dict[str, str]]:
    """All that can be started, and why the others cannot."""
    peers, absent = [], {}
    for c in contestants:
        try:
            peers.append(Peer.start(c.name, c.script, c.environment, c.options))
        except Unavailable as reason:
            absent[c.name] = str(reason)
    return peers, absent


def race(peers: list[Peer], rounds: int, seconds: float) -> None:
    """Rounds in turn, until there are enough or the time is up; the order changes every time."""
    start = time.perf_counter()
    for number in range(rounds):
        turn = number % len(peers)
        for peer in peers[turn:] + peers[:turn]:
            peer.round()
        if time.perf_counter() - start > seconds:
            break
    for peer in peers:
        peer.stop()
