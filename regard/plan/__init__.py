"""What a training will cost, before it is spent.

subject   a recipe's model with the sizes of its data      counting, tracing   FLOPs and bytes
hardware  devices by their data sheets, machine: this one   layout, cost, failures
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import RecipeError
from regard.plan import assumed, cost, counting, estimate, hardware, layout, subject
from regard.plan.estimate import Estimate as Estimate
from regard.plan.hardware import HERE, NAMES


def plan(
    recipe: str | Path | dict[str, Any],
    overrides: Sequence[str] = (),
    *,
    hardware_name: str = HERE,
    tokens: float | None = None,
    precision: str | None = None,
    utilisation: float | None = None,
    watts: float | None = None,
    price: float | None = None,
    pue: float | None = None,
    options: assumed.Options = assumed.Options(),  # noqa: B008 - it is a tuple
    read: bool = True,
) -> Estimate:
    """The plan of a recipe, or of a run's folder, on some hardware."""
    asked = hardware.parse(hardware_name)
    _check(tokens=tokens, utilisation=utilisation, watts=watts, price=price, pue=pue)
    if utilisation is not None and utilisation > 1:
        raise RecipeError(f"--utilisation {utilisation:g}: a fraction, at most 1")
    found = subject.of(recipe, overrides, options, read=read)
    if asked.name == HERE:
        from regard.plan import machine

        return machine.estimate(found, tokens, watts, price, pue)
    device = NAMES[asked.name.lower()]
    precision = precision or device.precision
    device.rate(precision)  # refused now, if it has none
    taken = cost.Assumptions(
        utilisation or device.utilisation,
        device.watts if watts is None else watts,
        device.price if price is None else price,
        cost.PUE if pue is None else pue,
    )
    counts = counted(found, tokens)
    needs = counts.needs(precision, found.batch.divisible)
    rows = counts.rows * counts.accumulate
    chosen = layout.choose(needs, asked.devices, device.memory, rows)
    fewest = None if chosen else layout.fewest(needs, device.memory, rows)
    again = counts.step.trace.forward_flops if chosen and chosen.checkpointing else 0.0
    flops = (counts.step.trace.flops + again) / counts.tokens
    return Estimate(
        found, counts, device, asked.devices, precision, taken, chosen, fewest,
        cost.rate(device, precision, taken.utilisation, asked.devices) / flops,
    )  # fmt: skip


def counted(found: subject.Subject, tokens: float | None) -> estimate.Counts:
    """A subject's parameters and the figures of a step, in float32."""
    model, sizes = found.recipe.model, found.sizes
    step = counting.step(model, sizes, found.batch, found.loss)
    return estimate.count(found, step, counting.parameters(model, sizes), tokens)


def _check(**numbers: float | None) -> None:
    for name, value in numbers.items():
        if value is not None and not 0 < value < float("inf"):
            raise RecipeError(f"--{name} {value:g}: a number above 0")


__all__ = ["Estimate", "counted", "plan"]
