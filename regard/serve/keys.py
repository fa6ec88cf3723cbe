"""API keys and rates: who asks, and how often."""

import hashlib
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from regard.errors import UserError
from regard.serve.errors import Refusal

LEAST = 16
"""Characters of a key: a shorter one can be guessed."""
KNOWN = 10_000
"""Clients whose rates are remembered."""
KEY = re.compile(r"[!-~]+")


class Keys:
    """The keys of a file, one on each line: KEY, or KEY NAME; # begins a comment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digests = _read(path)

    def reload(self) -> None:
        """Read the file again; one that cannot be read leaves all as it is, and is an error."""
        self._digests = _read(self.path)

    def who(self, key: str) -> str | None:
        """The name of the client with this key; None for a key that is not one. Every key is
        compared, each in constant time, so that time tells nothing of any of them."""
        digest, found = _digest(key), None
        for each, name in self._digests.items():
            if hmac.compare_digest(each, digest):
                found = name
        return found


def _digest(key: str) -> bytes:
    """All of one length, whatever the key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _read(path: Path) -> dict[bytes, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UserError(f"keys: {path} cannot be read: {why}") from None
    found: dict[bytes, str] = {}
    for number, line in enumerate(lines, 1):
        key, _, name = line.partition("#")[0].strip().partition(" ")
        if not key:
            continue
        if len(key) < LEAST or not KEY.fullmatch(key):
            raise UserError(
                f"keys: {path}:{number}: a key has at least {LEAST} characters of ASCII, no spaces"
            )
        found[_digest(key)] = name.strip() or f"key-{number}"
    if not found:
        raise UserError(f"keys: {path} has no key")
    return found


class Rates:
    """At most so many requests a minute of each client: a bucket of tokens, full at first, of which
    each request takes one, and which fills again evenly."""

    def __init__(self, a_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most = a_minute / 60, max(1.0, a_minute / 6)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> None:
        """One request of a client; Refusal if it has had its share."""
        if not self._rate:
            return
        now = self._clock()
        left, when = self._buckets.pop(client, (self._most, now))
        left = min(self._most, left + (now - when) * self._rate)
        self._buckets[client] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > KNOWN:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = (1 - left) / self._rate
            raise Refusal(429, "too many requests", code="rate_limit_exceeded", retry=wait)
