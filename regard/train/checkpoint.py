"""What is needed to go on: written whole or not at all, and checked before it is used.

    checkpoints/00001000/
        model.safetensors       parameters, a tied one once
        optimizer.safetensors   its state, by parameter name
        carry.safetensors       what the chunk of running text before handed on, if anything
        progress.json           where the run stands
        manifest.json           format version, and size and SHA-256 of the files above

A folder is written under a temporary name, synced, and renamed: a reader sees all of it or
nothing. Nothing is ever unpickled.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import UserError

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Checkpoint:
    """A folder that holds a whole checkpoint."""

    folder: Path

    @property
    def update(self) -> int:
        return int(self.folder.name)

    def progress(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "progress.json").read_text())
        return loaded

    def weights(self) -> dict[str, Tensor]:
        return load_file(self.folder / "model.safetensors")

    def optimizer(self) -> dict[str, Tensor]:
        return load_file(self.folder / "optimizer.safetensors")

    def carry(self) -> dict[str, Tensor] | None:
        path = self.folder / "carry.safetensors"
        return load_file(path) if path.is_file() else None

    def fault(self) -> str | None:
        """What is wrong with it, or None: every file there, of the right size and hash."""
        try:
            manifest = json.loads((self.folder / MANIFEST).read_text())
            if manifest["format"] != FORMAT:
                return f"format {manifest['format']}, but this version reads {FORMAT}"
            for name, expected in manifest["files"].items():
                if Path(name).name != name:
                    return f"{name!r} is not a plain file name"
                path = self.folder / name
                if path.is_symlink() or not path.is_file():
                    return f"{name} is missing"
                if path.stat().st_size != expected["size"] or _hash(path) != expected["sha256"]:
                    return f"{name} is damaged"
            missing = {"model.safetensors", "progress.json"} - set(manifest["files"])
            return f"{missing.pop()} is not in the manifest" if missing else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return f"{MANIFEST}: {type(error).__name__}: {error}"


def save(
    folder: Path,
    weights: Mapping[str, Tensor],
    progress: Mapping[str, Any],
    optimizer: Mapping[str, Tensor] | None = None,
    carry: Mapping[str, Tensor] | None = None,
) -> Checkpoint:
    """Write `folder` whole, in place of what was there."""
    writing = folder.with_name(f".writing-{folder.name}")
    shutil.rmtree(writing, ignore_errors=True)
    try:
        writing.mkdir(parents=True)
        save_file(_contiguous(weights), writing / "model.safetensors")
        if optimizer is not None:
            save_file(_contiguous(optimizer), writing / "optimizer.safetensors")
        if carry:
            save_file(_contiguous(carry), writing / "carry.safetensors")
        (writing / "progress.json").write_text(json.dumps(progress, indent=1))
        files = {
            f.name: {"size": f.stat().st_size, "sha256": _hash(f)}
            for f in sorted(writing.iterdir())
        }
        (writing / MANIFEST).write_text(json.dumps({"format": FORMAT, "files": files}, indent=1))
        for file in writing.iterdir():
            sync(file)
        sync(writing)
        if folder.exists():
            shutil.rmtree(folder)
        writing.rename(folder)
        sync(folder.parent)
    except OSError as error:
        shutil.rmtree(writing, ignore_errors=True)
        raise UserError(
            f"{folder} could not be written: {error.strerror or error}. "
            "Earlier checkpoints are whole: make room, then resume"
        ) from None
    return Checkpoint(folder)


def checkpoints(folder: Path) -> list[Checkpoint]:
    """All that are there, oldest first, whole or not."""
    found = [f for f in folder.glob("[0-9]*") if f.name.isdigit()] if folder.is_dir() else []
    return [Checkpoint(f) for f in sorted(found, key=lambda f: int(f.name))]


def newest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint, and what is wrong with newer ones, which are kept."""
    faults: list[str] = []
    for checkpoint in reversed(checkpoints(folder)):
        fault = checkpoint.fault()
        if fault is None:
            return checkpoint, faults
        faults.append(f"{checkpoint.folder}: {fault}")
    return None, faults


def set_aside(folder: Path, newest: Checkpoint | None) -> None:
    """Damaged checkpoints after the newest whole one get another name; unfinished ones go."""
    for unfinished in folder.glob(".writing-*"):
        shutil.rmtree(unfinished)
    for damaged in checkpoints(folder):
        if newest is None or damaged.update > newest.update:
            aside = damaged.folder.with_name(f"{damaged.folder.name}.damaged")
            shutil.rmtree(aside, ignore_errors=True)
            damaged.folder.rename(aside)


def average(found: list[Checkpoint]) -> dict[str, Tensor]:
    """θ̄ = (1/n) Σ_i θ_i, summed in float64."""
    total: dict[str, Tensor] = {}
    for checkpoint in found:
        for name, tensor in checkpoint.weights().items():
            wide = tensor.double()
            total[name] = wide if name not in total else total[name].add_(wide)
    return {name: (tensor / len(found)).float() for name, tensor in total.items()}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters by name; a tied one under the name that comes first."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def put_weights(model: nn.Module, weights: Mapping[str, Tensor], source: str) -> None:
    """Copy `weights` into the model; names and shapes must be the model's own."""
    own = dict(model.named_parameters())
    missing, extra = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
    if missing or extra:
        raise UserError(f"{source} is of another model: lacks {missing[:3]}, has {extra[:3]}")
    with torch.no_grad():
        for name, parameter in own.items():
            if parameter.shape != weights[name].shape:
                raise UserError(
                    f"{source}: {name} has shape {tuple(weights[name].shape)}, "
                    f"the model's is {tuple(parameter.shape)}"
                )
            parameter.copy_(weights[name])


def optimizer_of(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's state as `parameter/entry`."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}/{entry}": value
        for parameter, entries in optimizer.state.items()
        for entry, value in entries.items()
    }


def put_optimizer(
    optimizer: torch.optim.Optimizer, model: nn.Module, state: Mapping[str, Tensor]
) -> None:
    own = dict(model.named_parameters())
    for key, value in state.items():
        name, _, entry = key.rpartition("/")
        parameter = own[name]
        # The step counter stays where the optimizer made it; moments live with their parameter.
        placed = value if entry == "step" else value.to(parameter.device)
        optimizer.state[parameter][entry] = placed.clone()


def sync(path: Path) -> None:
    """Have the kernel put it on the disk. (Folders cannot be synced on Windows.)"""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _contiguous(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
