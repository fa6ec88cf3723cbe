"""Hugging Face's MarianMT as in `train_huggingface.py`, but under `torch.compile`.

Model and loss are compiled once for any shape, and once for a few fixed shapes, to which batches
are padded. Both are tried, and the faster one takes part.
"""

import os
import tempfile
import time

import torch
from marian import Trainer, data
from protocol import OPTIONS, serve, unable
from shapes import common, positions

SHAPES = OPTIONS["shapes"]
"""So many fixed shapes: each is compiled by itself, which takes half a minute."""


def shape_of(batch):
    return (*batch["source"].shape, batch["target_in"].shape[1])


def padded(batch, to):
    """The batch with zeros, which no mask shows, up to a shape."""
    rows, sources, targets = to
    widths = {"source": sources, "target": targets}
    return {
        name: torch.nn.functional.pad(
            tensor,
            (0, widths[name.partition("_")[0]] - tensor.shape[1], 0, rows - len(tensor)),
        )
        for name, tensor in batch.items()
    }


def tried(work):
    """What is seen of a function that compiles when it is first called."""
    torch._dynamo.reset()  # else what was compiled for any shape is taken for fixed ones, too
    times = []
    for _ in range(3):
        start = time.perf_counter()
        counted = work()
        times.append(time.perf_counter() - start)
    best = min(times[1:])
    return {"compile seconds": round(times[0] - best, 1), "rate": round(counted / best, 1)}


def compiled(trainer, given):
    """The faster of two ways to compile, and what was seen of both."""
    shapes = common([shape_of(batch) for batch in given], SHAPES)
    fixed = [padded(batch, shapes[shape_of(batch)]) for batch in given]
    torch._dynamo.config.recompile_limit = 2 * SHAPES
    ways = {
        "fixed shapes": trainer.rounds(fixed, torch.compile(trainer.loss, dynamic=False)),
        "any shape": trainer.rounds(given, torch.compile(trainer.loss, dynamic=True)),
    }
    seen = {name: tried(work) for name, work in ways.items()}
    before, after = (sum(positions(shape_of(b)) for b in each) for each in (given, fixed))
    seen["fixed shapes"] |= {"shapes": len(set(shapes.values())), "added": after / before - 1}
    best = max(seen, key=lambda name: seen[name]["rate"])
    torch._dynamo.reset()  # compiled again when it warms up, quickly: its code is in the cache
    return ways[best], {"compiled": seen, "takes part": best}


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    trainer = Trainer()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder  # nothing is there from another time
        try:
            work, seen = compiled(trainer, data())
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            unable(f"torch.compile does not work here: {type(error).__name__}: {reason}")
        serve(work, parameters=trainer.size(), precision="float32", **seen)


main()
