"""Verbs that make a model: train, gather, doctor, demo."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from regard.console import streams
from regard.errors import RecipeError
from regard.verbs.common import (
    INTERRUPTED,
    Flag,
    Folder,
    From,
    Maybe,
    Override,
    Parts,
    add_parts,
    say,
)


def train(
    recipe: Positional[Maybe[Path]] = None,
    overrides: Positional[Override] = (),
    *,
    to: Maybe[Path] = None,
    resume: Maybe[Path] = None,
    start_from: From = None,
    seeds: Maybe[int] = None,
    processes: Maybe[int] = None,
    parts: Parts = None,
    profile: Flag = False,
    json: Flag = False,
) -> None:
    """Train a recipe, or go on with a run.

    Examples:
      regard train multi30k-en-de
      regard train mine.toml train.updates=2000 model.dim=256 --to runs/mine
      regard train --resume runs/mine
      regard train new-data.toml --from runs/mine
      regard train mine.toml --seeds 3
      regard train mine.toml --processes 2
      regard train multi30k-en-de --profile

    Args:
        recipe: A recipe's file, or the name of a shipped one.
        overrides: Changes to the recipe: train.updates=100, 'data.train=["a.en", "a.de"]'.
        to: The folder of the new run; otherwise runs/NAME, or runs/NAME-2 if that is finished.
        resume: A run to go on with, exactly where it stopped.
        start_from: A run to begin with, of this task or another: the same as model.weights=RUN. For
            single parts of it: model.encoder.weights=RUN.
        seeds: Train so many seeds, from the recipe's own on, into runs/NAME-seed1, …; report mean
            and deviation. Finished ones are kept, unfinished ones go on.
        processes: Train by so many processes on this machine, each with a share of its cores or a
            GPU of its own. For many machines: torchrun … -m regard train RECIPE.
        profile: Train nothing: run some updates and say where their time goes.
        json: Every record as a line of JSON on stdout.
    """
    _check_named(recipe)
    if (recipe is None) == (resume is None):
        raise RecipeError("train: give either a recipe or --resume RUN")
    if resume is not None and (overrides or to or start_from):
        raise RecipeError("train: --resume goes on with a run as it is, without changes")
    if profile and (to or start_from):
        raise RecipeError("train: --profile leaves no run behind, and begins with new weights")
    if seeds is not None:
        if recipe is None or profile:
            raise RecipeError("train: --seeds needs a recipe, and neither --resume nor --profile")
        add_parts(parts)
        _seeds(recipe, overrides, to, seeds, start_from, processes, as_json=json)
        return
    add_parts(parts)
    if profile:
        if processes is not None:
            raise RecipeError("train: --profile looks at one process")
        _profile(recipe, overrides, resume, as_json=json)
        return
    if processes is not None:
        _launch(processes, recipe, overrides, to, resume, start_from, parts, as_json=json)
        return
    _train(recipe, overrides, to, resume, start_from, as_json=json)


def _train(
    recipe: Path | None,
    overrides: Sequence[str],
    to: Path | None,
    resume: Path | None,
    start_from: Path | None,
    *,
    as_json: bool,
) -> None:
    """Train, by one process, or as one of many."""
    from regard import runs
    from regard.runs.training import ALONE
    from regard.train import processes as many
    from regard.verbs import processes

    def make() -> tuple[runs.Run, list[dict[str, Any]]]:
        again = resume or _begun(recipe, overrides, to, start_from)
        return _opened(recipe, overrides, to, again, start_from)

    if not many.is_one_of_many():
        _work(*make(), ALONE, as_json=as_json)
        return
    try:
        group = many.join(processes.timeout(recipe, overrides, resume))
        _work(*processes.opened(group, make), group, as_json=as_json)
    except many.Lost as error:
        streams.warn(str(error))
        sys.exit(processes.LOST)


def _work(run: Any, warnings: list[dict[str, Any]], group: Any, *, as_json: bool) -> None:
    """Train a run; of a group, rank 0 shows how it goes."""
    from regard import runs
    from regard.verbs import display

    if group.rank:
        progress = runs.train(run, group=group)
    else:
        with display.training(run, as_json=as_json) as (show, tick):
            for warning in warnings:
                show(warning)
            progress = runs.train(run, [show], tick, group)
        display.summary(run, progress)
    group.close()
    if not progress.finished:
        sys.exit(INTERRUPTED)


def _begun(
    recipe: Path | None, overrides: Sequence[str], to: Path | None, start_from: Path | None
) -> Path | None:
    """The run to go on with where processes that were lost are started again: that which they had
    made, or begun to make. torchrun does not always say so: then it is a run of the same recipe."""
    from regard import front
    from regard.runs import preparing, state
    from regard.train.processes import is_elastic, restarts

    if recipe is None or not (restarts() or is_elastic()):
        return None
    folder = to or state.last_folder(recipe)
    if folder is None or preparing.is_interrupted(folder):
        return folder
    if restarts():
        return folder if (folder / "recipe.toml").is_file() else None
    if to is None and state.unfinished(folder) is None:
        return None
    _, loaded = front.prepared(recipe, overrides, to, start_from)
    return folder if state.is_of(folder, loaded) else None


def _opened(
    recipe: Path | None,
    overrides: Sequence[str],
    to: Path | None,
    resume: Path | None,
    start_from: Path | None,
) -> tuple[Any, list[dict[str, Any]]]:
    """A run that is there, or a new one; what is to be said of it."""
    from regard import front, runs
    from regard.runs import preparing, state
    from regard.verbs import display

    if resume is not None and preparing.is_interrupted(resume):
        with display.waiting(f"preparing the data in {resume}"):
            return front.resumed(resume)
    if resume is not None:
        return runs.Run(resume), []
    assert recipe is not None
    folder, loaded = front.prepared(recipe, overrides, to, start_from)
    said = [] if to else state.check_rerun(recipe, overrides)
    with display.waiting(f"preparing the data in {folder}"):
        run, warnings = front.create(folder, loaded)
    return run, [*said, *warnings]


def _launch(
    count: int,
    recipe: Path | None,
    overrides: Sequence[str],
    to: Path | None,
    resume: Path | None,
    start_from: Path | None,
    parts: Path | None,
    *,
    as_json: bool,
) -> None:
    """Have the same done by several processes."""
    from regard.verbs import processes

    named = {"--to": to, "--resume": resume, "--from": start_from, "--parts": parts}
    options = [word for key, value in named.items() if value for word in (key, str(value))]
    recipes = [] if recipe is None else [str(recipe)]
    words = ["train", *recipes, *options, *["--json"] * as_json, *overrides]
    if code := processes.launch(count, words):
        sys.exit(code)


def gather(run: Positional[Folder], *, parts: Parts = None, json: Flag = False) -> None:
    """Make an ordinary run of one that several processes have trained with divided weights.

    A run that has trained to its end is one already. Of one that was stopped, each checkpoint is
    written whole, in place of its shards: no process needs to know how many there were.

    Examples:
      regard gather runs/mine

    Args:
        json: The updates whose checkpoints were written, as JSON on stdout.
    """
    from regard import runs
    from regard.runs import gathering
    from regard.verbs import display

    add_parts(parts)
    with display.waiting(f"gathering {run}"):
        found = gathering.gather(runs.Run(run))
    if json:
        say({"run": str(run), "updates": found})
    else:
        shown = (
            f"whole at update {', '.join(f'{n:,}' for n in found)}" if found else "not in shards"
        )
        print(f"{run}: {shown}")


def _seeds(
    recipe: Path,
    overrides: Sequence[str],
    to: Path | None,
    count: int,
    start_from: Path | None,
    processes: int | None,
    *,
    as_json: bool,
) -> None:
    """Train several seeds, one after the other, and say how far apart they are."""
    from regard.verbs import display, seeds

    found = seeds.train(
        recipe, overrides, to, count,
        lambda changes, folder: train(
            recipe, changes, to=folder, start_from=start_from, processes=processes, json=as_json
        ),
        lambda folder: train(resume=folder, processes=processes, json=as_json),
    )  # fmt: skip
    if found and as_json:
        say(found.as_dict())
    for line in found.lines() if found else ():
        display.errors.print(line)


def doctor(
    recipe: Positional[Maybe[Path]] = None,
    overrides: Positional[Override] = (),
    *,
    to: Maybe[Path] = None,
    resume: Maybe[Path] = None,
    start_from: From = None,
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """What is wrong with a recipe's data, and what training would cost: before it is spent.

    Encoding, script, alignment, swapped and shifted sides, copies, leaks, labels, gaps, tokenizer,
    time and memory from measured steps, disk. With an error the exit code is 1.

    Examples:
      regard doctor mine.toml
      regard doctor mine.toml model.dim=512 --json
      regard doctor new-data.toml --from runs/mine
      regard doctor --resume runs/mine

    Args:
        recipe: A recipe's file, or the name of a shipped one.
        overrides: Changes to the recipe: train.updates=100, 'data.train=["a.en", "a.de"]'.
        to: The folder that the run would be in: is its disk large enough?
        resume: A run that is to go on.
        start_from: A run that the model would begin with: the same as model.weights=RUN.
        json: All findings as JSON on stdout.
    """
    _check_named(recipe)
    from regard import front
    from regard.verbs import display

    add_parts(parts)
    if resume is not None and (overrides or to or start_from):
        raise RecipeError("doctor: --resume looks at a run as it is, without changes")
    with display.waiting(f"looking at {resume or recipe}"):
        found = front.doctor(recipe, *overrides, to=to, resume=resume, start_from=start_from)
    display.findings(found, as_json=json)
    if any(each.severity == "error" for each in found):
        sys.exit(1)


def _check_named(recipe: Path | None) -> None:
    """Refuse a change that stands where a recipe should."""
    if recipe is not None and "=" in recipe.name and not recipe.is_file():
        raise RecipeError(f"{recipe}: a change needs a recipe to change; --resume takes none")


def _profile(
    recipe: Path | None, overrides: Sequence[str], resume: Path | None, *, as_json: bool
) -> None:
    """Where the time of an update goes, of a run that is there or of one that is not kept."""
    import tempfile

    from regard import front, runs
    from regard.doctor import profile
    from regard.verbs import display

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        if resume is not None:
            run = runs.Run(resume)
        else:
            assert recipe is not None
            folder, loaded = front.prepared(recipe, overrides, Path(name) / "run")
            with display.waiting("preparing the data"):
                run, _ = front.create(folder, loaded)
        with display.waiting("timing some updates"):
            found = profile.profile(run)
    if as_json:
        say(found.as_dict())
    else:
        print(found)


def demo(
    *,
    task: Literal["translate", "transcribe", "caption", "contrast"] = "translate",
    languages: Literal["en-de", "en-fr"] = "en-de",
    to: Maybe[Path] = None,
    json: Flag = False,
) -> None:
    """Train a small model on an embedded corpus, in a few minutes, and draw what it does.

    Examples:
      regard demo
      regard demo --languages en-fr --to runs/french
      regard demo --task transcribe
      regard demo --task caption
      regard demo --task contrast

    Args:
        task: Translate the sentences of a phrasebook, transcribe a code of tones and chirps,
            describe scenes of coloured shapes, or find which caption belongs to which scene.
        languages: The pair of languages that is translated.
        to: The folder of the run; runs/demo-LANGUAGES or runs/demo-TASK otherwise.
        json: Scores and samples as JSON on stdout.
    """
    from regard.verbs import demo as demonstration

    if not demonstration.demo(languages, to, as_json=json, name=task):
        sys.exit(INTERRUPTED)
