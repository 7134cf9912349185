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
    """Most questions per request."""
    max_characters: AtLeastOne = 2000
    """Most characters per question."""
    max_k: AtLeastOne = 100
    """Most passages per question."""
    max_waiting: AtLeastOne = 256
    """Requests that may wait for the model; further ones are answered with 429."""
    max_batch: AtLeastOne = 64
    """Most questions of waiting requests to search together."""
    timeout: Annotated[float, Field(ge=0.001, le=86400)] = 30.0
    """Seconds that a request may take before it is answered with 504."""
    max_others: Annotated[int, Field(ge=0)] = 2
    """Most indexes named by requests that stay loaded beside the one that answers; with 0, requests may name none."""

    @property
    def body_bytes(self) -> int:
        """Most bytes of a request's body: all questions and a condition, each character written as two `\\uXXXX`, and
        4 KiB for the rest."""
        return 12 * (self.max_questions * self.max_characters + 4096) + 4096
