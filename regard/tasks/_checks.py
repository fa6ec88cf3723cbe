"""What tasks refuse of a recipe before any data is read."""

from collections.abc import Mapping
from typing import Any

from regard.data.passages import EDGES
from regard.data.tokenizer_training import APART
from regard.errors import RecipeError
from regard.fields import Field
from regard.heads import labels
from regard.inputs import Counted, FixedLength
from regard.layers.position import TABLES
from regard.recipe.config import Recipe
from regard.recipe.parts import Holding, module
from regard.search import Stepwise
from regard.types import FieldSize, Head, NoSize, Positioned, Spells


def check_head(recipe: Recipe, predicts: str) -> None:
    """The head must predict what the task does."""
    head = recipe.model.head.kind
    kind = module("heads", head).Head
    if not isinstance(kind, Head) or kind.predicts != predicts:
        raise RecipeError(f"model.head.kind: {head!r} is not for the task {recipe.kind}")


def check_counting(recipe: Recipe, kind: str) -> None:
    """What is counted of labels, or fitted to them, has one for each text."""
    reads = recipe.model.input.config
    if isinstance(reads, Counted) and reads.naive_bayes and kind != "one":
        raise RecipeError(
            f"model.input.naive_bayes: it is for labels.kind = 'one', not {kind!r}: leave it out"
        )
    head = recipe.model.head.config
    if isinstance(head, labels.Config) and head.linear_probe and kind != "one":
        raise RecipeError(
            f"model.head.linear_probe: it is for labels.kind = 'one', not {kind!r}: leave it out"
        )


def check_spelling(recipe: Recipe) -> None:
    """Characters that are read must be there, and are those of words."""
    reads = recipe.model.input.config
    if recipe.task.characters and recipe.task.tokenizer.kind != "word":
        raise RecipeError("characters: those of words need tokenizer.kind = 'word'")
    if isinstance(reads, Spells) and reads.spelt and not recipe.task.characters:
        raise RecipeError("model.input: to read characters, set characters = true")


def check_positions(recipe: Recipe, part: str, most: int, why: str) -> None:
    """A table of positions must be as long as what is read and written."""
    _check_table(recipe.model.parts()[part].config, part, most, why)
    reads = recipe.model.input
    if reads is not None and isinstance(held := reads.config, Holding):
        fields = module("tasks", recipe.kind).plan(recipe.task).fields
        if held.framed and not next(iter(fields.values())).between_ends:
            most, why = most + EDGES, f"{why}, with what the run reads around a text,"
        _check_table(held.encoder.config, "input.encoder", most, why)


def check_read_positions(recipe: Recipe, field: Field, most: int, why: str) -> None:
    """The same of what is read alone; where the recipe decides how many positions the input gives,
    as of pictures, these count."""
    reads, sizes = recipe.model.input.config, field.size_names
    if not isinstance(sizes, Mapping) or not isinstance(reads, FixedLength):
        return check_positions(recipe, "encoder", most, why)
    try:
        count = reads.fixed_length(FieldSize(field.name, sizes))
    except NoSize:
        return  # the model says what does not fit
    except RecipeError as error:
        raise RecipeError(f"model.input.{error}") from None
    check_positions(recipe, "encoder", count, "what is read asks")


def _check_table(settings: Any, key: str, most: int, why: str) -> None:
    if not isinstance(settings, Positioned) or settings.position not in TABLES:
        return
    if settings.limit < most:
        raise RecipeError(f"model.{key}.limit: {settings.limit} positions, but {why} for {most}")


def check_written(recipe: Recipe, *, stepwise: bool = True) -> None:
    """Text that is written must come out with its blanks where they were; what a decoder alone
    writes is searched for step by step."""
    if stepwise:
        check_search(recipe)
    if (split := recipe.task.tokenizer.split) in APART:
        raise RecipeError(
            f"tokenizer.split: {split!r} is for tasks that only read; {recipe.kind} writes "
            "text: use 'words'"
        )


def check_search(recipe: Recipe) -> None:
    """A decoder is searched step by step."""
    kind = recipe.task.search.kind
    if not isinstance(module("search", kind), Stepwise):
        raise RecipeError(f"search.kind: {kind!r} is not for the task {recipe.kind}")
