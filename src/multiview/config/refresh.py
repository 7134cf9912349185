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
    """Encode every passage and build the index from scratch, even if parts could be kept."""
    retrain_added: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Train an index again when more than this share of its views was added since its training."""
    retrain_error: Annotated[float, Field(ge=0)] = 2.0
    """Train an index again when the mean squared error of the views added since its training exceeds that of the earlier views by more than this factor, beyond chance."""
