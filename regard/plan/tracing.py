"""A training step that nobody computes: its operations, their FLOPs, bytes and memory.

The model and its batch are run forwards and backwards by PyTorch's fake tensors, which have a shape
and a device but no numbers. Three things are kept of each operation:

    FLOPs   of a matrix product of (m, k) with (k, n)      2 m k n
    bytes   that it reads and writes                       Σ numbers · size
    memory  that is alive when it ends                     Σ of all storages that somebody holds

So the layers need no formulas of their own, and whatever a kernel keeps for the backward pass is
seen where it is kept. Whole numbers and truth values (tokens, masks) are real: they decide shapes.
"""

import math
import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten
from torch.utils.flop_counter import flop_registry

from regard.model import Config, build
from regard.plan.products import FLOPS, IN_PLACE, STAND_INS, Products, products, touched
from regard.types import Batch, Carry, Sizes, Terms

Loss = Callable[[Any, Batch, Carry], tuple[Terms, Carry]]
aten = torch.ops.aten
REAL = 2**22
"""Whole numbers up to so many are real; more of them are drawn noise."""


@dataclass
class Operation:
    """All calls of one function; of matrix products, those with the same sizes."""

    name: str
    products: Products
    """What one call multiplies."""
    count: float = 0
    flops: float = 0
    bytes: float = 0


Operations = dict[tuple[str, Products], Operation]


@dataclass
class Trace:
    """What a step does."""

    operations: Operations = field(default_factory=dict)
    forward_flops: float = 0
    """Of a forward pass without any gradient."""
    flops: float = 0
    """Of the whole step."""
    kept_bytes: float = 0
    """Alive when the forward pass ends, weights and batch excepted: the activations."""
    peak_bytes: float = 0
    """Alive at most, gradients included, weights and batch excepted."""
    positions: dict[str, int] = field(default_factory=dict)
    """How many vectors each input gives: {"input": 4096, "towers.source.input": 3200}."""

    def plus(self, other: "Trace", times: float) -> "Trace":
        """self + times · other, figure by figure."""
        found: Operations = {}
        for part, factor in ((self, 1.0), (other, times)):
            for key, each in part.operations.items():
                into = found.setdefault(key, Operation(each.name, each.products))
                into.count += factor * each.count
                into.flops += factor * each.flops
                into.bytes += factor * each.bytes
        names = ("forward_flops", "flops", "kept_bytes", "peak_bytes")
        sums = {name: getattr(self, name) + times * getattr(other, name) for name in names}
        return Trace(operations=found, positions=self.positions, **sums)


def trace(
    config: Config, sizes: Sizes, batch: Batch, loss: Loss, prepare: Callable[[Any], None]
) -> Trace:
    """One step of a model on a batch. `prepare` changes the model as the trainer would."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with fake, Shadow(answer=False):
        model = build(config, sizes)
    prepare(model)
    tensors = {
        name: fake.from_tensor(t) if t.is_floating_point() else t
        for name, t in batch.tensors.items()
    }
    batch = replace(batch, tensors=tensors, continues=False)
    model.train()
    whole, forward = Shadow(), Shadow()
    with fake, forward, torch.no_grad():
        loss(model, batch, None)
    with fake, whole, _watched(model, whole.trace.positions):
        terms, _ = loss(model, batch, None)
        total: Any = sum(term.weight * term.sum for term in terms.values() if term.weight)
        del terms
        whole.trace.kept_bytes = whole.alive
        total.backward()
    whole.trace.forward_flops = forward.trace.flops
    return whole.trace


@contextmanager
def _watched(model: nn.Module, positions: dict[str, int]) -> Iterator[None]:
    """Note how many vectors each input gives."""
    hooks = []
    for key, module in model.named_modules():
        if key == "input" or re.fullmatch(r"towers\.\w+\.input", key):

            def note(_: Any, __: Any, given: Any, key: str = key) -> None:
                positions[key] = given.states.shape[0] * given.states.shape[1]

            hooks.append(module.register_forward_hook(note))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class Shadow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands operations with numbers to PyTorch, all others to the fake mode, and counts."""

    def __init__(self, answer: bool = True) -> None:
        """`answer` is what a question says whose answer depends on numbers."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace, self.answer = Trace(), answer
        self.alive = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
        if not any(isinstance(each, FakeTensor) for each in tensors):
            if tensors or _is_small_count(func, args, kwargs):
                with _disable_current_modes():
                    out = func(*args, **kwargs)
                self._note(func, 0, (), tensors, out)
                return out
        elif func in (aten._local_scalar_dense.default, aten.item.default):
            return self.answer if tensors[0].dtype == torch.bool else 1
        if func in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default):
            args = (args[0], _places(args[1]), *args[2:])
        out = (STAND_INS.get(func._overloadpacket) or func)(*args, **kwargs)
        self._count(func, args, kwargs, out, tensors)
        return out

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any, tensors: list[Tensor]) -> None:
        made = [each for each in tree_flatten(out)[0] if isinstance(each, Tensor)]
        for each in made:
            self._hold(each)
        flops = self._flops(func._overloadpacket, args, kwargs, out)
        multiplied = products(str(func._overloadpacket), args, made) if flops else ()
        self._note(func, flops, multiplied, tensors, out)
        self.trace.peak_bytes = max(self.trace.peak_bytes, self.alive)

    def _note(
        self, func: Any, flops: int, multiplied: Products, tensors: list[Tensor], out: Any
    ) -> None:
        """Add a call to those of its kind, unless it only looks at memory in another way."""
        if func.is_view or func.namespace == "prim":
            return
        name = str(func._overloadpacket)
        made = [each for each in tree_flatten(out)[0] if isinstance(each, Tensor)]
        found = self.trace.operations.setdefault((name, multiplied), Operation(name, multiplied))
        found.count += 1
        found.flops += flops
        found.bytes += sum(each.numel() * each.itemsize for each in touched(name, tensors, made))
        self.trace.flops += flops

    def _flops(self, packet: Any, args: Any, kwargs: Any, out: Any) -> int:
        if formula := FLOPS.get(str(packet)):
            return formula(*args, **kwargs)
        in_place = str(packet).removeprefix("aten.")
        packet = getattr(aten, in_place.removesuffix("_")) if in_place in IN_PLACE else packet
        if packet in flop_registry:
            return int(flop_registry[packet](*args, **kwargs, out_val=out))
        return 0

    def _hold(self, tensor: Tensor) -> None:
        """Count a storage until nobody holds it."""
        storage = tensor.untyped_storage()
        if (key := storage._cdata) in self._known:
            return
        size = storage.nbytes()
        self._known.add(key)
        self.alive += size
        weakref.finalize(storage, self._free, key, size).atexit = False

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.alive -= size


def _is_small_count(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether what is made out of nothing is whole numbers, and not many."""
    if func is aten.empty.memory_format:
        return False
    dtype = kwargs.get("dtype")
    if dtype is None:
        dtype = torch.int64 if func._overloadpacket is aten.arange else torch.float32
    if dtype.is_floating_point or dtype.is_complex:
        return False
    sizes = args[0] if args and isinstance(args[0], list | tuple) else ()
    return math.prod(int(size) for size in sizes) <= REAL


def _places(indices: Any) -> list[Any]:
    """Truth values as the places where they are true."""
    found: list[Any] = []
    for each in indices:
        if (
            isinstance(each, Tensor)
            and each.dtype == torch.bool
            and not isinstance(each, FakeTensor)
        ):
            with _disable_current_modes():
                found += each.nonzero().unbind(1)
        else:
            found.append(each)
    return found
