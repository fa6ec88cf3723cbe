"""A named place in the computation that can be watched or changed from outside.

A layer calls `probe(name, tensor)` and gets the tensor back unchanged; that costs one truth test
until somebody watches. Nothing is stored on a module and no flag runs through the layers. Who
watches belongs to the thread (or asynchronous task) that does: others compute undisturbed.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

Watcher = Callable[[str, Tensor], Tensor]

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())
_path: ContextVar[tuple[str, ...]] = ContextVar("path", default=())


def probe(name: str, value: Tensor) -> Tensor:
    """`value`, or what the active watchers make of it. The full name is the scopes' path + name."""
    if watchers := _watchers.get():
        full = ".".join([*_path.get(), name])
        for watcher in watchers:
            value = watcher(full, value)
    return value


def watched() -> bool:
    """Whether somebody watches: attention then takes its explicit path, which has the weights."""
    return bool(_watchers.get())


@contextmanager
def watch(watcher: Watcher) -> Iterator[None]:
    """Let `watcher(name, tensor) → tensor` see, and if it likes replace, every probed tensor."""
    _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.set(tuple(other for other in _watchers.get() if other is not watcher))


class scope:
    """Put `name` before the names of all probes inside.

    A class, as every layer of every step of a search enters it: a generator costs three times as
    much.
    """

    __slots__ = ("_before", "_name")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._before = _path.get()
        _path.set((*self._before, self._name))

    def __exit__(self, *error: object) -> None:
        _path.set(self._before)


@contextmanager
def stacked() -> Iterator[None]:
    """Around a loop over time whose step t probes its values inside `scope(f"step.{t}")`.

    So a watcher can replace the values of any step. In the end it sees those of all steps side by
    side, by the name without the step: (R, H) each are (R, T, H), weights (B, 1, N, S) are
    (B, 1, N · T, S). The loop has passed then: to replace these changes nothing.
    """
    if not watched():
        yield
        return
    steps: dict[str, dict[int, Tensor]] = {}

    def note(name: str, value: Tensor) -> Tensor:
        if found := re.fullmatch(r"(.*\b)step\.(\d+)\.(.*)", name):
            steps.setdefault(found[1] + found[3], {})[int(found[2])] = value
        return value

    with watch(note):
        yield
    for name, values in steps.items():
        together = torch.stack([values[t] for t in sorted(values)], -2)
        for watcher in _watchers.get():
            watcher(name, together.flatten(-3, -2) if together.ndim > 3 else together)
