"""Settings of refreshing an index: what is encoded, the gate that the new index must pass, what is exported."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from multiview.config.section import Address, Section


class Refresh(Section):
    """Refreshing an index after its corpus changed (docs/refresh.md). *Ours.*"""

    model: str | None = None
    """Address of the model to encode with; none: the champion's. The first refresh needs one."""
    full: bool = False
    """Encode every passage and build the index from scratch, even if parts could be kept."""


class Gate(Section):
    """Conditions that a challenger must fulfil to become the champion (docs/refresh.md). *Ours.*"""

    drops: dict[str, Annotated[float, Field(ge=0)]] = {
        "accuracy_at_1": 0.01,
        "accuracy_at_5": 0.01,
        "accuracy_at_20": 0.01,
        "mrr_at_10": 0.01,
    }
    """Allowed drop per metric: how far below zero the lower end of the 95 % interval of the paired difference may be."""
    least: dict[str, Annotated[float, Field(ge=0, le=1)]] = {}
    """Least value per metric, independent of the champion's; also a condition for the first champion."""
    smallest_corpus: Annotated[int, Field(ge=1)] = 1
    """Least number of passages in the corpus; fewer suggest an accident upstream."""
    largest_shrinkage: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Largest allowed drop in the number of passages, as a share of the champion's; 1: any."""
    max_lost_questions: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Largest share of the dev questions (of all questions, where dev questions are held out) that may have lost their
    gold passages, or the answers in them; 1: any."""
    seconds_per_question: Annotated[float, Field(gt=0)] | None = None
    """Longest mean search time per question in seconds, as `evaluate` measures it; none: any."""
    index_bytes: Annotated[int, Field(ge=1)] | None = None
    """Largest size of the index's files in bytes; none: any."""
    must_find: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Largest allowed rank per dev question id: a gold or answer-holding passage must be retrieved at this rank or better."""


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
