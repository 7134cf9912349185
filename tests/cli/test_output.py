"""What a command does with its standard output: its width, its blanks, and where nobody takes what it writes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from multiview import environment


def ended(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """`multiview` with these words, in a process of its own, to its end."""
    command = [sys.executable, "-c", "from multiview.cli.app import main; main()", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=300, **options)


@pytest.mark.parametrize("words", [["config", "gate"], ["search", "--help"], ["config", "nosuch"]])
def test_no_columns_are_eighty(words: list[str]) -> None:
    """As for a width that is no number."""

    def shown(columns: str) -> tuple[str, str]:
        environ = {**os.environ, environment.COLUMNS: columns}
        done = ended(*words, stdout=subprocess.PIPE, env=environ)
        return done.stdout, done.stderr

    assert shown("0") == shown("80") == shown("abc") != ("", "")
