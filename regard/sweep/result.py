"""What a sweep has found."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.console.tables import Block, Shown
from regard.recipe.parts import with_parts
from regard.sweep.folder import BEST, PICTURE, Folder
from regard.sweep.study import Trial


@dataclass(frozen=True, repr=False)
class Result(Shown):
    """The trials of a sweep, by their numbers; it prints as a table, the best first."""

    sweep: Folder
    trials: Sequence[Trial]

    @property
    def folder(self) -> Path:
        return self.sweep.path

    @cached_property
    def ranked(self) -> list[Trial]:
        """Finished trials, the best first; of equals the earlier."""
        finished = [each for each in self.trials if each.state == "finished"]
        sign = 1 if self.sweep.lower else -1
        return sorted(finished, key=lambda each: (sign * (each.score or 0.0), each.number))

    @property
    def best(self) -> Trial | None:
        return self.ranked[0] if self.ranked else None

    @property
    def recipe(self) -> Path | None:
        """best.toml, which `regard train` takes."""
        return self.folder / BEST if self.best else None

    def write_best(self) -> None:
        """best.toml."""
        if (best := self.best) is not None and best.score is not None:
            self.sweep.write_best(best.number, best.values, best.score, len(self.trials))

    def picture(self, path: str | Path | None = None) -> Path | None:
        """Scores over the values of each key, as sweep.png or another .png or .svg; None where no
        trial has a score."""
        from regard.plots import drawing, sweep as drawn

        scored = [each for each in self.trials if each.score is not None]
        if not scored:
            return None
        found = [
            drawn.Point(each.values, each.score or 0.0, each.state == "pruned") for each in scored
        ]
        best = scored.index(self.best) if self.best else None
        logs = {each.key: getattr(each, "log", False) for each in self.sweep.space}
        place = Path(path) if path else self.folder / PICTURE
        drawing.save(drawn.sweep(found, logs, self.sweep.metric, best), place)
        return place

    def blocks(self) -> list[Block]:
        keys = [each.key for each in self.sweep.space]
        others = [each for each in self.trials if each.state != "finished"]
        rows = [
            (
                f"{each.number:03d}",
                *(_cell(each.values.get(key)) for key in keys),
                "" if each.score is None else f"{each.score:.4g}",
                each.note or each.state,
            )
            for each in [*self.ranked, *others]
        ]
        short = [_short(key, keys) for key in keys]
        return [Block(("trial", *short, self.sweep.metric, "state"), rows, "", self._notes())]

    def _notes(self) -> list[str]:
        if self.best is None:
            return ["", "no trial is finished"]
        few = [self.sweep.trial(each.number) for each in self.ranked[:3]]
        first = self.sweep.trial(0)
        if self.trials[0].state == "finished" and first not in few:
            few.append(first)
        notes = ["", f"best recipe: {self.folder / BEST}"]
        if (self.folder / PICTURE).is_file():
            notes.append(f"picture:     {self.folder / PICTURE}")
        if len(few) > 1:
            notes.append(f"test scores: {with_parts('compare', *few)}")
        return notes

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "folder": str(self.folder),
            "metric": self.sweep.metric,
            "lower_is_better": self.sweep.lower,
            "best": None if self.best is None else self.best.number,
            "recipe": None if self.recipe is None else str(self.recipe),
            "trials": [
                {
                    "trial": each.number,
                    "run": str(self.sweep.trial(each.number)),
                    "values": each.values,
                    "state": each.state,
                    "score": each.score,
                    "validations": [value for _, value in sorted(each.validations.items())],
                    "note": each.note,
                }
                for each in self.trials
            ],
        }


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _short(key: str, keys: Sequence[str]) -> str:
    """The last name of a key, where that says which it is."""
    last = key.rpartition(".")[2]
    unique = sum(1 for other in keys if other.rpartition(".")[2] == last) == 1
    return last if unique and last != "kind" else key
