"""Ctrl-C, `kill`, and a terminal that is gone."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOPS = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]


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
            if signal.getsignal(stop) != signal.SIG_IGN:
                before[stop] = signal.signal(stop, ask)
    except ValueError:  # not the main thread: the host program owns the signals
        pass
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
