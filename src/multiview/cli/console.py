"""The console of every command: no text from a corpus, a file name or a server can control the terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from multiview.errors import safe, without_secrets


class Console(RichConsole):
    """Rich's console, which shows every text as it is, made `safe`: without markup, emoji codes, highlights or escape
    sequences. It has 80 columns if `COLUMNS` is 0, which Rich would take literally."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)
        if not self.width:
            self.width = 80

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        segments = super().render(renderable, options)
        return (each if each.control else each._replace(text=safe(each.text)) for each in segments)

    def warn(self, line: str) -> None:
        self.print(f"warning: {without_secrets(line)}", style="yellow")
