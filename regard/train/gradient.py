"""The gradient of one update, summed over micro-batches, their parts, and threads.

    ∇L,   L = Σₖ wₖ · Σ sₖ / Σ nₖ        sₖ, nₖ, wₖ the sum, count and weight of term k

Both inner sums are over all parts of all micro-batches. The counts are known before the first
forward pass, so each part's gradient is added as soon as it is there, and the update is that of the
one large batch, however it is split.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.draws import seeded
from regard.train import memory
from regard.train.job import Job
from regard.train.team import Team
from regard.types import Batch, Carry, Terms

Micro = list[list[Batch]]
"""The micro-batches of an update, each in parts that fit into the memory."""


def count(micro: Micro, term: str) -> int:
    """How many targets a term of the loss has in all parts of an update."""
    return sum(part.count(term) for parts in micro for part in parts)


def gradient(
    job: Job, micro: Micro, update: int, carry: Carry, team: Team
) -> tuple[dict[str, Tensor], Carry, Tensor]:
    """The sums of the loss terms, what is handed on, and the gradient's norm, which is NaN where
    the loss is not finite. The gradient itself is with the parameters."""
    found = None
    try:
        found = _learn(job, micro, update, carry, team)
    except Exception as error:
        if not memory.is_shortage(error):
            raise
    if found is None:  # the error itself would keep alive all that the forward pass made
        raise MemoryError
    sums, carry = found
    gradients = [p.grad for p in job.objective.parameters() if p.grad is not None]
    if job.scale != 1:
        torch._foreach_div_(gradients, job.scale)
    norm = torch.nn.utils.get_total_norm(gradients)
    # 0 · x is NaN where x is not finite; without any loss there is no gradient, either.
    return sums, carry, norm + 0 * sum(sums.values()) if sums else norm * math.nan


def _learn(
    job: Job, micro: Micro, update: int, carry: Carry, team: Team
) -> tuple[dict[str, Tensor], Carry]:
    """Add the gradients of all parts; the sums of their terms, and what they hand on."""
    team.train()
    sums: dict[str, Tensor] = {}

    def learn(objective: nn.Module, part: tuple[int, Batch, Carry]) -> tuple[Terms, Carry]:
        """Dropout is a function of (seed, update, batch, part): nothing of it has to be saved."""
        seed, batch, before = part
        if team.size == 1:
            torch.manual_seed(seed)  # for a GPU, and for layers that are not ours
        with seeded(seed), job.autocast():
            terms, after = objective(batch, before)
            _check(terms, batch)
            loss = sum(
                t.weight * t.sum / max(1, count(micro, n)) for n, t in terms.items() if t.weight
            )
        (loss * job.scale).backward()
        return {name: replace(t, sum=t.sum.detach()) for name, t in terms.items()}, after

    for number, parts in enumerate(micro):
        places = [(number, n) if n else (number,) for n in range(len(parts))]
        seeds = [fold(job.seed, update, *place) for place in places]
        found = team.each(learn, list(zip(seeds, parts, memory.share(carry, parts), strict=True)))
        for name, term in ((name, term) for terms, _ in found for name, term in terms.items()):
            sums[name] = sums.get(name, 0.0) + term.sum
        carry = memory.joined([after for _, after in found])
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


def descend(job: Job, rate: float, norm: Tensor) -> None:
    """One step down the gradient, which is clipped."""
    if job.config.clip:
        parameters = [p for p in job.objective.parameters() if p.grad is not None]
        torch.nn.utils.clip_grads_with_norm_(parameters, job.config.clip, norm)
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
