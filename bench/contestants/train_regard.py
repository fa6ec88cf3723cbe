"""regard's own loop: exactly what `regard train` does for an update.

`without` names a measure for speed that is switched off, so that its gain can be seen.
"""

import time
from types import SimpleNamespace

import torch
from protocol import OPTIONS, batches, serve

from regard.layers.allocator import bound_caches, keep_pages
from regard.model import build
from regard.recipe import config
from regard.recipe.parts import module
from regard.train import device, team
from regard.train.job import make
from regard.train.loop import begin, step
from regard.train.progress import Progress
from regard.types import Batch, Position, Sizes


def counted(tensors):
    """How many targets a batch has."""
    for name in ("target_mask", "source_masked"):
        if name in tensors:
            return int(tensors[name].sum())
    return len(tensors["labels"])


def part(batch, rows):
    """Some of its examples, without the padding that only others need."""
    tensors = {name: tensor[rows] for name, tensor in batch.tensors.items()}
    for name, mask in [(n, t) for n, t in tensors.items() if n.endswith("mask")]:
        width = int(mask.sum(1).max())
        side = name.removesuffix("_mask")
        tensors |= {n: t[:, :width] for n, t in tensors.items() if n.startswith(side)}
    return Batch(tensors=tensors, ids=batch.ids[rows], targets=counted(tensors))


class Given:
    """Batches that are given, one after the other, for ever."""

    def __init__(self):
        made = [{name: torch.from_numpy(a) for name, a in batch.items()} for batch in batches()]
        self.batches = [
            Batch(tensors=t, ids=tuple(range(len(next(iter(t.values()))))), targets=counted(t))
            for t in made
        ]

    def at(self, position, rows=slice(None)):
        whole = self.batches[position.index % len(self.batches)]
        return whole if rows == slice(None) else part(whole, rows)

    def after(self, position):
        return Position(0, position.index + 1)


def switch_off(measure):
    """Put the usual way in the place of ours."""
    from regard.heads import vocabulary
    from regard.layers import cross_entropy, dropout, recurrent, residual, short_attention

    if measure == "byte dropout":
        functional = torch.nn.functional.dropout
        dropout.dropout = functional
        residual.dropout_add = lambda y, x, p, training: x + functional(y, p, training)
    elif measure == "short attention":
        short_attention.suits = lambda states, keys: False
    elif measure == "chunked loss":

        def plain(states, weight, bias, symbols, smoothing, *, precision):
            logits = torch.nn.functional.linear(states, weight, bias)
            loss = torch.nn.functional.cross_entropy
            smoothed = loss(logits, symbols, label_smoothing=smoothing, reduction="sum")
            return smoothed, loss(logits.detach(), symbols, reduction="sum")

        assert vocabulary.cross_entropy is cross_entropy.cross_entropy
        vocabulary.cross_entropy = plain
    elif measure == "rows without packing":
        recurrent.Recurrent.read = lambda self, x, mask=None, reverse=False: self(
            x, None, torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask,
            reverse=reverse,
        )[0]  # fmt: skip
    elif measure == "halves":
        team.MOST = 1
    else:
        assert measure in ("", "bfloat16", "kept pages", "batches by length"), measure


def main():
    without = OPTIONS.get("without", "")
    switch_off(without)
    bound_caches()
    if without != "kept pages":
        keep_pages()
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    exact = {"precision": "float32"} if without == "bfloat16" else {}
    on = {"device": "cpu", "threads": OPTIONS["threads"]}
    asked = OPTIONS["recipe"]["train"] | on | exact
    recipe = config.recipe(OPTIONS["recipe"] | {"train": asked})
    settings = device.settle(recipe.train)
    task = module("tasks", recipe.kind).Task
    model = build(recipe.model, Sizes(**OPTIONS["sizes"]))
    itself = SimpleNamespace(
        streams=False, first=None, _weights=None, _targets=lambda batch: batch["labels"]
    )  # all that a loss needs of its task

    def loss(*given):
        return task.loss(itself, *given)

    job = make(model, loss, Given(), settings, seed=1, dim=recipe.model.dim)
    state = begin(job, Progress())
    seconds = OPTIONS.get("seconds", 0)  # of a round, at least

    def work():
        counted, done, start = 0, 0, time.perf_counter()
        while done < OPTIONS["updates"] or time.perf_counter() - start < seconds:
            batch, what = job.batches.at(state.progress.position), OPTIONS["counted"]
            counted += len(batch) if what == "examples" else int(batch[what].sum())
            step(job, state)
            done += 1
        return counted

    serve(work, parameters=model.size(), precision=settings.precision)


main()
