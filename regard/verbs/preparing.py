"""The verb prepare: a run's data is read, checked, tokenized and stored, and nothing trained."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from regard.errors import RecipeError
from regard.verbs.common import Flag, From, Maybe, Override, Parts, add_parts, say

if TYPE_CHECKING:
    from regard.runs import Run


def prepare(
    recipe: Positional[Maybe[Path]] = None,
    overrides: Positional[Override] = (),
    *,
    to: Maybe[Path] = None,
    start_from: From = None,
    processes: Maybe[int] = None,
    join: Maybe[Path] = None,
    ray: Maybe[str] = None,
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """Read, check, tokenize and store a recipe's data; train nothing.

    What training does first, for data that takes long: by several processes, also of several
    machines that see the same folder. The same command takes up what a killed one has left.

    Examples:
      regard prepare mine.toml
      regard prepare mine.toml --to /shared/runs/mine --processes 32
      regard prepare --join /shared/runs/mine
      regard prepare mine.toml --to /shared/runs/mine --ray auto

    Args:
        recipe: A recipe's file, or the name of a shipped one.
        overrides: Changes to the recipe: data.max_length=100, 'data.train=["a.en", "a.de"]'.
        to: The folder of the new run; otherwise runs/NAME, or runs/NAME-2 if that is finished.
        start_from: A run that the model begins with: the same as model.weights=RUN.
        processes: That encode texts, pictures and sounds; otherwise one for each core.
        join: Help another machine, which prepares the run in this folder, until it is done.
        ray: Encode on the Ray cluster at this address instead: auto, local, or HOST:6379. All its
            machines must see the run's folder under the same path.
        json: The run and its counts as JSON on stdout.
    """
    from regard import front
    from regard.recipe.parts import resume
    from regard.recipe.values import Count, check
    from regard.runs import cluster, encoding, state
    from regard.verbs import display

    add_parts(parts)
    if (recipe is None) == (join is None):
        raise RecipeError("prepare: give either a recipe or --join RUN")
    if processes is not None:
        check("processes", processes, Count)
    if join is not None:
        if overrides or to or start_from or processes or ray:
            raise RecipeError("prepare: --join helps with a run as it is; it takes no other option")
        with display.waiting(f"helping with {join}"):
            encoding.join(join)
        return
    if ray and processes:
        raise RecipeError("prepare: give either --processes or --ray ADDRESS")
    assert recipe is not None
    folder, loaded = front.prepared(recipe, overrides, to, start_from)
    said = [] if to else state.check_rerun(recipe, overrides, "prepare")
    helpers = encoding.by_ray(display.warn) if ray else encoding.by_processes(processes)
    with (
        cluster.connected(ray) if ray else nullcontext(),
        display.waiting(f"preparing the data in {folder}"),
    ):
        run, warnings = front.create(folder, loaded, helpers)
    for warning in [*said, *warnings]:
        display.errors.print(display.line(warning))
    if json:
        say({"run": str(folder), **_counts(run)})
    else:
        used = _counts(run)["used"]
        print(f"{folder} is prepared: {used:,} examples; to train it: {resume(folder)}")


def _counts(run: "Run") -> dict[str, int]:
    """How many examples are learnt from, and how many were left out or cut."""
    from regard.recipe import checked

    about = checked.read(run.folder / "data.json")
    return {"used": about["used"], "skipped": sum(about["skipped"].values())}
