"""A model whose weights, gradients and moments are divided among the ranks (FSDP2, ZeRO 3).

Each rank keeps 1/R of every parameter (Zhao et al. 2023). The weights of a unit, a block of a
Transformer, are gathered before it computes and dropped after it; its gradients are summed where
they are kept (`torch.distributed.fsdp.fully_shard`). Each pass is a call to all ranks, so all make
the same number of passes: who has fewer parts of an update repeats a row, with 0 for its loss.

Checkpoints are torch.distributed.checkpoint's safetensors: each rank writes its own shards, and any
number of ranks reads them. Plans are made by each rank for itself: to exchange them would pickle.
"""

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.errors import UserError
from regard.types import Units

CARRY = "carry.safetensors"


def shard(objective: nn.Module, ranks: int, device: torch.device) -> None:
    """Divide an objective's weights among all ranks, unit by unit; what is in none is gathered for
    the whole of a pass."""
    # Nobody changes in place what a unit gives.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")
    mesh = init_device_mesh(device.type, (ranks,))
    found = [m for m in objective.modules() if isinstance(m, Units)]
    for unit in dict.fromkeys(unit for module in found for unit in module.units()):
        if any(parameter.requires_grad for parameter in unit.parameters()):
            fully_shard(unit, mesh=mesh)
    fully_shard(objective, mesh=mesh, reshard_after_forward=False)
    for module in objective.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # counts are of all ranks: gradients are summed
            module.set_force_sum_reduction_for_comms(True)  # gloo has no other


def sync(objective: nn.Module, *, last: bool) -> None:
    """Whether the next backward pass sums gradients over all ranks, and lets go of the weights."""
    assert isinstance(objective, FSDPModule)
    objective.set_requires_gradient_sync(last)
    objective.set_is_last_backward(last)


def own(tensor: Tensor) -> Tensor:
    """What this rank has of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor: a call to all ranks where it is divided."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def fill(plain: nn.Module, model: nn.Module) -> None:
    """Copy the weights of a divided model into one that is not: a call to all ranks."""
    theirs = dict(plain.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            theirs[name].copy_(whole(parameter))


def give(model: nn.Module, plain: nn.Module) -> None:
    """The other way round: each rank takes what it keeps of the weights that all have."""
    theirs = dict(plain.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            given = theirs[name].detach()
            if isinstance(parameter, DTensor):
                mesh, placed = parameter.device_mesh, parameter.placements
                given = distribute_tensor(given, mesh, placed, src_data_rank=None)
            parameter.copy_(given)


# Checkpoints


class _Writer(HuggingFaceStorageWriter):
    """Names the files by the rank that writes them: each plans for itself."""

    def __init__(self, path: Path, rank: int, files: Mapping[str, int]) -> None:
        super().__init__(str(path), dict(files), save_distributed=True)
        self._rank = rank

    def prepare_global_plan(self, plans: Any) -> Any:
        made = super().prepare_global_plan(plans)
        return [
            dataclasses.replace(
                plan, storage_data=plan.storage_data | {"shard_index": self._rank + 1}
            )
            for plan in made
        ]


class _Reader(HuggingFaceStorageReader):
    """Reads weights and optimizer, in shards or not, and nothing else of a checkpoint."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))

    def read_metadata(self) -> Any:
        found = super().read_metadata()
        places: dict[Any, Any] = found.storage_data
        other = {i.fqn for i, at in places.items() if Path(at.relative_path).name == CARRY}
        found.storage_data = {i: at for i, at in places.items() if i.fqn not in other}
        entries = found.state_dict_metadata.items()
        found.state_dict_metadata = {name: e for name, e in entries if name not in other}
        return found


@contextmanager
def _quiet() -> Iterator[None]:
    """That each rank plans for itself is meant so."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        yield


def save(
    folder: Path, weights: Mapping[str, Tensor], optimizer: Mapping[str, Tensor], rank: int
) -> None:
    """Write this rank's shards: of the weights into one file, of the optimizer into another. What
    is not divided, rank 0 writes."""
    state = {
        name: tensor
        for name, tensor in (*weights.items(), *optimizer.items())
        if (own(tensor).numel() if isinstance(tensor, DTensor) else rank == 0)
    }
    files = {name: 2 if name in optimizer else 1 for name in (*weights, *optimizer)}
    try:
        with _quiet():
            save_shards(state, storage_writer=_Writer(folder, rank, files), no_dist=True)
    except CheckpointException as error:
        reason = "; ".join(str(each) for each, _ in error.failures.values())
        raise UserError(f"{folder} could not be written: {reason}") from None


def load(folder: Path, into: Mapping[str, Tensor]) -> None:
    """Read the parts that this rank has of some tensors, whoever has written them."""
    reader = _Reader(folder)
    try:
        with _quiet():
            load_shards(dict(into), storage_reader=reader, no_dist=True)
    except (CheckpointException, *_FORGED) as error:
        raise UserError(f"{folder}: its shards cannot be read: {error}") from None


def shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Of all tensors in shards. Their parts must be those of a whole, without gaps."""
    try:
        found = _Reader(folder).read_metadata().state_dict_metadata
        sizes: dict[str, tuple[int, ...]] = {}
        for name, entry in found.items():
            sizes[name] = tuple(entry.size)
            parts = sum(chunk.sizes.numel() for chunk in entry.chunks)
            if parts != entry.size.numel():
                raise ValueError(f"{name} has {parts:,} numbers, but the shape {sizes[name]}")
    except _FORGED as error:
        raise UserError(f"{folder}: its shards cannot be read: {error}") from None
    return sizes


def read(folder: Path, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """Those whole tensors that are wanted, by name."""
    found = _Reader(folder)
    names = {name: size for name, size in shapes(folder).items() if wanted(name)}
    kinds = found.read_metadata().state_dict_metadata
    made = {
        name: torch.empty(size, dtype=kinds[name].properties.dtype) for name, size in names.items()
    }
    load(folder, made)
    return made


_FORGED = (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError, AssertionError)
"""What a file brings about that nobody has written so."""


def restore(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Give a divided model and its optimizer the state of a checkpoint, in shards or not."""
    parameters = dict(model.named_parameters())
    load(folder, {name: parameter.detach() for name, parameter in parameters.items()})
    made: dict[str, Tensor] = {}
    for key, size in shapes(folder).items():
        name, _, entry = key.rpartition("/")
        if name not in parameters:
            continue
        like = parameters[name]
        if size != (() if entry == "step" else tuple(like.shape)):
            raise UserError(f"{folder}: the state of {name!r} is of another model: {size}")
        step = torch.zeros((), dtype=torch.float32)
        made[key] = step if entry == "step" else torch.zeros_like(like).detach()
    load(folder, made)
    fused = any(group.get("fused") for group in optimizer.param_groups)
    for key, tensor in made.items():
        name, _, entry = key.rpartition("/")
        here = entry == "step" and fused
        placed = tensor.to(parameters[name].device) if here else tensor
        optimizer.state[parameters[name]][entry] = placed
