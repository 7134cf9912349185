"""Settings of refreshing an index."""

from __future__ import annotations

from multiview.config.section import Section


class Refresh(Section):
    """Refreshing an index after its corpus changed (docs/refresh.md). *Ours.*"""

    model: str | None = None
    """Address of the model to encode with; none: the champion's. The first refresh needs one."""
    full: bool = False
    """Encode every passage and build the index from scratch, even if parts could be kept."""
