"""The gradient of one update, summed over micro-batches, their parts, threads and processes.

    ∇L,   L = Σₖ wₖ · Σ sₖ / Σ nₖ        sₖ, nₖ, wₖ the sum, count and weight of term k

Both inner sums are over all parts of all micro-batches of all ranks. The counts are known before
the first forward pass, so each part's gradient is added as soon as it is there, and the update is
that of the one large batch, however it is split.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.draws import seeded
from regard.train import memory, rows
from regard.train.job import Job
from regard.train.team import SharedDraws, Team
from regard.types import Batch, Carry, Terms

DRAWS, MEMORY = "draws", "memory"
"""Trouble that all ranks take together."""


class Part(NamedTuple):
    """What goes through the model at once."""

    batch: Batch
    place: tuple[int, ...] = ()
    """Which piece of its micro-batch it is, and which part of the piece, without zeros at the end:
    what it draws is a function of this, and of no rank."""
    spare: bool = False
    """Whether it only takes part in a pass that other ranks make: its loss counts for nothing."""


Micro = list[list[Part]]
"""The micro-batches of an update, this rank's pieces of each, in parts that fit into the memory."""


@dataclass(frozen=True)
class Counts:
    """How many targets an update has, in all of its parts on all ranks, and each of its terms."""

    parts: list[tuple[int, Mapping[str, int]]]
    """Of each part its targets, and its terms' own counts."""

    @classmethod
    def over(cls, parts: Iterable[Batch]) -> "Counts":
        return cls([(part.targets, dict(part.counts)) for part in parts])

    @property
    def targets(self) -> int:
        return sum(targets for targets, _ in self.parts)

    def of(self, term: str) -> int:
        return sum(counts.get(term, targets) for targets, counts in self.parts)


def gradient(
    job: Job, micro: Micro, counts: Counts, update: int, carry: Carry, team: Team
) -> tuple[dict[str, Tensor], Carry, Tensor]:
    """The sums of the loss terms, what is handed on, and the gradient's norm, which is NaN where
    the loss is not finite. The gradient itself is with the parameters.

    SharedDraws and MemoryError are raised on all ranks if on any: none has summed yet.
    """
    trouble, sums = "", dict[str, Tensor]()
    try:
        sums, carry = _learn(job, micro, counts, update, job.pieces.share(carry), team)
    except SharedDraws:
        trouble = DRAWS
    except Exception as error:
        if not memory.is_shortage(error):
            raise
        if job.sharded:
            raise UserError(
                f"rank {job.group.rank}: out of memory. Where weights are divided among processes, "
                "a pass cannot be taken back: set train.memory lower, and resume"
            ) from None
        trouble = MEMORY  # the error itself would keep alive all that the forward pass made
    trouble, sums, present = _agree(job, trouble, sums)
    if trouble:
        raise SharedDraws if trouble == DRAWS else MemoryError
    _sum_gradients(job, present)
    carry = memory.joined(job.group.gather_tensors(carry)) if job.carried else carry
    norm = _whole(job, torch.nn.utils.get_total_norm(_gradients(job)))
    # 0 · x is NaN where x is not finite; without any loss there is no gradient, either.
    return sums, carry, norm + 0 * sum(sums.values()) if sums else norm * math.nan


def _agree(
    job: Job, trouble: str, sums: dict[str, Tensor]
) -> tuple[str, dict[str, Tensor], list[nn.Parameter]]:
    """The trouble that any rank is in, the sums over all ranks, and the parameters of which any
    rank has a gradient."""
    parameters = list(job.objective.parameters())
    has = [parameter.grad is not None for parameter in parameters]
    if job.group.size > 1:
        own = {name: float(value) for name, value in sums.items()}
        said = job.group.gather((trouble, own, "".join(map(str, map(int, has)))))
        trouble = max(each for each, _, _ in said)
        names = dict.fromkeys(name for _, each, _ in said for name in each)
        sums = {
            name: torch.tensor(sum(each.get(name, 0.0) for _, each, _ in said), dtype=torch.float64)
            for name in names
        }
        has = ["1" in each for each in zip(*(marks for _, _, marks in said), strict=True)]
    return trouble, sums, [p for p, there in zip(parameters, has, strict=True) if there]


def _learn(
    job: Job, micro: Micro, counts: Counts, update: int, carry: Carry, team: Team
) -> tuple[dict[str, Tensor], Carry]:
    """Add the gradients of this rank's parts; the sums of their terms, and what they hand on."""
    team.train()
    sums: dict[str, Tensor] = {}

    passes = itertools.count(1 - sum(map(len, micro)))

    def learn(objective: nn.Module, given: tuple[int, Part, Carry]) -> tuple[Terms, Carry]:
        """Dropout is a function of (seed, update, batch, place): nothing of it has to be saved."""
        seed, (batch, _, spare), before = given
        if job.sharded:
            _sync(objective, last=next(passes) == 0)
        if team.size == 1:
            torch.manual_seed(seed)  # for a GPU, and for layers that are not ours
        with seeded(seed), job.autocast():
            terms, after = objective(batch, before)
            _check(terms, batch)
            loss = sum(
                t.weight * t.sum / max(1, counts.of(n)) for n, t in terms.items() if t.weight
            )
        (loss * (0.0 if spare else job.scale)).backward()
        return {} if spare else {
            name: replace(t, sum=t.sum.detach()) for name, t in terms.items()
        }, after

    for number, parts in enumerate(micro):
        seeds = [fold(job.seed, update, number, *part.place) for part in parts]
        carries = memory.share(carry, [part.batch for part in parts if not part.spare])
        carries += [None] * (len(parts) - len(carries))
        found = team.each(learn, list(zip(seeds, parts, carries, strict=True)))
        for name, term in ((name, term) for terms, _ in found for name, term in terms.items()):
            sums[name] = sums.get(name, 0.0) + term.sum
        own = [after for (_, after), part in zip(found, parts, strict=True) if not part.spare]
        carry = memory.joined(own)
    team.sum_gradients()
    return sums, carry


def _check(terms: Terms, batch: Batch) -> None:
    """What a term has counted is what it was going to be divided by."""
    for name, term in terms.items():
        if term.count != batch.count(name):
            raise UserError(
                f"the loss has counted {term.count:,} targets for {name!r}, but its batch says "
                f"{batch.count(name):,}: name them in Batch.counts[{name!r}]"
            )


def _sum_gradients(job: Job, parameters: list[nn.Parameter]) -> None:
    """Over all ranks."""
    if not job.sharded:  # otherwise they are, since the last pass
        job.group.sum_gradients(parameters)
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = rows.coalesced(parameter.grad)
    if job.scale != 1:
        torch._foreach_div_(_gradients(job), job.scale)


def _gradients(job: Job) -> list[Tensor]:
    """Of a table of which some rows were seen, those rows."""
    found = [p.grad for p in job.objective.parameters() if p.grad is not None]
    return [g._values() if g.is_sparse else g for g in found]


def _sync(objective: nn.Module, *, last: bool) -> None:
    from regard.train import sharding

    sharding.sync(objective, last=last)


def _whole(job: Job, norm: Tensor) -> Tensor:
    """The norm over all ranks."""
    if not job.sharded:
        return norm
    from regard.train import sharding

    return sharding.whole(norm)


def descend(job: Job, rate: float, norm: Tensor) -> None:
    """One step down the gradient, which is clipped."""
    if job.config.clip:
        # As torch.nn.utils.clip_grads_with_norm_ does, which knows no rows.
        factor = torch.clamp(job.config.clip / (norm + 1e-6), max=1.0)
        torch._foreach_mul_(_gradients(job), float(factor) if job.sharded else factor)
    for group in job.optimizer.param_groups:
        group["lr"] = rate * group.get("factor", 1.0)
    job.optimizer.step()


def fold(*numbers: int) -> int:
    """One seed out of several numbers, well mixed (splitmix64)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) % 2**64
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
        state ^= state >> 31
    return state >> 1
