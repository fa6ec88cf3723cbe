"""regard's own loop: exactly what `regard train` does for an update."""

import torch
from protocol import OPTIONS, batches, serve

from regard import config
from regard.layers.allocator import keep_pages
from regard.model import build
from regard.train import device, optimizer
from regard.train.loop import Job, Progress, _take, _update
from regard.train.objective import Objective
from regard.types import Batch, Position, Sizes


class Given:
    """Batches that are given, one after the other, for ever."""

    def __init__(self):
        self.batches = [
            Batch(
                tensors={name: torch.from_numpy(array) for name, array in batch.items()},
                ids=tuple(range(len(batch["source"]))),
                targets=int(batch["target_mask"].sum()),
            )
            for batch in batches()
        ]

    def at(self, position):
        return self.batches[position.index % len(self.batches)]

    def after(self, position):
        return Position(0, position.index + 1)


def main():
    keep_pages()
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    recipe = device.resolve(config.recipe(OPTIONS["recipe"]))
    from regard.parts import module

    loss = module("tasks", recipe.kind).Task.loss
    sizes = Sizes(source=OPTIONS["symbols"], target=OPTIONS["symbols"], shared=True)
    model = build(recipe.model, sizes)
    device.set_precision(model, recipe.train)
    steps = optimizer.make(recipe.train.optimizer, model.parameters())
    job = Job(
        objective=Objective(model, lambda *given: loss(None, *given)),
        batches=Given(),
        optimizer=steps,
        config=recipe.train,
        seed=1,
        dim=recipe.model.dim,
        device=torch.device("cpu"),
        validate=dict,
        lower_is_better=True,
        record=lambda record: None,
        save=lambda progress, carry: None,
    )
    progress = Progress()

    def work():
        counted = 0
        for _ in range(OPTIONS["updates"]):
            micro = _take(job, progress)
            _update(job, micro, progress.update, None)
            progress.update += 1
            counted += sum(batch.targets for batch in micro)
        return counted

    serve(work, parameters=model.size())


main()
