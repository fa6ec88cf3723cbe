"""The hand-written loop in which the models of others train."""

import itertools

import torch
from protocol import OPTIONS, serve


def train(model, batches, loss, count, **about):
    """Rounds of updates with AdamW: `loss` and `count` of each of the batches, for ever."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    endless = itertools.cycle(batches)

    def work():
        counted = 0
        for batch in itertools.islice(endless, OPTIONS["updates"]):
            loss(batch).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            counted += count(batch)
        return counted

    size = sum(p.numel() for p in model.parameters())
    serve(work, parameters=size, **({"precision": "float32"} | about))
