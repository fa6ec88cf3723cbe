"""A model that was loaded, as a table."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from regard.console.tables import Block, Shown

if TYPE_CHECKING:
    from regard.model import Model
    from regard.runs.run import Run
    from regard.train.progress import Progress


class ShownModel(Shown):
    """What is known of a model: its run, its size, how far it was trained and how good it was."""

    run: "Run"
    progress: "Progress"
    unfinished: Any

    @property
    @abstractmethod
    def model(self) -> "Model":
        """What was loaded."""

    def blocks(self) -> list[Block]:
        progress, recipe = self.progress, self.run.recipe
        state = self.unfinished.reached if self.unfinished else f"update {progress.update:,}"
        rows = [
            ("run", str(self.run.folder)),
            ("task", recipe.kind),
            ("state", f"{'unfinished' if self.unfinished else 'finished'}, {state}"),
            ("parameters", f"{self.model.size():,}"),
            ("seconds", f"{progress.seconds:,.0f}"),
        ]
        if progress.best is not None:
            rows.append((f"best {recipe.train.metric}", f"{progress.best:.4g}"))
        return [Block(("", ""), rows)]
