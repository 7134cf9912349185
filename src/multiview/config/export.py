"""Settings of what a refresh exports."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from multiview.config.section import Address, Section

ExportFormat: TypeAlias = Literal["views", "delta", "model", "onnx"]


class Export(Section):
    """Files of the champion's index for other systems, written at the end of a refresh (docs/export.md). *Ours.*"""

    formats: tuple[ExportFormat, ...] = ()
    """What to write: views (every view with its snippet, as Parquet), delta (the passages added, changed and removed since the champion before), model (a folder for sentence-transformers), onnx (the question encoder). Empty: a refresh has no step export."""
    qdrant_url: Address | None = None
    """Address of a Qdrant server into which a refresh loads the champion's index (docs/databases.md); none: it loads none. The API key comes from the environment variable MULTIVIEW_QDRANT_API_KEY."""
    alias: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")] = "multiview"
    """Qdrant's alias that follows the champion, and the beginning of the names of its collections."""
    keep: Annotated[int, Field(ge=0)] = 2
    """Collections of earlier champions that stay in Qdrant, for rollbacks; others with the alias's prefix are deleted."""
