"""A named place in the computation that can be watched or changed from outside.

A layer calls `probe(name, tensor)` and gets the tensor back unchanged; that costs one truth test
until somebody watches. Nothing is stored on a module and no flag runs through the layers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

Watcher = Callable[[str, Tensor], Tensor]

_watchers: list[Watcher] = []
_path: list[str] = []


def probe(name: str, value: Tensor) -> Tensor:
    """`value`, or what the active watchers make of it. The full name is the scopes' path + name."""
    if _watchers:
        full = ".".join([*_path, name])
        for watcher in _watchers:
            value = watcher(full, value)
    return value


def watched() -> bool:
    """Whether somebody watches: attention then takes its explicit path, which has the weights."""
    return bool(_watchers)


@contextmanager
def watch(watcher: Watcher) -> Iterator[None]:
    """Let `watcher(name, tensor) → tensor` see, and if it likes replace, every probed tensor."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Put `name` before the names of all probes inside."""
    _path.append(name)
    try:
        yield
    finally:
        _path.pop()
