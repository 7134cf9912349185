"""The end of a pod with bad input."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from multiview.errors import InputError


@contextlib.contextmanager
def exit_with_one_line() -> Iterator[None]:
    """Ends the process with an InputError's line alone, as a command does, instead of a traceback."""
    try:
        yield
    except InputError as error:
        sys.exit(f"error: {error}")
