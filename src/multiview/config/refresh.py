"""Settings of refreshing an index."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from multiview.config.section import Section


class Refresh(Section):
    """Refreshing an index after its corpus changed (docs/refresh.md). *Ours.*"""

    model: str | None = None
    """Address of the model to encode with; none: the champion's. The first refresh needs one."""
    full: bool = False
    """Encode every passage and build the index from nothing, whatever could be kept."""
    retrain_added: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Train an index anew when more than this share of its views was added since it was trained."""
    retrain_error: Annotated[float, Field(ge=0)] = 2.0
    """Train it anew when it stores the views added since with more than this many times the squared error of those before, beyond chance."""
