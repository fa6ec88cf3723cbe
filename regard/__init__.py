"""regard: sequence models that you can train, look into and ship.

import regard
run = regard.train("recipe.toml", "train.updates=1000", to="runs/mine")
run.predict(["A dog runs ."])
regard.load("runs/mine").predict(["A dog runs ."], beams=5)
"""

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` takes longer than all else here, and the command line waits for it
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from regard.front import Predictor, doctor, load, train
else:
    ModuleType = type(sys)

__version__: str
__all__ = ["Predictor", "__version__", "doctor", "load", "train"]


class _Room(ModuleType):
    """`regard.train` is a package and a function: Python has one place for both."""

    def __call__(self, *args: "Any", **options: "Any") -> "Any":
        from regard import front

        return getattr(front, self.__name__.rpartition(".")[2])(*args, **options)


for _name in ("train", "doctor"):
    import_module(f"regard.{_name}").__class__ = _Room


def __getattr__(name: str) -> "Any":
    """PyTorch takes a second to import: only when somebody trains or loads. What the version is,
    the installed package says."""
    if name == "__version__":
        from importlib.metadata import version

        return version("regard")
    if name in ("Predictor", "load"):
        from regard import front

        return getattr(front, name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
