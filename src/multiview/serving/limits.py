"""The limits of a server: sizes of requests, waiting, time."""

from typing import Annotated

from pydantic import Field

from multiview.config import Section

POLL_SECONDS = 5.0
"""Time between two looks at which champion the store names."""

AtLeastOne = Annotated[int, Field(ge=1)]


class Limits(Section):
    """The limits of a server, each an option of `multiview serve`."""

    max_questions: AtLeastOne = 64
    """Questions per request at most."""
    max_characters: AtLeastOne = 2000
    """Characters per question at most."""
    max_k: AtLeastOne = 100
    """Passages per question at most."""
    max_waiting: AtLeastOne = 256
    """Requests that may wait for the model; others are answered with 429."""
    max_batch: AtLeastOne = 64
    """Questions of waiting requests that are searched together at most."""
    timeout: Annotated[float, Field(ge=0.001, le=86400)] = 30.0
    """Seconds that a request may take; then it is answered with 504."""
    max_others: Annotated[int, Field(ge=0)] = 2
    """Indexes that requests named and that stay loaded beside the one that answers; 0: requests may name none."""

    @property
    def body_bytes(self) -> int:
        """Bytes of a request's body at most: all questions and a condition, each character written as two `\\uXXXX`."""
        return 12 * (self.max_questions * self.max_characters + 4096) + 4096
