"""The processes that train one model together.

Each rank holds the same weights and takes its own pieces of every update (`pieces.py`). Whatever
decides what the loop does next (counts of targets, numbers that are not finite, memory that runs
out, a signal to stop) is agreed upon here, so that all ranks do the same and none waits for another
in vain. One process by itself is the group of one: it agrees with itself, and nothing is copied.
`processes.py` has the group of several.
"""

from collections.abc import Sequence
from typing import TypeVar

from torch import Tensor, nn

from regard.types import Carry

Value = TypeVar("Value")


class Group:
    """Rank 0 of 1.

    A group of several ranks says what `gather` and `gather_tensors` do; its ranks call the methods
    in the same order. If one of them ends for a reason of its own, the calls of the others must
    raise.
    """

    rank = 0
    size = 1
    near = (0, 1)
    """Which of how many on this machine it is."""
    doing = "start"
    """What the rank is at, for those who wait for it."""

    def gather(self, value: Value) -> list[Value]:
        """What each rank gives, in the order of ranks, on all ranks: anything that JSON can say,
        also numbers that are not finite."""
        return [value]

    def gather_tensors(self, tensors: Carry) -> list[Carry]:
        """The tensors that each rank gives by name, if any; but for their rows they are alike."""
        return [tensors]

    def any(self, answer: bool) -> bool:
        """Whether the answer of any rank is yes."""
        return any(self.gather(answer))

    def first(self, value: Value) -> Value:
        """What rank 0 gives."""
        return self.gather(value)[0]

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Let each of the parameters have the sum of its gradients over all ranks; a rank without
        one adds nothing. All ranks give the same parameters, each of which somebody has one of."""
        if self.size == 1:
            return
        own = {str(n): p.grad for n, p in enumerate(parameters) if p.grad is not None}
        total: dict[str, Tensor] = {}
        for given in self.gather_tensors(own):
            for name, gradient in (given or {}).items():
                total[name] = total[name] + gradient if name in total else gradient
        for n, parameter in enumerate(parameters):
            parameter.grad = total[str(n)]

    def same_weights(self, model: nn.Module) -> None:
        """Give all ranks the weights of rank 0."""

    def explained(self, error: Exception) -> Exception:
        """An error of a call to the others, in words; any other as it is."""
        return error

    def close(self) -> None:
        """Leave."""
