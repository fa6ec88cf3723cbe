"""Sizes of the fields that the tests' models read and write."""

from regard.types import Sizes


def texts(target: int, source: int = 0, *, shared: bool = False) -> Sizes:
    """Of a translator, or of a language model where no source is given."""
    fields = {"target": {"tokens": target, "outputs": target}}
    if not source:
        return Sizes(fields, writes="target")
    fields = {"source": {"tokens": source}} | fields
    return Sizes(fields, reads="source", writes="target", shared=shared)


def labelled(tokens: int, outputs: int, characters: int = 0, field: str = "labels") -> Sizes:
    """Of a classifier or a tagger."""
    source = {"tokens": tokens} | ({"characters": characters} if characters else {})
    return Sizes({"source": source, field: {"outputs": outputs}}, reads="source", writes=field)


def series(variables: int, length: int, steps: int = 1) -> Sizes:
    """Of a forecaster."""
    size = {"variables": variables, "length": length, "steps": steps, "outputs": variables * steps}
    return Sizes({"series": size}, reads="series", writes="series")
