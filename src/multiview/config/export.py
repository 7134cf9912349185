"""Settings of what a refresh exports."""

from __future__ import annotations

from typing import Literal, TypeAlias

from multiview.config.section import Section

ExportFormat: TypeAlias = Literal["views", "delta", "model", "onnx"]


class Export(Section):
    """Files of the champion's index for other systems, written at the end of a refresh (docs/export.md). *Ours.*"""

    formats: tuple[ExportFormat, ...] = ()
    """What to write: views (every view with its snippet, as Parquet), delta (the passages added, changed and removed since the champion before), model (a folder for sentence-transformers), onnx (the question encoder). Empty: a refresh has no step export."""
