"""What a task must have and these need not: they are trained, and asked for nothing else."""

from collections.abc import Iterator
from typing import Any


class Toy:
    """A task without validation and without prediction."""

    predict_options = frozenset[str]()
    evaluate_options = frozenset[str]()
    reads_files = False

    def validate(self, model: Any) -> dict[str, float]:
        return {}

    def predict(self, model: Any, inputs: Any, search: Any, **options: Any) -> Iterator[Any]:
        raise NotImplementedError

    def evaluate(self, model: Any, part: str, search: Any, **options: Any) -> Any:
        raise NotImplementedError

    def references(self, part: Any) -> tuple[list[str], ...]:
        raise NotImplementedError

    def score(self, model: Any, *sides: Any) -> Iterator[dict[str, Any]]:
        raise NotImplementedError
