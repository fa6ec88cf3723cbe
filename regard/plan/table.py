"""Famous models beside what is published of them: size, FLOPs, time and cost.

Two ways to count stand beside each other:

    by the clock     devices · seconds · FLOP/s of a device        what was paid for
    by the model     FLOPs per token · tokens                      what was needed

Their ratio is the utilisation. 6 N D is the rule of thumb for the second.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regard.console.tables import Block, Shown
from regard.plan import counting, subject
from regard.plan.cost import DAY
from regard.plan.estimate import PETAFLOP_DAY, count
from regard.plan.hardware import NAMES


@dataclass(frozen=True)
class Source:
    """A model, and what is published of it."""

    name: str
    recipe: str
    parameters: float
    """As published."""
    tokens: tuple[tuple[float, tuple[str, ...]], ...]
    """That it learnt from, each with changes to the recipe that it read them by."""
    words: str
    """Where all this is from."""
    device: str
    devices: int = 0
    days: float = 0.0
    published: float = 0.0
    """FLOPs, where these are published and not the time."""
    reached: float = 1.0
    """The utilisation that the published figure has in it."""


SOURCES = [
    Source("Transformer base", "transformer-base", 65e6, ((100_000 * 25_000, ()),),
           "100,000 updates of 25,000 target tokens; 12 h on 8 P100 at 9.5 TFLOP/s = 3.3e18",
           "P100", 8, 0.5),
    Source("Transformer big", "transformer-big", 213e6, ((300_000 * 25_000, ()),),
           "300,000 updates of 25,000 target tokens; 3.5 days on 8 P100 = 2.3e19",
           "P100", 8, 3.5),
    Source("GPT-1", "gpt-1", 117e6, ((100 * 1.0e9, ()),),
           "100 epochs of BooksCorpus, about 1.0 G tokens; 30 days on 8 P6000 at 12 TFLOP/s and a "
           "utilisation of 0.33 = 0.96 petaflop/s-days",
           "P6000", 8, 30.0, reached=0.33),
    Source("BERT base", "bert-base", 110e6,
           ((0.9e6 * 256 * 128, ("windows.length=128",)), (0.1e6 * 256 * 512, ())),
           "1,000,000 updates of 256 windows, nine tenths of them of 128 tokens, the rest of 512; "
           "4 days on 4 Cloud TPUs (16 chips of TPU v2)",
           "TPUv2", 16, 4.0),
    Source("GPT-2", "gpt-2-xl", 1542e6, (), "1.5e21 FLOPs; neither tokens nor machine are "
           "published: the tokens are those that the FLOPs would be enough for",
           "TPUv3", published=1.5e21),
    Source("GPT-3", "gpt-3", 175e9, ((300e9, ()),),
           "300 G tokens out of a set of 499 G; 3,640 petaflop/s-days (Brown et al., table D.1)",
           "V100", published=3640 * PETAFLOP_DAY),
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One model: as published, and as counted here."""

    name: str
    parameters_published: float
    parameters: int
    tokens: float
    flops_published: float
    """By the clock, where time and machines are published."""
    flops_model: float
    """By the model: exact products, with attention."""
    flops_6nd: float
    """6 N D with all parameters."""
    petaflop_s_days: float
    """Of the published FLOPs."""
    utilisation: float | None
    """Of the machine, if it is published: by the model over by the clock."""
    ratio: float
    """By the model over published."""
    device: str
    device_hours: float
    price_usd: float
    source: str


def row(source: Source) -> Row:
    """Count one model."""
    device = NAMES[source.device.lower()]
    rate = device.rate(device.precision)
    clock = source.devices * source.days * DAY * rate
    published = source.published or clock * source.reached
    found = [_per_token(source.recipe, changes) for _, changes in source.tokens]
    found = found or [_per_token(source.recipe, ())]
    parameters = found[-1][0]
    if source.tokens:
        tokens = sum(each for each, _ in source.tokens)
        model = sum(n * flops for (n, _), (_, flops) in zip(source.tokens, found, strict=True))
    else:
        model, tokens = published, published / found[0][1]
    hours = source.devices * source.days * 24
    hours = hours or published / (rate * device.utilisation) / 3600
    return Row(
        source.name, source.parameters, parameters, tokens, published, model,
        6.0 * parameters * tokens, published / PETAFLOP_DAY, model / clock if clock else None,
        model / published, device.name, hours, hours * device.price, source.words,
    )  # fmt: skip


def _per_token(recipe: str, changes: Sequence[str]) -> tuple[int, float]:
    """Parameters, and FLOPs per token; a few examples tell as well as many."""
    found = subject.of(Path(recipe), changes, read=False)
    rows = {name: t[:2] for name, t in found.batch.tensors.items()}
    few = replace(found, batch=replace(found.batch, tensors=rows, ids=found.batch.ids[:2]))
    model = few.recipe.model
    step = counting.step(model, few.sizes, few.batch, few.loss)
    counts = count(few, step, counting.parameters(model, few.sizes), None)
    return counts.parameters.total, counts.per_token


@dataclass(frozen=True)
class Table(Shown):
    """All of them."""

    rows: list[Row]

    def as_dict(self) -> dict[str, Any]:
        return {"models": [asdict(each) for each in self.rows]}

    def blocks(self) -> list[Block]:
        header = (
            "", "parameters", "published", "tokens", "FLOPs published", "petaflop/s-days",
            "by the model", "6 N D", "ratio", "utilisation", "device-hours", "US$",
        )  # fmt: skip
        rows = [
            (
                r.name, f"{r.parameters / 1e6:,.0f} M", f"{r.parameters_published / 1e6:,.0f} M",
                f"{r.tokens:.3g}", f"{r.flops_published:.2g}", f"{r.petaflop_s_days:,.3g}",
                f"{r.flops_model:.2g}", f"{r.flops_6nd:.2g}", f"{r.ratio:.2f}",
                "" if r.utilisation is None else f"{r.utilisation:.2f}",
                f"{r.device_hours:,.0f} {r.device}", f"{r.price_usd:,.0f}",
            )
            for r in self.rows
        ]  # fmt: skip
        notes = [f"{r.name}: {r.source}." for r in self.rows]
        more = (
            "ratio: by the model over published. Where no machine is published, the hours are "
            "those of the published FLOPs at the stated utilisation (docs/planning.md)."
        )
        return [Block(header, rows, "Famous models", [*notes, more])]


def table() -> Table:
    return Table([row(source) for source in SOURCES])
