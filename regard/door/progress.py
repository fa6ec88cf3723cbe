"""How training goes on, in a notebook or on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.console.tables import Block, as_html
from regard.errors import UserError
from regard.recipe import config
from regard.verbs import display

SECONDS = 0.5
"""Between two pictures of it."""
ROWS = 12
"""Validations that are shown."""
PLACES = ("kind", "update", "tokens")
Record = dict[str, Any]


@contextmanager
def shown(
    asked: bool | None, recipe: Any, overrides: Sequence[str], resume: Any
) -> Iterator[Callable[[Record], None] | None]:
    """What is given each record: in a notebook it draws, on a terminal it prints."""
    notebook = in_notebook()
    if asked is False or (asked is None and not notebook):
        yield None
    elif notebook:
        view = View(planned(recipe, overrides, resume))
        yield view.record
        view.draw()
    else:
        yield lambda record: display.errors.print(display.line(record))


def in_notebook() -> bool:
    """Whether Jupyter runs this; nothing is imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def planned(recipe: Any, overrides: Sequence[str], resume: Any) -> int | None:
    """Updates that a training has; None where something else ends it, or is wrong with it, which
    the training says."""
    with suppress(UserError, OSError):
        if resume is not None:
            loaded = config.load(Path(resume) / "recipe.toml", of_run=True)
        elif recipe is None:
            return None
        elif isinstance(recipe, Mapping):
            loaded = config.from_table(recipe, overrides)
        else:
            loaded = config.load(Path(recipe), overrides)
        train = loaded.train
        epochs = train.epochs and resume is None  # a run has them in updates
        return None if epochs or train.minutes or train.tokens else int(train.updates)
    return None


class View:
    """A bar, the last figures, the validations and what was warned of; drawn over and over in one
    place. IPython alone is needed, no widgets."""

    def __init__(self, updates: int | None) -> None:
        self._updates = updates
        self._line, self._update = "preparing …", 0
        self._validations: list[Record] = []
        self._samples: list[str] = []
        self._warnings: list[str] = []
        self._handle: Any = None
        self._drawn = 0.0
        self.draw()

    def record(self, record: Record) -> None:
        """Take a record up."""
        self._update = max(self._update, int(record.get("update", 0)))
        if record["kind"] == "validation":
            self._validations.append(record)
        elif record["kind"] == "samples":
            self._samples = display.samples(record)
        elif record["kind"] in ("train", "start") and "text" not in record:
            self._line = display.line(record)
        elif "text" in record:
            self._warnings.append(str(record["text"]))
        if record["kind"] != "train" or time.monotonic() - self._drawn > SECONDS:
            self.draw()

    def draw(self) -> None:
        """Show what there is now."""
        ipython = import_module("IPython.display")
        page = ipython.HTML(self.html())
        if self._handle is None:
            self._handle = ipython.display(page, display_id=True)
        else:
            self._handle.update(page)
        self._drawn = time.monotonic()

    def html(self) -> str:
        """All of it."""
        bar = ""
        if self._updates:
            bar = f"<progress value='{self._update}' max='{self._updates}'></progress> "
            bar += f"{self._update:,} of {self._updates:,} updates"
        lines = [f"<div>{bar}</div>", f"<div>{escape(self._line)}</div>"]
        if self._validations:
            names = [name for name in self._validations[-1] if name not in PLACES]
            rows = [
                (f"{each['update']:,}", *(_cell(each.get(name)) for name in names))
                for each in self._validations[-ROWS:]
            ]
            lines.append(as_html(Block(("update", *names), rows, "validation")))
        lines += [f"<div>{escape(text)}</div>" for text in self._samples]
        lines += [f"<div>warning: {escape(text)}</div>" for text in self._warnings]
        return "\n".join(lines)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value or "")
