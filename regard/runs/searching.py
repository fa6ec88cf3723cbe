"""The search that a user wants, of the kinds that there are."""

import dataclasses
from typing import Any

from regard.errors import RecipeError
from regard.recipe.parts import Part, kinds, module
from regard.tasks import Searches


def wanted(recipe: Any, kind: str | None, options: dict[str, Any]) -> Part:
    """A recipe's search, or one of another kind, with keys of its section set otherwise."""
    if not isinstance(recipe.task, Searches):
        for name in ({"search": kind} if kind else {}) | options:
            raise RecipeError(f"{name}: the task {recipe.kind} has no search")
        return Part("none", None)
    chosen, options = recipe.task.search, dict(options)
    if kind is not None and kind != chosen.kind:
        chosen = Part(kind, module("search", kind).Config())
    if chosen.kind == "sample" and "nbest" in options:
        options["samples"] = options.pop("nbest")
    for name in options:
        if name not in (known := _keys(chosen.kind)):
            having = [kind for kind in kinds("search") if name in _keys(kind)]
            hint = f"; try search = {' or '.join(having)}" if having else ""
            raise RecipeError(f"{name}: {chosen.kind} search has only {', '.join(known)}{hint}")
    return Part(chosen.kind, dataclasses.replace(chosen.config, **options))


def _keys(kind: str) -> list[str]:
    """Those of a kind of search."""
    return sorted(field.name for field in dataclasses.fields(module("search", kind).Config))
