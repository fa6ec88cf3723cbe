"""Several processes that share one socket, each a whole server; the first looks after them.

A process takes connections once it has loaded its models, so that none is refused while another is
ready. One that ends although nobody asked it to is started again, after pauses that grow where it
ends early again and again; if none can even begin, all end. SIGTERM and SIGHUP are handed on.
Processes whose first one is gone, however it went, end as after SIGTERM. Figures for Prometheus are
in files that all of them share.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from tempfile import TemporaryDirectory
from types import FrameType

from prometheus_client import multiprocess

from regard.errors import UserError
from regard.serve import log
from regard.serve.metrics import SHARED
from regard.serve.settings import Settings

SOCKET = "REGARD_SERVE_SOCKET"
"""The environment's name for the number of the socket."""
READY = "REGARD_SERVE_READY"
"""… and for that of a pipe into which a process writes once it has loaded its models."""
EARLY = 60.0
"""Seconds: a process that ends before is replaced after a pause, twice as long each time …"""
PAUSES = (1.0, 60.0)
"""… the first of these at first, the second at most."""
EXTRA = 10.0
"""Seconds beyond the grace after which a process is killed."""


def inherited() -> socket.socket | None:
    """The socket that this process has from the one that started it."""
    number = os.environ.pop(SOCKET, "")
    return socket.socket(fileno=int(number)) if number.isdecimal() else None


def tell_ready() -> None:
    """Let the process that started this one know that the models are loaded."""
    number = os.environ.pop(READY, "")
    if number.isdecimal():
        with suppress(OSError):
            os.write(int(number), b".")
            os.close(int(number))


def orphaned(parent: int) -> bool:
    """Whether the process that started this one is gone."""
    return os.getppid() != parent


def supervise(listening: socket.socket, settings: Settings) -> None:
    """Start the processes, and see to it that they run until SIGTERM or Ctrl-C."""
    if os.name == "nt":
        raise UserError("workers: processes that share a socket need another system than Windows")
    command = [sys.executable, "-m", "regard", *sys.argv[1:]]
    with TemporaryDirectory(prefix="regard-serve-", ignore_cleanup_errors=True) as folder:
        _Supervisor(listening, settings, command, folder).run()


class _Place:
    """One of the processes: it, and those that take its place."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.ready = self.refused = False
        """Whether the process has loaded its models; whether the one before said why it cannot."""
        self.due = 0.0
        """When the next may be started."""
        self._begun, self._early, self._pipe = 0.0, 0, -1

    def start(self, command: Sequence[str], listening: int, environment: dict[str, str]) -> None:
        self._pipe, theirs = os.pipe()
        os.set_blocking(self._pipe, False)
        self.process = subprocess.Popen(
            command,
            pass_fds=(listening, theirs),
            env={**environment, SOCKET: str(listening), READY: str(theirs)},
        )
        os.close(theirs)
        self._begun, self.ready, self.refused = time.monotonic(), False, False

    def look(self) -> int | None:
        """How the process has ended, if it has now."""
        if self.process is None:
            return None
        with suppress(BlockingIOError):
            self.ready |= bool(os.read(self._pipe, 1))
        code = self.process.poll()
        if code is not None:
            self._ended(code)
        return code

    def _ended(self, code: int) -> None:
        os.close(self._pipe)
        now = time.monotonic()
        self._early = self._early + 1 if now - self._begun < EARLY else 0
        first, most = PAUSES
        self.due = now + (min(first * 2 ** (self._early - 1), most) if self._early else 0)
        self.process, self.refused = None, code == 1 and not self.ready


class _Supervisor:
    def __init__(
        self, listening: socket.socket, settings: Settings, command: Sequence[str], folder: str
    ) -> None:
        """`command` starts a process; in `folder` all have their figures."""
        self._socket, self._settings = listening, settings
        self._command, self._folder = command, folder
        self._ending = self._ever_ready = False
        self._places = [_Place() for _ in range(settings.workers)]

    def run(self) -> None:
        for name, act in (("SIGTERM", self._end), ("SIGINT", self._end), ("SIGHUP", self._renew)):
            signal.signal(getattr(signal, name), act)
        while not self._ending:
            self.look()
            time.sleep(0.1)
        self._wait()

    def look(self) -> None:
        """Start what is to be started. Where no process could ever begin, one has said why."""
        for place in self._places:
            number = place.process.pid if place.process else 0
            if (code := place.look()) is not None:
                multiprocess.mark_process_dead(number, self._folder)  # type: ignore[no-untyped-call]
                log.say("worker ended", process=number, code=code)
            self._ever_ready |= place.ready
        if not self._ever_ready and all(place.refused for place in self._places):
            raise SystemExit(1)
        for place in self._places:
            waits = place.refused and not self._ever_ready  # for another to show that it can be
            if place.process is None and not waits and place.due <= time.monotonic():
                self._start(place)

    def _start(self, place: _Place) -> None:
        place.start(self._command, self._socket.fileno(), {**os.environ, SHARED: self._folder})
        assert place.process is not None
        log.say("worker started", process=place.process.pid)
        if self._ending:  # a signal that came meanwhile has not reached it
            place.process.terminate()

    @property
    def _processes(self) -> list["subprocess.Popen[bytes]"]:
        return [place.process for place in self._places if place.process is not None]

    def _signal(self, number: int) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(number)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ending = True
        self._signal(signal.SIGTERM)

    def _renew(self, number: int, frame: FrameType | None) -> None:
        self._signal(number)

    def _wait(self) -> None:
        end = time.monotonic() + self._settings.grace + EXTRA
        for process in self._processes:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
