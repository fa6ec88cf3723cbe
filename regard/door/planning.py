"""`regard.plan`: what a training will cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.plan.estimate import Estimate


def plan(
    recipe: str | Path | dict[str, Any],
    *overrides: str,
    hardware: str = "here",
    tokens: float | None = None,
    precision: str | None = None,
    utilisation: float | None = None,
    price: float | None = None,
    watts: float | None = None,
    pue: float | None = None,
    length: int | None = None,
    labels: int | None = None,
    variables: int | None = None,
    assume: bool = False,
    parts: str | Path | None = None,
) -> "Estimate":
    """What a training will cost, before it is spent; nothing is trained.

    >>> found = regard.plan("mine.toml", hardware="A100x8", assume=True)
    >>> found.as_dict()["hardware"]["devices"]
    8

    Args:
        recipe: A recipe's file, the name of a shipped one, a table (dict), or a run's folder.
        overrides: Changes to the recipe: "model.dim=1024".
        hardware: Devices and how many: "H100x64"; "here" is this machine, which is measured.
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
        parts: A folder with parts of your own.
    """
    from regard.plan import plan as planned
    from regard.plan.assumed import Options
    from regard.recipe.parts import add_folder

    if parts is not None:
        add_folder(Path(parts))
    return planned(
        recipe, overrides, hardware_name=hardware, tokens=tokens, precision=precision,
        utilisation=utilisation, price=price, watts=watts, pue=pue,
        options=Options(length, labels, variables), read=not assume,
    )  # fmt: skip
