"""The verb plan: what a training will cost, before it is spent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from regard.errors import RecipeError
from regard.verbs.common import Flag, Maybe, Override, Parts, add_parts, given, say

if TYPE_CHECKING:
    from regard.plan.failures import Settings

Hardware = Annotated[
    str, arg(metavar="NAMExN", help="P100, P6000, TPUv2, TPUv3, V100, A100, H100, B200, or here.")
]
Precision = Literal["float32", "bfloat16", "float16"]


def plan(
    recipe: Positional[Maybe[Path]] = None,
    overrides: Positional[Override] = (),
    *,
    hardware: Hardware = "here",
    tokens: Maybe[float] = None,
    precision: Maybe[Precision] = None,
    utilisation: Maybe[float] = None,
    price: Maybe[float] = None,
    watts: Maybe[float] = None,
    pue: Maybe[float] = None,
    length: Maybe[int] = None,
    labels: Maybe[int] = None,
    variables: Maybe[int] = None,
    assume: Flag = False,
    table: Flag = False,
    nodes: Maybe[int] = None,
    mtbf: Maybe[float] = None,
    save_seconds: Maybe[float] = None,
    restart_minutes: Maybe[float] = None,
    straggling: Maybe[float] = None,
    days: Maybe[float] = None,
    seed: Maybe[int] = None,
    plot: Maybe[Path] = None,
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """What a training will cost: parameters, FLOPs, memory, time, energy and money.

    Nothing is trained. A step is counted operation by operation, on tensors without numbers. Time
    on this machine follows from measured rates of products and memory, on others from data sheets.
    Data that is there is read for its sizes; otherwise they are assumed, and said.

    Examples:
      regard plan multi30k-en-de
      regard plan gpt-3 --hardware H100x64
      regard plan mine.toml model.dim=1024 --hardware A100x8 --tokens 3e9 --json
      regard plan transformer-base --hardware P100x8 --utilisation 0.3
      regard plan --table
      regard plan gpt-3 --hardware H100x1024 --nodes 128 --mtbf 6000 --plot goodput.png

    Args:
        recipe: A recipe's file, the name of a shipped one, or a run's folder.
        overrides: Changes to the recipe: model.dim=1024.
        hardware: Devices and how many: H100x64.
        tokens: Tokens of the whole training; otherwise as many as the recipe's updates have.
        precision: Of products and activations; otherwise the fastest that the hardware has.
        utilisation: The fraction of the hardware's rate that training reaches.
        price: US dollars for an hour of a device.
        watts: Of a device.
        pue: Power of the building over that of its machines.
        length: Tokens of a text, or frames of a sound, where the data is not read.
        labels: How many different ones there are, where the data is not read.
        variables: Of a series, where the data is not read.
        assume: Do not read the data: assume what only it could say.
        table: Famous models beside what is published of them, instead of a recipe.
        nodes: Machines that may fail: simulate goodput, of up to 16 times as many.
        mtbf: Hours between two failures of one node, in the mean.
        save_seconds: What a checkpoint takes while training waits for it.
        restart_minutes: From a failure until training goes on.
        straggling: Deviation of a node's step time, as a fraction of it.
        days: Of work, without failures; otherwise that of the plan.
        seed: Of the simulation.
        plot: A picture of goodput over nodes (png or svg).
        json: Machine-readable output on stdout, with units in the names.
    """
    from regard.plan import plan as planned
    from regard.plan.assumed import Options
    from regard.verbs import display

    if table:
        if recipe is not None:
            raise RecipeError("plan: --table is about famous models; give no recipe")
        from regard.plan import table as famous

        found = famous.table()
        say(found.as_dict() if json else str(found))
        return
    asked = given(
        mtbf_hours=mtbf, save_seconds=save_seconds, restart_minutes=restart_minutes,
        straggling=straggling, seed=seed,
    )  # fmt: skip
    if nodes is None and (asked or plot or days is not None):
        raise RecipeError("plan: options of failures and --plot need --nodes")
    if recipe is None:
        raise RecipeError("plan: give a recipe, a run's folder, or --table")
    add_parts(parts)
    for name, value in {"length": length, "labels": labels, "variables": variables}.items():
        if value is not None and not 0 < value <= 10**9:
            raise RecipeError(f"--{name} {value}: a number above 0")
    with display.waiting(f"planning {recipe}"):
        estimate = planned(
            recipe, overrides, hardware_name=hardware, tokens=tokens, precision=precision,
            utilisation=utilisation, price=price, watts=watts, pue=pue,
            options=Options(length, labels, variables), read=not assume,
        )  # fmt: skip
    result: dict[str, Any] = estimate.as_dict()
    texts = [str(estimate)]
    if nodes is not None:
        simulated = _failures(estimate, nodes, days, asked, plot)
        result["failures"] = simulated.as_dict()
        texts.append(str(simulated))
    say(result if json else "\n\n".join(texts))


def _failures(
    estimate: Any, nodes: int, days: float | None, asked: dict[str, Any], plot: Path | None
) -> Any:
    """Goodput over nodes, and its picture."""
    from regard.plan import failures

    settings: Settings = failures.settings(estimate, nodes, days, **asked)
    found = failures.sweep(settings)
    if plot is not None:
        from regard.plots import drawing, goodput

        drawing.check_picture(plot)
        drawing.save(goodput.goodput(found.curves()), plot)
    return found
