"""Checkpoints whose weights were divided among ranks become those of any other run."""

from regard.errors import UserError
from regard.runs.run import Run
from regard.train import checkpoint, lock


def gather(run: Run) -> list[int]:
    """Write weights and optimizer of a run's checkpoints whole, where they are in shards; of which
    updates these are. What is damaged is refused, and left as it is."""
    with lock.held(run.folder):
        found = [each for each in checkpoint.checkpoints(run.checkpoints) if each.sharded]
        for each in found:
            if fault := each.fault(resumable=True):
                raise UserError(
                    f"{each.folder}: {fault}. Remove this folder, or bring the file back"
                )
        for each in found:
            made = each.manifest()
            checkpoint.save(
                each.folder,
                each.weights(),
                each.progress(),
                each.optimizer(),
                each.carry(),
                run=made["run"],
                records=made["records"],
            )
    return [each.update for each in found]
