"""Inputs and outputs as columns of a user's own table."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from regard.decoding.prediction import Prediction


@runtime_checkable
class Tabular(Protocol):
    """A task whose inputs and outputs may be columns of a table."""

    said: str
    """What the column of its outputs is called."""

    def table_columns(self) -> Mapping[str, str | int]:
        """The sides of an example in their order in a table of the recipe's own, and the name or
        the number of the column of each."""
        ...

    def said_value(self, prediction: Prediction) -> Any:
        """An output as JSON has it."""
        ...


class InTables:
    """The same of a task whose recipe has `data.columns`."""

    config: Any
    said = "prediction"
    listed = False
    """Whether an output is a list in JSON: of its tokens."""
    usual_columns: Mapping[str, str] = MappingProxyType({})
    """The sides of an example in the order in which `data.columns` names their columns, and what
    these are called where it does not."""

    def table_columns(self) -> dict[str, str | int]:
        usual = self.usual_columns
        given = self.config.data.columns if usual else ()
        names = given if len(given) == len(usual) else usual.values()
        return dict(zip(usual, names, strict=True))

    def said_value(self, prediction: Prediction) -> Any:
        return prediction.tokens if self.listed else prediction.text
