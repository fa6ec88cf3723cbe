"""Several processes that share one socket, each a whole server; the first looks after them.

A process takes connections once it has loaded its models, so that none is refused while another is
ready. One that ends although nobody asked it to is started again. SIGTERM and SIGHUP are handed on.
Processes whose first one is gone, however it went, end as after SIGTERM.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from types import FrameType

from regard.errors import UserError
from regard.serve import log
from regard.serve.settings import Settings

SOCKET = "REGARD_SERVE_SOCKET"
"""The environment's name for the number of the socket."""
PAUSE = 1.0
"""Seconds before a process is started in the place of one that ended at once."""
EXTRA = 10.0
"""Seconds beyond the grace after which a process is killed."""


def inherited() -> socket.socket | None:
    """The socket that this process has from the one that started it."""
    number = os.environ.pop(SOCKET, "")
    return socket.socket(fileno=int(number)) if number.isdecimal() else None


def orphaned(parent: int) -> bool:
    """Whether the process that started this one is gone."""
    return os.getppid() != parent


def supervise(listening: socket.socket, settings: Settings) -> None:
    """Start the processes, and see to it that they run until SIGTERM or Ctrl-C."""
    if os.name == "nt":
        raise UserError("workers: processes that share a socket need another system than Windows")
    _Supervisor(listening, settings).run()


class _Supervisor:
    def __init__(self, listening: socket.socket, settings: Settings) -> None:
        self._socket, self._settings = listening, settings
        self._ending = False
        self._begun: dict[subprocess.Popen[bytes], float] = {}

    def run(self) -> None:
        for name, act in (("SIGTERM", self._end), ("SIGINT", self._end), ("SIGHUP", self._renew)):
            signal.signal(getattr(signal, name), act)
        for _ in range(self._settings.workers):
            self._start()
        while not self._ending:
            time.sleep(0.1)
            for process in [each for each in self._begun if each.poll() is not None]:
                self._ended(process)
        self._wait()

    def _start(self) -> None:
        number = self._socket.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "regard", *sys.argv[1:]],
            pass_fds=(number,),
            env={**os.environ, SOCKET: str(number)},
        )
        self._begun[process] = time.monotonic()
        log.say("worker started", process=process.pid)
        if self._ending:  # a signal that came meanwhile has not reached it
            process.terminate()

    def _ended(self, process: "subprocess.Popen[bytes]") -> None:
        """Another in its place; one that could not even begin tells why, and ends all."""
        lived = time.monotonic() - self._begun.pop(process)
        log.say("worker ended", process=process.pid, code=process.returncode)
        if process.returncode == 1 and lived < 60 and not self._begun:
            raise SystemExit(1)
        if process.returncode == 1 and lived < 60:
            return
        time.sleep(PAUSE if lived < PAUSE else 0)
        self._start()

    def _signal(self, number: int) -> None:
        for process in self._begun:
            if process.poll() is None:
                process.send_signal(number)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ending = True
        self._signal(signal.SIGTERM)

    def _renew(self, number: int, frame: FrameType | None) -> None:
        self._signal(number)

    def _wait(self) -> None:
        end = time.monotonic() + self._settings.grace + EXTRA
        for process in self._begun:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
