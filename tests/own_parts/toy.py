"""What a task must have and these need not: they are trained, and asked for nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.readers import Report


class Plan:
    """Nothing is read: batches are made up."""

    fields: dict[str, Any] = {}  # noqa: RUF012
    parts: tuple[str, ...] = ()
    limited = False

    def prepare(self, folder: Path, base: Path | None, check: Any) -> Report:
        (folder / "store").mkdir()
        return Report(used=1)


class Toy:
    """A task without validation and without prediction."""

    predict_options = frozenset[str]()
    evaluate_options = frozenset[str]()
    reads_files = False
    fields: dict[str, Any] = {}  # noqa: RUF012

    def validate(self, model: Any) -> dict[str, float]:
        return {}

    def predict(self, model: Any, inputs: Any, search: Any, **options: Any) -> Iterator[Any]:
        raise NotImplementedError

    def evaluate(self, model: Any, part: str, search: Any, **options: Any) -> Any:
        raise NotImplementedError

    def references(self, part: Any) -> tuple[list[str], ...]:
        return [], []

    def score(self, model: Any, *sides: Any) -> Iterator[dict[str, Any]]:
        raise NotImplementedError
