"""The one exception that a person is meant to read."""

import difflib
from collections.abc import Iterable


class InputError(Exception):
    """Bad input: one line that names the file, the row or the setting, and the way out.

    Command lines print it without a traceback and exit with status 2.
    """


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of an error line: the nearest known names, or all of them."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else f"; there are: {', '.join(names)}"
