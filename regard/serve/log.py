"""One line of JSON for each request, on standard error."""

import json
import sys
import time
import traceback
from contextlib import suppress
from typing import Any


def say(event: str, **about: Any) -> None:
    """A line: when, what, and all that is known of it. A log that is full or gone ends nothing."""
    entry = {"time": round(time.time(), 3), "event": event, **about}
    with suppress(OSError, ValueError):
        sys.stderr.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")
        sys.stderr.flush()


def failure(what: str, error: BaseException, **about: Any) -> None:
    """A line about what should not have happened, with all that is known of it."""
    lines = traceback.format_exception(error)
    say("error", what=what, error=type(error).__name__, trace="".join(lines), **about)
