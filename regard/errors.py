"""The one exception for a mistake that the user can fix."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Something outside the program is wrong: a file, a line, a key, a value.

    The message names it and says what to do. The command line prints it without a traceback.
    """


class RecipeError(UserError):
    """A recipe that cannot be run: the message names the key and where it stands."""


class MissingData(RecipeError):
    """Data that a recipe names and that is not there: a plan assumes its sizes."""


class TrainingError(UserError):
    """A training that cannot go on with the settings that it has; others may do."""


@contextmanager
def advised(advice: str) -> Iterator[None]:
    """An error that names a file of a run also says what to do about it."""
    try:
        yield
    except UserError as error:
        raise type(error)(f"{str(error).rstrip('.')}. {advice}") from None
