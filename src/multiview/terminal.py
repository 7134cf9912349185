"""Text for terminals: what comes from a corpus, a file name or a server must not steer them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and line end, characters that turn the direction of writing, and halves of characters."""
WIDTH = 80
"""Columns of a terminal that names none."""


def safe(text: str) -> str:
    r"""Returns a text with `?` for each character that would steer a terminal, as `ls` shows file names.

    >>> safe("\x1b[2Jtitle \u202etxt.exe")
    '?[2Jtitle ?txt.exe'
    """
    return STEERING.sub("?", text)


def print_line(line: str) -> None:
    """Prints a line at once into a log, where nothing is lost if nobody takes it."""
    with contextlib.suppress(OSError, ValueError):
        print(safe(line), flush=True)


class Console(RichConsole):
    """Rich's console, which shows all texts `safe`; Rich itself lets escape sequences pass.

    It has 80 columns where `COLUMNS` is 0, which Rich takes at its word.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not self.width:
            self.width = WIDTH

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        segments = super().render(renderable, options)
        return (each if each.control else each._replace(text=safe(each.text)) for each in segments)
