"""Verbs about what is here: runs, info."""

from pathlib import Path

from tyro.conf import Positional

from regard.verbs.common import Flag, Maybe, say

RUNS = Path("runs")


def runs(folder: Positional[Maybe[Path]] = None, *, json: Flag = False) -> None:
    """List runs: task, data, state, best validation; the newest first.

    A run is finished, unfinished (at which update), trains now, or is damaged (with the reason).

    Examples:
      regard runs
      regard runs experiments --json

    Args:
        folder: The folder that the runs are in; runs otherwise.
        json: Machine-readable output on stdout.
    """
    from regard.verbs import display, listing

    none = folder is None and not RUNS.exists()
    found = [] if none else listing.rows(folder or RUNS)
    if json:
        say([row.as_dict() for row in found])
    elif found:
        display.rows(listing.HEADER, [row.cells() for row in found])
    if not found:
        display.warn(f"there is no run in {folder or RUNS}; `regard train` makes one")


def info(*, json: Flag = False) -> None:
    """What this machine has, and what `auto` in a recipe comes to here. For bug reports, too.

    Examples:
      regard info
      regard info --json

    Args:
        json: Machine-readable output on stdout.
    """
    from regard.verbs import machine

    found = machine.info()
    say(found) if json else print(machine.as_text(found))
