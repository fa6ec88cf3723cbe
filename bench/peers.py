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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import UserError

HERE = Path(__file__).parent
HOME = HERE.parent / ".bench"

ENVIRONMENTS = {
    # Wheels that others than its makers have built; what it asks for (pybind11) is built in.
    "fasttext": ["numpy==2.4.6", "setuptools==84.2.1"],
    "gensim": ["gensim==4.4.0", "numpy==2.4.6", "scipy==1.17.1"],
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
ALONE = {"fasttext": ["fasttext-wheel==0.9.2"], "joeynmt": ["joeynmt==2.3.0"]}
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
        print(f"making the environment of {environment} in {folder}", flush=True)
        try:
            venv.create(folder, clear=True, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(f"no virtual environment in {folder}: {error}") from None
        _install(interpreter, "-c", str(HERE.parent / "constraints.txt"), *packages)
        if alone:
            _install(interpreter, "--no-deps", *alone)
        done.write_text(wanted, encoding="utf-8")
    return str(interpreter)


def _install(interpreter: Path, *what: str) -> None:
    """Let pip install this; of all that it says only why it could not is of interest."""
    command = [str(interpreter), "-m", "pip", "install", "--quiet", *what]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        reasons = [line for line in done.stdout.splitlines() if line.startswith("ERROR: ")]
        why = reasons[-1].removeprefix("ERROR: ") if reasons else f"code {done.returncode}"
        raise Unavailable(f"pip could not install it: {why}")


@dataclass
class Peer:
    """A contestant that is running."""

    name: str
    process: subprocess.Popen[str]
    ready: dict[str, Any]
    rounds: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def start(cls, contestant: "Contestant") -> "Peer":
        """Start a script of `bench/contestants` and wait until it is set up."""
        script = str(HERE / "contestants" / contestant.script)
        command = [python(contestant.environment), script, json.dumps(contestant.options)]
        log = log_of(contestant.name)
        with log.open("w") as said:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=HERE.parent,
                env=os.environ | contestant.variables,
            )
        peer = cls(contestant.name, process, {})
        peer.ready = peer._answer()
        return peer

    def round(self) -> dict[str, Any]:
        """One round of work."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # if it has stopped, there is no answer
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        self.rounds.append(self._answer())
        return self.rounds[-1]

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                if "unable" in answer:
                    raise Unavailable(answer["unable"])
                return answer
        code, log = self.process.wait(), log_of(self.name)
        last = log.read_text(errors="replace").strip().rpartition("\n")[2]
        raise Unavailable(f"it stopped with code {code}: {last} ({log} has all that it said)")

    def stop(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def rates(self) -> list[float]:
        """Tokens (or sentences, or whatever is counted) per second of each round."""
        return [r["tokens"] / r["seconds"] for r in self.rounds]


def log_of(name: str) -> Path:
    """What a contestant and its libraries write beside their answers."""
    folder = HOME / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name.replace(', ', '-').replace(' ', '-')}.txt"


@dataclass(frozen=True)
class Contestant:
    """Who is to take part: a script of `bench/contestants`, its environment and its options."""

    name: str
    script: str
    options: dict[str, Any]
    environment: str = "own"
    variables: dict[str, str] = field(default_factory=dict)
    """Of the process, beside those that it inherits."""
    needed: bool = True
    """Whether a benchmark without it is not complete."""


@dataclass
class Race:
    """Who takes part in a benchmark, and why others cannot."""

    peers: list[Peer] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    complete: bool = True

    def drop(self, contestant: Contestant, reason: Unavailable) -> None:
        """Go on without a contestant; without regard there is nothing to compare."""
        if contestant.name.startswith("regard"):
            raise UserError(f"{contestant.name} cannot take part: {reason}")
        self.absent[contestant.name] = str(reason)
        self.complete = self.complete and not contestant.needed
        self.peers = [peer for peer in self.peers if peer.name != contestant.name]


def race(
    contestants: list[Contestant],
    rounds: int,
    seconds: float,
    after: Callable[[int, list[Peer]], None] = lambda number, peers: None,
) -> Race:
    """Rounds in turn, until there are enough or the time is up; the order changes every time.

    `after` is called after each round with its number, from 1.
    """
    found = Race()
    try:
        for contestant in contestants:
            try:
                found.peers.append(Peer.start(contestant))
            except Unavailable as reason:
                found.drop(contestant, reason)
        _run(found, contestants, rounds, seconds, after)
    finally:
        for peer in found.peers:
            peer.stop()
    return found


def _run(
    found: Race,
    contestants: list[Contestant],
    rounds: int,
    seconds: float,
    after: Callable[[int, list[Peer]], None],
) -> None:
    named = {contestant.name: contestant for contestant in contestants}
    start = time.perf_counter()
    for number in range(rounds):
        turn = number % len(found.peers)
        for peer in found.peers[turn:] + found.peers[:turn]:
            try:
                peer.round()
            except Unavailable as reason:
                found.drop(named[peer.name], reason)
        after(number + 1, found.peers)
        if time.perf_counter() - start > seconds:
            break
