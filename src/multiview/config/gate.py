"""Settings of what a refreshed index must fulfil to become the champion."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from multiview.config.section import Section


class Gate(Section):
    """What a challenger must fulfil to become the champion (docs/refresh.md). *Ours.*"""

    drops: dict[str, Annotated[float, Field(ge=0)]] = {
        "accuracy_at_1": 0.01,
        "accuracy_at_5": 0.01,
        "accuracy_at_20": 0.01,
        "mrr_at_10": 0.01,
    }
    """Metric to the drop that is allowed: so far may the lower end of the 95 % interval of the paired difference lie below zero."""
    least: dict[str, Annotated[float, Field(ge=0, le=1)]] = {}
    """Metric to the value that it must have, whatever the champion has; it holds for the first champion too."""
    smallest_corpus: Annotated[int, Field(ge=1)] = 1
    """Passages that the corpus must have: fewer are an accident upstream."""
    largest_shrinkage: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of the champion's passages that the corpus may have lost in number; 1: any."""
    seconds_per_question: Annotated[float, Field(gt=0)] | None = None
    """Longest mean time of a search, as `evaluate` measures it; none: any."""
    index_bytes: Annotated[int, Field(ge=1)] | None = None
    """Largest size of the index's files; none: any."""
    must_find: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Ids of dev questions, each with the rank by which a passage with an answer, or a gold one, must come."""
