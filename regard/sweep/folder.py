"""The folder of a sweep.

sweep.json      what is varied, how, and how many trials there are to be
base.toml       the recipe, with the plain changes in it
journal.jsonl   optuna's storage: trials, their values, their validations
000/, 001/, …   a run for each trial
best.toml       the recipe of the best trial
sweep.png       scores over values
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w

from regard.data import whole_file
from regard.errors import RecipeError, UserError
from regard.recipe import checked, config, toml
from regard.recipe.config import Recipe
from regard.recipe.values import Range as Limits, Seed, check
from regard.runs import state
from regard.runs.finishing import lower_is_better
from regard.sweep import space
from regard.sweep.space import Space, Values

Sampler = Literal["tpe", "random"]
Pruning = Literal["median", "none"]
SETTINGS, BASE, BEST, PICTURE = "sweep.json", "base.toml", "best.toml", "sweep.png"
Trials = Annotated[int, Limits(1, 10_000)]
Processes = Annotated[int, Limits(1, 1024)]
Minutes = Annotated[float, Limits(0, 1e6, open_low=True)]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides a sweep, beside its recipe."""

    trials: int
    seed: int
    sampler: Sampler
    pruning: Pruning


@dataclass(frozen=True)
class Folder:
    """A sweep on the disk."""

    path: Path
    base: dict[str, Any]
    """The recipe's table."""
    space: Space
    settings: Settings

    @property
    def recipe(self) -> Recipe:
        return config.load(self.path / BASE)

    @property
    def metric(self) -> str:
        return str(self.recipe.train.metric)

    @property
    def lower(self) -> bool:
        return lower_is_better(self.recipe)

    def trial(self, number: int) -> Path:
        """The run of a trial."""
        return self.path / f"{number:03d}"

    def loaded(self, values: Values) -> Recipe:
        """The recipe of a trial."""
        return config.load(self.path / BASE, self.space.overrides(values))

    def write_best(self, number: int, values: Values, score: float, among: int) -> None:
        """The recipe of the best trial, which `regard train` takes."""
        changes = self.space.overrides(values)
        said = f"{self.metric} {score:.4g} in validation: trial {number:03d}, the best of {among}"
        comment = "".join(f"# {line}\n" for line in [said, *changes])
        table = config.written(self.path / BASE, changes)
        whole_file.write(self.path / BEST, f"{comment}\n{tomli_w.dumps(table)}")


def create(
    recipe: str | Path | Mapping[str, Any],
    overrides: Sequence[str],
    to: str | Path | None,
    settings: Settings,
) -> Folder:
    """The sweep of a recipe: a new folder, or the one that is there, if it is of the same. All that
    can be refused is refused now."""
    check("trials", settings.trials, Trials)
    check("seed", settings.seed, Seed)
    given = recipe if isinstance(recipe, Mapping) else Path(recipe)
    plain, varied = space.split(overrides)

    def load(changes: Sequence[str]) -> Recipe:
        both = [*plain, *changes]
        return (
            config.from_table(given, both)
            if isinstance(given, Mapping)
            else config.load(given, both)
        )

    if not load([]).train.validate_every:
        raise RecipeError("train.validate_every: 0 gives trials nothing to be compared by")
    made = space.space(varied, load)
    path = Path(to) if to else state.RUNS / f"{state.name_of(recipe)}-sweep"
    sweep = Folder(path, config.plain(config.written(given, plain)), made, settings)
    if (path / SETTINGS).is_file():
        _check_same(sweep)
    elif path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path} is there and is no sweep: name another folder by --to")
    _write(sweep)
    return sweep


def opened(path: Path, trials: int | None = None) -> Folder:
    """A sweep that is there, to go on with."""
    try:
        table = json.loads((path / SETTINGS).read_text(encoding="utf-8"))
        settings = Settings(**table["settings"])
        found = space.of_list(table["space"])
        base = toml.parse(toml.read(path / BASE))
    except FileNotFoundError:
        raise UserError(f"{path} is no sweep: it has no {SETTINGS}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path / SETTINGS} is damaged: {error}") from None
    if trials is not None:
        check("trials", trials, Trials)
        settings = replace(settings, trials=trials)
    sweep = Folder(path, base, found, settings)
    _write(sweep)
    return sweep


def _check_same(sweep: Folder) -> None:
    there = opened(sweep.path, sweep.settings.trials)
    for what, same in {
        "another recipe": there.base == sweep.base,
        "other keys or ranges": there.space == sweep.space,
        "another --seed, --sampler or --pruning": there.settings == sweep.settings,
    }.items():
        if not same:
            raise RecipeError(f"{sweep.path} is a sweep of {what}: give another folder by --to")


def _write(sweep: Folder) -> None:
    table = {"settings": asdict(sweep.settings), "space": sweep.space.as_list()}
    text = checked.written(table, indent=1) + "\n"
    file = sweep.path / SETTINGS
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return
    sweep.path.mkdir(parents=True, exist_ok=True)
    if not (sweep.path / BASE).is_file():
        whole_file.write(sweep.path / BASE, tomli_w.dumps(sweep.base))
    whole_file.write(file, text)
