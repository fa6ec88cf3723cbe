"""What is needed to go on: written whole or not at all, and checked before it is used.

    checkpoints/00001000/
        model.safetensors       parameters, a tied one once
        optimizer.safetensors   its state, by parameter name
        carry.safetensors       what the chunk of running text before handed on, if anything
        shard-*.safetensors     instead of both, where they were divided among ranks
                                (`sharding.py`)
        progress.json           where the run stands
        manifest.json           see manifest.py

A folder is written under a temporary name, synced, hashed, and renamed: a reader sees all of it
or nothing. Nothing is ever unpickled.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import UserError
from regard.recipe import checked
from regard.train import lock, manifest
from regard.train.manifest import Files, sync
from regard.train.progress import Progress
from regard.types import Positive

WEIGHTS, MOMENTS = "model.safetensors", "optimizer.safetensors"
SHARD = "shard-"
"""How the file of a shard begins."""
FINAL = {"mean_of", "calibration"}
"""What the final model's progress says beside where the run stood."""
UNFINISHED = ".writing-"
REMOVED = ".removing-"


@dataclass(frozen=True)
class Checkpoint:
    """A folder that holds a whole checkpoint."""

    folder: Path

    @property
    def update(self) -> int:
        return int(self.folder.name)

    @property
    def run(self) -> Path:
        """The folder of the run that it is in."""
        numbered = self.folder.parent.name == "checkpoints"
        return self.folder.parent.parent if numbered else self.folder.parent

    def manifest(self) -> dict[str, Any]:
        return manifest.read(self.folder)

    def progress(self) -> dict[str, Any]:
        """As it stands in the file, with what the final model's adds."""
        return checked.read(self.folder / "progress.json")

    def standing(self) -> Progress:
        """Where the run stood; a beginning that is another run's has not said."""
        table = self.progress()
        stood = {name: value for name, value in table.items() if name not in FINAL}
        return Progress.from_dict(stood) if table else Progress()

    @property
    def sharded(self) -> bool:
        """Whether weights and optimizer are in shards."""
        return any(self.folder.glob(f"{SHARD}*"))

    def weights(self) -> dict[str, Tensor]:
        if self.sharded:
            from regard.train import sharding

            return sharding.read(self.folder, lambda name: "/" not in name)
        return _tensors(self.folder / WEIGHTS)

    def sha256(self) -> str:
        """Of the weights; of those in shards, of their hashes."""
        files = self.manifest()["files"]
        if WEIGHTS in files:
            return str(files[WEIGHTS]["sha256"])
        found = "".join(e["sha256"] for n, e in sorted(files.items()) if n.startswith(SHARD))
        return hashlib.sha256(found.encode()).hexdigest()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the weights, without reading them."""
        if self.sharded:
            from regard.train import sharding

            return {n: size for n, size in sharding.shapes(self.folder).items() if "/" not in n}
        with safe_open(self.folder / WEIGHTS, "pt") as file:
            names: list[str] = file.keys()
            return {name: tuple(file.get_slice(name).get_shape()) for name in names}

    def optimizer(self) -> dict[str, Tensor]:
        if self.sharded:
            from regard.train import sharding

            return sharding.read(self.folder, lambda name: "/" in name)
        return _tensors(self.folder / MOMENTS)

    def carry(self) -> dict[str, Tensor]:
        path = self.folder / "carry.safetensors"
        return _tensors(path) if path.is_file() else {}

    def fault(self, *, resumable: bool = False) -> str | None:
        """What is wrong with it, or None: all files there, right in size and hash, no others, and
        the run's files those that it was made with. With `resumable`, training can go on."""
        needed = {"progress.json"}
        if not self.sharded:
            needed |= {WEIGHTS, MOMENTS} if resumable else {WEIGHTS}
        try:
            listed = self.manifest()
            if fault := manifest.fault(self.folder, listed["files"]):
                return fault
            found = (file for file in self.folder.iterdir() if not manifest.is_clutter(file))
            there = {file.name for file in found} - {manifest.NAME}
            for name in sorted((there | needed) - listed["files"].keys()):
                return f"{name} is not in the manifest"
            if fault := manifest.fault(self.run, manifest.needed(listed["run"])):
                return f"of another run, or {fault}"
            update = self.standing().update
            if _numbered(self.folder) and update != self.update:
                return f"it holds update {update}"
        except (OSError, ValueError, UserError) as error:
            return str(error)
        return None


def _tensors(path: Path) -> dict[str, Tensor]:
    """All of a file. A shape that torch cannot have is the file's fault."""
    try:
        return load_file(path)
    except (SafetensorError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None


def save(
    folder: Path,
    weights: Mapping[str, Tensor] | None,
    progress: Mapping[str, Any],
    optimizer: Mapping[str, Tensor] | None = None,
    carry: Mapping[str, Tensor] | None = None,
    *,
    run: Files | None = None,
    records: Files | None = None,
    shards: Callable[[Path], None] | None = None,
) -> Checkpoint:
    """Write `folder` whole, in place of what was there; weights and optimizer by `shards`, if it is
    given, which is called with the folder that is being written.

    `run` is what the run was made with, `records` what its file of records begins with.
    """
    run_folder = Checkpoint(folder).run
    lock.check(run_folder)
    writing = unfinished(folder)
    tensors = {"model": weights, "optimizer": optimizer, "carry": carry or None}
    try:
        _clear(writing)
        _make(writing)
        for name, values in tensors.items():
            if values is not None:
                stored = {key: value.detach().cpu().contiguous() for key, value in values.items()}
                save_file(stored, writing / f"{name}.safetensors")
        if shards is not None:
            shards(writing)
        text = json.dumps(progress, indent=1)
        (writing / "progress.json").write_text(text, encoding="utf-8", newline="\n")
        files = {file.name: file for file in writing.iterdir()}
        manifest.write(writing, files, run or {}, records or {})
        lock.check(run_folder)
        put(writing, folder)
    except (OSError, SafetensorError) as error:
        lock.check(run_folder)
        shutil.rmtree(writing, ignore_errors=True)
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{folder} could not be written: {reason}. "
            "Earlier checkpoints are whole: make room, then resume"
        ) from None
    return Checkpoint(folder)


def unfinished(folder: Path) -> Path:
    """What a folder is called while it is written."""
    return folder.with_name(f"{UNFINISHED}{folder.name}")


def put(writing: Path, folder: Path) -> None:
    """Give a folder that is written its name; one that has the name goes after that."""
    old = folder.with_name(f"{REMOVED}{folder.name}")
    if folder.exists():
        _clear(old)
        folder.rename(old)
    writing.rename(folder)
    sync(folder.parent)
    _clear(old)


def remove(folder: Path) -> None:
    """Remove a folder so that nobody ever sees a part of it under its name."""
    lock.check(Checkpoint(folder).run)
    hidden = folder.with_name(f"{REMOVED}{folder.name}")
    _clear(hidden)
    try:
        folder.rename(hidden)
    except PermissionError:
        if os.name != "nt":
            raise
        return  # somebody reads it, and Windows then lets it be; it goes another time
    _clear(hidden)


def _clear(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _make(folder: Path) -> None:
    """Make a folder, and the one that it is in, but no run's; each one's name is on the disk."""
    if not folder.parent.exists():
        folder.parent.mkdir()
        sync(folder.parent.parent)
    folder.mkdir()
    sync(folder.parent)


def _numbered(folder: Path) -> bool:
    return re.fullmatch(r"[0-9]+", folder.name) is not None


def checkpoints(folder: Path) -> list[Checkpoint]:
    """All that are there, oldest first, whole or not."""
    found = [f for f in folder.iterdir() if _numbered(f)] if folder.is_dir() else []
    return [Checkpoint(f) for f in sorted(found, key=lambda f: int(f.name))]


def newest(folder: Path, *, resumable: bool = False) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint, and what is wrong with newer ones, which are kept."""
    faults: list[str] = []
    for checkpoint in reversed(checkpoints(folder)):
        fault = checkpoint.fault(resumable=resumable)
        if fault is None:
            return checkpoint, faults
        if checkpoint.folder.exists():  # else the run trains, and has removed it meanwhile
            faults.append(f"{checkpoint.folder}: {fault}")
    return None, faults


def set_aside(folder: Path, newest: Checkpoint | None) -> None:
    """Damaged checkpoints after the newest whole one get another name; unfinished ones go."""
    for left in (*folder.glob(f"{UNFINISHED}*"), *folder.glob(f"{REMOVED}*")):
        _clear(left)
    for damaged in checkpoints(folder):
        if newest is None or damaged.update > newest.update:
            keep_damaged(damaged)


def keep_damaged(checkpoint: Checkpoint) -> None:
    """Out of the way, under a name that says what it is."""
    lock.check(checkpoint.run)
    folder = checkpoint.folder
    name, number = f"{folder.name}.damaged", 1
    while folder.with_name(name).exists():
        number += 1
        name = f"{folder.name}.damaged-{number}"
    folder.rename(folder.with_name(name))


def average(found: list[Checkpoint]) -> dict[str, Tensor]:
    """θ̄ = (1/n) Σ_i θ_i, summed in float64. All must be of the same model."""
    total: dict[str, Tensor] = {}
    for checkpoint in found:
        weights = checkpoint.weights()
        check_finite(weights, str(checkpoint.folder))
        shapes = [
            {name: tensor.shape for name, tensor in each.items()} for each in (weights, total)
        ]
        if total and shapes[0] != shapes[1]:
            raise UserError(f"{checkpoint.folder} is of another model than {found[0].folder}")
        for name, tensor in weights.items():
            wide = tensor.double()
            total[name] = wide if name not in total else total[name].add_(wide)
    return {name: (tensor / len(found)).float() for name, tensor in total.items()}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters by name; a tied one under the name that comes first."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def put_weights(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    source: str,
    names: Collection[str] | None = None,
) -> None:
    """Copy `weights` into the model; names (or those that are given) and shapes must be the model's
    own, and all finite."""
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    check_shapes(model, shapes, source, names)
    check_finite(weights, source)
    for place, module in model.named_modules():
        positive = module.positive if isinstance(module, Positive) else ()
        for name in (f"{place}.{each}" for each in positive):
            if name in weights and not bool((weights[name] > 0).all()):
                raise UserError(f"{source}: {name} is not above 0")
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in weights.items():
            own[name].copy_(tensor)


def check_finite(tensors: Mapping[str, Tensor], source: str) -> None:
    """Refuse numbers that are never saved."""
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            shown = ascii(name[:255])[1:-1]  # it may be a forger's
            raise UserError(f"{source}: {shown} has numbers that are not finite")


def check_shapes(
    model: nn.Module,
    given: Mapping[str, tuple[int, ...]],
    source: str,
    names: Collection[str] | None = None,
) -> None:
    """Refuse weights whose names (or those that are given) or shapes are not the model's own."""
    own = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    if names is not None:
        own = {name: shape for name, shape in own.items() if name in names}
    missing, extra = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
    if missing or extra:
        raise UserError(f"{source} is of another model: lacks {missing[:3]}, has {extra[:3]}")
    for name, shape in own.items():
        if given[name] != shape:
            raise UserError(f"{source}: {name} has shape {given[name]}, the model's is {shape}")


def optimizer_of(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's state as `parameter/entry`."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}/{entry}": value
        for parameter, entries in optimizer.state.items()
        for entry, value in entries.items()
    }


def put_optimizer(
    optimizer: torch.optim.Optimizer,
    model: nn.Module,
    state: Mapping[str, Tensor],
    source: str = "the optimizer",
) -> None:
    """Give an optimizer its state again: for each parameter that has any, all of it."""
    check_finite(state, source)
    own = {name: p for name, p in model.named_parameters() if p.requires_grad}
    entries: dict[str, dict[str, Tensor]] = {}
    for key, value in state.items():
        name, _, entry = key.rpartition("/")
        entries.setdefault(name, {})[entry] = value
    fused = {p for group in optimizer.param_groups for p in group["params"] if group.get("fused")}
    for name, found in entries.items():
        if (parameter := own.get(name)) is None or not _is_state(found, parameter):
            shapes = {entry: tuple(value.shape) for entry, value in found.items()}
            raise UserError(f"{source}: the state of {name!r} is of another model: {shapes}")
        for entry, value in found.items():
            # Moments live with their parameter, the step counter only where one kernel does it all.
            here = entry != "step" or parameter in fused
            placed = value.to(parameter.device) if here else value
            optimizer.state[parameter][entry] = placed.clone()


def _is_state(found: Mapping[str, Tensor], parameter: Tensor) -> bool:
    """Whether these are the moments of a parameter, and how often it was updated."""
    moments = {"exp_avg", "exp_avg_sq"}
    if found.keys() != moments | {"step"} or found["step"].shape != torch.Size():
        return False
    shaped = all(found[entry].shape == parameter.shape for entry in moments)
    return shaped and bool((found["exp_avg_sq"] >= 0).all()) and float(found["step"]) >= 1
