"""regard: sequence models that you can train, look into and ship.

import regard
run = regard.train("recipe.toml", "train.updates=1000", to="runs/mine")
run.predict(["A dog runs ."])
regard.load("runs/mine").predict(["A dog runs ."], beams=5)
"""

from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.front import Predictor, doctor, load, train

__version__ = version("regard")
__all__ = ["Predictor", "__version__", "doctor", "load", "train"]


class _Room(ModuleType):
    """`regard.train` is a package and a function: Python has one place for both."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from regard import front

        return getattr(front, self.__name__.rpartition(".")[2])(*args, **options)


for _name in ("train", "doctor"):
    import_module(f"regard.{_name}").__class__ = _Room


def __getattr__(name: str) -> Any:
    """PyTorch takes a second to import: only when somebody trains or loads."""
    if name in ("Predictor", "load"):
        from regard import front

        return getattr(front, name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
