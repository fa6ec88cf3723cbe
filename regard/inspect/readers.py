"""How a run reads an input that it is to be looked into with."""

from regard.errors import UserError
from regard.inspect.reading import Reading
from regard.model import Model
from regard.recipe.parts import Part
from regard.runs import Run
from regard.tasks import Looks, Task

LENGTH = 20
"""Tokens that a model goes on for, if nobody says how many."""


def read(
    run: Run,
    task: Task,
    model: Model,
    text: str,
    search: Part,
    *,
    target: str | None = None,
    length: int = LENGTH,
) -> Reading:
    """Let the model say something about an input, or take `target` for what it says."""
    if not isinstance(task, Looks):
        raise UserError(f"{run.folder}: the task {run.recipe.kind} cannot be looked into")
    if not text.strip() and task.sizes.reads:
        raise UserError("inspect: the text is empty")
    return task.look(model, text, search, target, length)
