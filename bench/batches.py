"""The batches that all contestants of a benchmark train on, in a file."""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.peers import HOME
from regard.data import batching, catalogue, tokenizers
from regard.data.readers import Policy, Report
from regard.data.tables import parallel
from regard.data.tokenizers import Tokenizer
from regard.decoding.translation import collate
from regard.errors import UserError
from regard.recipe import config
from regard.recipe.parts import module
from regard.types import Position

Plan = Sequence[NDArray[np.int64]]


def folder_of(options: argparse.Namespace, name: str = "multi30k") -> Path:
    """Where a data set is."""
    if not options.data:
        return catalogue.find(name)
    folder = Path(options.data) / name
    if not folder.is_dir():
        raise UserError(f"--data {options.data}: there is no folder {name} in it")
    return folder


def pairs(options: argparse.Namespace) -> list[tuple[str, ...]]:
    """multi30k's sentences, English and German."""
    folder = folder_of(options)
    paths = [folder / f"train.lc.norm.tok.{language}" for language in ("en", "de")]
    return [fields for _, fields in parallel(paths, ("source", "target"), Policy(), Report())]


class Corpus:
    """multi30k as tokens."""

    def __init__(self, options: argparse.Namespace, symbols: int) -> None:
        given = pairs(options)
        settings = tokenizers.Config(vocabulary=symbols, split="whitespace")
        tokenizer = Tokenizer.train(settings, (text for pair in given for text in pair))
        self.sources, self.targets = (
            tokenizer.encode(list(side)) for side in zip(*given, strict=True)
        )
        self.lengths = np.array(
            [[len(s) + 1, len(t) + 1] for s, t in zip(self.sources, self.targets, strict=True)]
        )

    def by_length(self, tokens: int) -> Plan:
        """An epoch's batches as regard plans them: sentences of like length."""
        limits = batching.Config(tokens=tokens)
        return batching.Batches(self.lengths, _no_batch, limits, seed=1).epoch(0)

    def at_random(self, tokens: int) -> Plan:
        """Batches of any sentences, as many as have room with their padding."""
        order = np.random.default_rng(1).permutation(len(self.lengths))
        plan, start, longest = [], 0, 0
        for n, length in enumerate(self.lengths[order].max(1).tolist()):
            longest = max(longest, length)
            if longest * (n + 1 - start) > tokens:
                plan.append(order[start:n])
                start, longest = n, length
        return plan

    def write(self, plan: Plan, name: str) -> tuple[Path, dict[str, float]]:
        """The batches of a plan, in a file; how many tokens are real, and the share of padding."""
        made = [
            collate([self.sources[n] for n in ids], [self.targets[n] for n in ids]) for ids in plan
        ]
        chosen = self.lengths[np.concatenate(list(plan))].sum(0)
        size = sum(batch["source"].numel() + batch["target_in"].numel() for batch in made)
        about = {"sources": float(chosen[0]), "targets": float(chosen[1])}
        about["padding"] = 1 - float(chosen.sum()) / size
        return write([batch.tensors for batch in made], name), about


def write(batches: Sequence[Mapping[str, Any]], name: str) -> Path:
    """Named tensors of each batch."""
    HOME.mkdir(exist_ok=True)
    path = HOME / f"{name}.npz"
    arrays = {f"{k}.{n}": t.numpy() for k, b in enumerate(batches) for n, t in b.items()}
    np.savez(path, count=np.array(len(batches)), **arrays)
    return path


def of_recipe(recipe: dict[str, Any], name: str, count: int) -> tuple[Path, dict[str, Any]]:
    """The first batches of any recipe, as `regard train` makes them; the sizes of its model."""
    loaded = config.recipe(recipe)
    folder = HOME / name
    if not (folder / "prepared").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        module("tasks", loaded.kind).plan(loaded.task).prepare(folder, None)
        (folder / "prepared").touch()
    task = module("tasks", loaded.kind).Task(loaded.task, folder)
    batches, position, made = task.batches(1), Position(), []
    for _ in range(count):
        made.append(batches.at(position).tensors)
        position = batches.after(position)
    return write(made, name), asdict(task.sizes)


def _no_batch(ids: Sequence[int], draw: batching.Draw) -> Any:
    raise AssertionError("only the plan is wanted")
