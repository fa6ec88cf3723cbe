"""What a training is: the recipe's section `train`, and all that the loop works on."""

import copy
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import torch
from torch import nn

from regard.errors import RecipeError
from regard.layers.recompute import Recomputing
from regard.recipe.values import (
    Count,
    Few,
    FewOrZero,
    Natural,
    NonNegative,
    Positive,
    Range,
    Share,
    Threads,
)
from regard.train import budget, device, optimizer, schedule
from regard.train.group import Group
from regard.train.pieces import Pieces
from regard.train.progress import Progress
from regard.types import Batch, Batches, Carry, Rated, SparseRows, Terms

Loss = Callable[[Any, Batch, Carry], tuple[Terms, Carry]]


@dataclass(frozen=True, kw_only=True)
class Config:
    """How a model is trained."""

    updates: Count = 100_000
    """Stop after this many updates of the weights."""
    epochs: NonNegative = 0
    """Stop after so many times through the training data, whichever comes first; 0 for no such
    limit."""
    minutes: NonNegative = 0
    """Stop after so many minutes, whichever comes first; 0 for no such limit. The learning rate
    then falls by the time, so that it is at its end when the time is."""
    tokens: Annotated[int, Range(0, 10**15)] = 0
    """Stop after this many targets, whichever comes first; 0 for no such limit."""
    accumulate: Few = 1
    """Batches for one update; the update is that of the one large batch."""
    pieces: Few = 1
    """Into how many parts each batch is cut at least, so that as many processes can share it:
    dropout is drawn for each part, so that the number of processes then changes nothing."""
    sharding: Literal["none", "full"] = "none"
    """What several processes divide among them: none, each has the whole model (DDP); full:
    weights, gradients and the optimizer's moments (FSDP, ZeRO 3)."""
    activation_checkpointing: bool = False
    """Whether a Transformer's blocks are computed a second time in the backward pass, instead of
    keeping all that they computed: less memory, a second forward pass, the same update."""
    clip: NonNegative = 1.0
    """The gradient is scaled down to this norm if it is larger; 0 leaves it alone."""
    optimizer: optimizer.Config
    """Adam or AdamW."""
    schedule: schedule.Config
    """How the learning rate changes."""
    log_every: Count = 50
    """Updates between two records of loss and speed."""
    validate_every: NonNegative = 500
    """Updates between two validations, the last one after the last update; 0 for none. Below 1:
    that part of the training."""
    save_every: Positive = 500
    """Updates between two checkpoints; there is one for each better validation, too. Below 1: that
    part of the training."""
    keep: Few = 5
    """How many of the last checkpoints are kept; the best one always is."""
    average: FewOrZero = 0
    """The final model is the mean of this many checkpoints; 0: the best one alone."""
    average_of: Literal["last", "best"] = "last"
    """Which checkpoints are averaged."""
    samples: Annotated[int, Range(0, 20)] = 3
    """Examples of the validation part whose outputs are shown and recorded at each validation; 0:
    none."""
    metric: str = "nll"
    """The validation figure that decides which checkpoint is best."""
    patience: Natural = 0
    """Stop after this many validations without a better one; 0: never."""
    max_nonfinite: FewOrZero = 10
    """How many updates in a row may be refused for numbers that are not finite."""
    max_rollbacks: FewOrZero = 3
    """How often, after more than that, training goes back to the last checkpoint with a lower
    learning rate before it stops."""
    rollback_factor: Share = 0.5
    """What the learning rate is multiplied by each time."""
    memory: Annotated[float, Range(0, 1e6)] = 0.0
    """GB that a run may take. A batch that needs more is split; the update stays the same. 0: most
    of what is free when the run begins."""
    oversized: Literal["skip", "stop"] = "skip"
    """What to do with an example that does not fit even alone; it is named either way."""
    workers: Annotated[int, Range(0, 64)] = 0
    """Threads that make the next batches while one is learnt from."""
    trace: bool = False
    """Whether the numbers of the examples of every update are recorded."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps; auto is decided anew at each start."""
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the operands of large matrix products in training; weights are always float32. auto:
    bfloat16 where the hardware multiplies it natively."""
    threads: Threads = 0
    """Processor threads; 0 for as many cores as the process may use."""
    timeout: Annotated[float, Range(0, 10_000, open_low=True)] = 10.0
    """Minutes after which a process that does not answer the others is given up."""
    allow: tuple[str, ...] = ()
    """Errors of `regard doctor` that do not stop the training, by name: "data.leaked"."""

    def __post_init__(self) -> None:
        if self.average > self.keep and self.average_of == "last":
            raise RecipeError(f"average: {self.average} is more than train.keep = {self.keep}")
        if self.patience and not self.validate_every:
            raise RecipeError("patience: it counts validations, but train.validate_every = 0")

    def planned(self, batches: int) -> "Config":
        """The same with all limits and intervals in updates, for so many batches in an epoch."""
        updates = self.updates
        if self.epochs:
            updates = min(updates, max(1, round(self.epochs * batches / self.accumulate)))

        def whole(given: float) -> float:
            return math.ceil(given * updates) if 0 < given < 1 else given

        return replace(
            self,
            updates=updates,
            validate_every=whole(self.validate_every),
            save_every=whole(self.save_every),
            schedule=replace(self.schedule, warmup=whole(self.schedule.warmup)),
        )


class Objective(nn.Module):
    """batch, carry ↦ loss terms, new carry: a model and its loss, as the one module that is wrapped
    for a compiler."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        return self.loss(self.model, batch, carry)


@dataclass(kw_only=True)
class Job:
    """What the loop works on, and where its results go: by default, nowhere.

    Of a group of processes, those of other ranks than 0 record and save nothing.
    """

    objective: nn.Module
    batches: Batches
    optimizer: torch.optim.Optimizer
    config: Config
    seed: int
    dim: int
    device: torch.device
    group: Group = field(default_factory=Group)
    plain: nn.Module | None = None
    """Where the objective is divided among ranks, one of the same shape that is not: what a batch
    takes is measured by it, and validation is by its model, once it has been given the weights."""
    carried: bool = False
    """Whether a batch hands something on to the next."""
    pieces: Pieces = field(default_factory=Pieces)
    """Which of an update's batches are this rank's."""
    limit: float = math.inf
    """Bytes that a batch may take."""
    validate: Callable[[], dict[str, float]] = dict
    """Figures of the present weights on the validation part; empty if there is none. All ranks are
    asked, and share the work."""
    sample: Callable[[], dict[str, str]] = dict
    """What the present weights make of a few examples of it; a function of the weights alone."""
    lower_is_better: bool = True
    record: Callable[[dict[str, Any]], None] = lambda record: None
    save: Callable[[Progress, Carry], None] = lambda progress, carry: None
    rollback: Callable[[int], tuple[Progress, Carry]] | None = None
    """Makes all as it was at the last checkpoint, but for how often the rate has been lowered."""
    tick: Callable[[Progress], None] = lambda progress: None
    """Called after every update, for a display that moves."""

    @property
    def sharded(self) -> bool:
        return self.plain is not None

    def rate(self, progress: Progress, update: int) -> float:
        """The learning rate of an update."""
        config, reached = self.config, self.reached(progress, update)
        rate = schedule.rate(
            config.schedule, config.optimizer.learning_rate, reached, config.updates, self.dim
        )
        return rate * config.rollback_factor**progress.lowered

    def reached(self, progress: Progress, update: int) -> float:
        """How far training is at an update, in updates: by their number or, with a limit of time,
        by the time, if that is farther."""
        if not self.config.minutes:
            return update
        passed = progress.seconds / (60 * self.config.minutes)
        return max(update, min(1.0, passed) * self.config.updates)

    def autocast(self) -> AbstractContextManager[Any]:
        if self.device.type == "cpu" or self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.config.precision))

    @property
    def scale(self) -> float:
        """float16 has no room for small gradients: they are made larger on the way. What becomes
        too large is refused like any gradient that is not finite."""
        return 2.0**10 if self.config.precision == "float16" and self.device.type != "cpu" else 1.0


def make(
    model: nn.Module,
    loss: Loss,
    batches: Batches,
    config: Config,
    *,
    seed: int,
    dim: int,
    group: Group | None = None,
) -> Job:
    """The job of a new model, which is on its device, with a new optimizer.

    `config` is settled (`device.settle`): nothing in it is `auto`.
    """
    group = group or Group()
    device.set_precision(model, config)
    if config.optimizer.rows == "seen":
        _look_up(model, config, group)
    if config.activation_checkpointing:
        _recompute(model)
    limit = budget.for_batches(config.memory, model)
    objective, plain = Objective(model, loss), None
    if config.sharding == "full" and group.size > 1:
        from regard.train import sharding  # it imports much

        plain = Objective(copy.deepcopy(model), loss)
        sharding.shard(objective, group.size, torch.device(config.device))
    rates = model.rates() if isinstance(model, Rated) else None
    return Job(
        objective=objective,
        plain=plain,
        batches=batches,
        optimizer=optimizer.make(config.optimizer, model.parameters(), rates),
        config=config,
        seed=seed,
        dim=dim,
        device=torch.device(config.device),
        group=group,
        limit=limit,
    )


def _look_up(model: nn.Module, config: Config, group: Group) -> None:
    """Let the gradients of tables have the rows that a batch has seen, and no others."""
    if config.device != "cpu" or group.size > 1:
        raise RecipeError(
            "train.optimizer.rows: 'seen' is for one process on a processor: set it to 'all'"
        )
    for module in model.modules():
        if isinstance(module, SparseRows):
            module.sparse = True


def _recompute(model: nn.Module) -> None:
    blocks = [module for module in model.modules() if isinstance(module, Recomputing)]
    if not blocks:
        raise RecipeError(
            "train.activation_checkpointing: no part of this model has blocks that can be computed "
            "twice (a Transformer has): set it to false"
        )
    for block in blocks:
        block.recompute = True
