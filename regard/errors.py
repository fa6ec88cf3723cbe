"""The one exception for a mistake that the user can fix."""


class UserError(Exception):
    """Something outside the program is wrong: a file, a line, a key, a value.

    The message names it and says what to do. The command line prints it without a traceback.
    """


class RecipeError(UserError):
    """A recipe that cannot be run: the message names the key and where it stands."""
