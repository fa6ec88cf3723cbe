"""A language model's run that a search asks how texts go on."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.data.tokenizers import Tokenizer
from regard.decoding.fusion import Following
from regard.errors import RecipeError
from regard.recipe.parts import Part
from regard.runs.run import Run
from regard.tasks import Continues, Fuses


def fuse(task: Any, search: Part, device: str) -> Part:
    """The search; the task asks the language model that it names from now on, or none."""
    if isinstance(task, Fuses) and search.kind == "ctc":
        named = search.config.language_model if search.config.beams > 1 else ""
        task.fuse(_followed(task.target.tokenizer, device, named) if named else None)
    return search


@lru_cache(4)
def _followed(by: Tokenizer, device: str, named: str) -> Following:
    run = Run(Path(named))
    if not isinstance(run.task, Continues):
        raise RecipeError(f"search.language_model: {named} is a run of {run.recipe.kind}")
    written = [*run.task.fields.values()][-1]
    return Following(run.loaded("final", device).model, written, by)
