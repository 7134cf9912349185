"""The one exception that a person is meant to read."""


class InputError(Exception):
    """Bad input: one line that names the file, the row or the setting, and the way out.

    Command lines print it without a traceback and exit with status 2.
    """
