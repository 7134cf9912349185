"""The limits of a server: sizes of requests, waiting, time."""

from __future__ import annotations

from dataclasses import dataclass

POLL_SECONDS = 5.0
"""Time between two looks at which champion the store names."""


@dataclass(frozen=True)
class Limits:
    """The limits of a server; the options of `multiview serve` describe them."""

    questions: int = 64
    """Questions per request at most."""
    characters: int = 2000
    """Characters per question at most."""
    k: int = 100
    """Passages per question at most."""
    waiting: int = 256
    """Requests that may wait for the model at most; further ones are answered with 429."""
    seconds: float = 30.0
    """Time that a request may take; then it is answered with 504."""
    batch: int = 64
    """Questions of waiting requests that are searched together at most."""

    @property
    def body_bytes(self) -> int:
        """Bytes of a request's body at most: all questions and a condition, each character written as `\\uXXXX`."""
        return 6 * (self.questions * self.characters + 4096) + 4096
