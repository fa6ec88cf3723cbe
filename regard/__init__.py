"""regard: sequence models that you can train, look into and ship.

import regard
model = regard.train("recipe.toml", "train.updates=1000", to="runs/mine")
model.predict(["A dog runs ."])
regard.evaluate("runs/mine")
regard.load("runs/mine").predict(["A dog runs ."], beams=5)
"""

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` takes longer than all else here, and the command line waits for it
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from regard.door import (
        compare,
        doctor,
        evaluate,
        export,
        inspect,
        load,
        plan,
        predict,
        sweep,
        train,
        word2vec,
    )
    from regard.front import Predictor as Predictor
else:
    ModuleType = type(sys)

__version__: str
__all__ = [
    "compare", "doctor", "evaluate", "export", "inspect", "load", "plan", "predict", "sweep",
    "train", "word2vec",
]  # fmt: skip
_ROOMS = {"compare", "doctor", "inspect", "plan", "sweep", "train", "word2vec"}
"""Functions that share their name with a module: Python has one place for both."""


class _Room(ModuleType):
    # A module that can be called: it has the function's docstring and signature, too.

    def __call__(self, *args: "Any", **options: "Any") -> "Any":
        return _function(self)(*args, **options)

    __doc__ = property(lambda self: _function(self).__doc__)

    @property
    def __signature__(self) -> "Any":
        from inspect import signature

        return signature(_function(self))


class _Package(ModuleType):
    """The package: where the import system puts a room that is a function, too, it can be called
    from then on, by whatever it was imported."""

    def __setattr__(self, name: str, value: "Any") -> None:
        if name in _ROOMS and isinstance(value, ModuleType):
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def _function(room: "Any") -> "Any":
    from regard import door

    return getattr(door, room.__name__.rpartition(".")[2])


def __getattr__(name: str) -> "Any":
    """PyTorch takes a second to import: only when somebody trains or loads. What the version is,
    the installed package says."""
    if name == "__version__":
        from importlib.metadata import version

        return version("regard")
    if name in _ROOMS:
        return import_module(f"regard.{name}")
    if name in __all__:
        return getattr(import_module("regard.door"), name)
    if name == "Predictor":
        return import_module("regard.front").Predictor
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return ["__version__", *__all__]
