"""Ctrl-C, `kill`, and a terminal that is gone."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""The last is Windows' Ctrl-Break, which has no SIGHUP."""
STOPS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Whether a signal to stop came: the update in hand is finished first. A second one raises
    KeyboardInterrupt at once. What is ignored (`nohup`) stays so."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = {}
    try:
        for stop in STOPS:
            # None: somebody set it elsewhere than in Python, where it could not be put back.
            if signal.getsignal(stop) not in (signal.SIG_IGN, None):
                before[stop] = signal.signal(stop, ask)
    except ValueError:  # not the main thread: the host program owns the signals
        pass
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
