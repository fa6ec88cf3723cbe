"""A run's model that is opened when somebody needs it, and let go when nobody has for a while.

Where another engine serves a run, torch's weights are for the rare request that this engine cannot
answer. Whoever computes with the model holds it; it is gone once nobody does.
"""

import copy
import time
from collections.abc import Callable
from threading import Lock
from weakref import ref

from torch import nn

from regard.errors import UserError
from regard.model import Model
from regard.runs.run import Loaded


class Changed(UserError):
    """What is opened again is not what was opened at first."""


class OnDemand:
    """The model of a checkpoint: opened at once, let go by `release`, opened again by `get`."""

    def __init__(self, open_: Callable[[], Loaded]) -> None:
        self._open, self._opening = open_, Lock()
        first = open_()
        self.progress, self.sha256, self.notes = first.progress, first.sha256, first.notes
        self.device = str(first.model.device)
        self._held: Model | None = first.model
        self._known = ref(first.model)
        self._outline: Model | None = None
        self._asked = time.monotonic()

    def get(self) -> Model:
        """The model. If it has to be opened again, it must be the same version."""
        with self._opening:
            model = self._held or self._known() or self._opened_again()
            self._held, self._known = model, ref(model)
            self._asked = time.monotonic()
            return model

    def loaded(self) -> Loaded:
        """The model, with what is known of its checkpoint."""
        return Loaded(self.get(), self.progress, self.sha256, self.notes)

    def outline(self) -> Model:
        """The model; once it was let go, its parts without their weights."""
        return self._outline or self.get()

    def release(self, idle: float = 0.0) -> bool:
        """Let the model go, if nobody has asked for it for so many seconds; whether that is so.
        While somebody computes with it, it stays. Nothing is waited for."""
        if not self._opening.acquire(blocking=False):
            return False
        try:
            if self._held is None or time.monotonic() - self._asked < idle:
                return False
            self._outline = self._outline or outline(self._held)
            self._held = None
            return True
        finally:
            self._opening.release()

    def _opened_again(self) -> Model:
        """What nobody has to be told of more than that it is another one."""
        try:
            found = self._open()
        except UserError:
            raise Changed("the run cannot be opened as it was: it has to be reloaded") from None
        if found.sha256 != self.sha256:
            raise Changed("the run is another version by now: it has to be reloaded")
        return found.model


def outline(model: Model) -> Model:
    """The parts of a model, with the shapes of their weights and no memory for them."""
    bare: dict[int, object] = {}
    for parameter in model.parameters():
        bare[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), requires_grad=False)
    for buffer in model.buffers():
        bare[id(buffer)] = buffer.to("meta")
    return copy.deepcopy(model, bare)
