"""Hits and passages as JSON: what `multiview search --json` prints and the server answers with."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiview.index.indexed_passages import IndexedPassage
    from multiview.serving.hits import Hit, ScoredView


def as_json(content: object) -> str:
    """Returns JSON without line ends, all of it ASCII, so that nothing in a text ends a line; dates are strings."""
    return json.dumps(content, default=str, allow_nan=False)


def answer(question: str, hits: Sequence[Hit], exact: bool) -> dict[str, object]:
    """Returns `{"question", "exact", "hits": [{"rank", "id", "title", "text", "score", "view", "span", "snippet",
    "columns"}]}`, with every view's score under `views` where the hits have them.

    Spans are in code points. `exact` is false where the index may have missed better passages.
    """
    return {
        "question": question,
        "exact": exact,
        "hits": [
            {
                "rank": rank,
                "id": hit.id,
                "title": hit.title,
                "text": hit.text,
                "score": hit.score,
                "view": hit.best.number,
                "span": hit.span,
                "snippet": hit.snippet,
                **_query(hit.best.query),
                "columns": {name: finite(value) for name, value in hit.columns.items()},
            }
            | ({"views": [_scored(view) for view in hit.views]} if hit.views else {})
            for rank, hit in enumerate(hits, 1)
        ],
    }


def passage(found: IndexedPassage) -> dict[str, object]:
    """Returns `{"id", "title", "text", "columns", "views": [{"view", "span", "snippet"}]}`."""
    return {
        "id": found.passage.id,
        "title": found.passage.title,
        "text": found.passage.text,
        "columns": {name: finite(value) for name, value in found.columns.items()},
        "views": [
            {"view": view.number + 1, "span": view.span, "snippet": view.snippet, **_query(view.query)}
            for view in found.views
        ],
    }


def finite(value: object) -> object:
    """Returns the value, None for NaN in it or in its lists and structs: JSON has none, and pandas writes it for a
    number that is missing."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return {name: finite(item) for name, item in value.items()} if isinstance(value, dict) else value


def _scored(view: ScoredView) -> dict[str, object]:
    return {
        "view": view.number,
        "score": view.score,
        "span": view.span,
        "snippet": view.snippet,
        **_query(view.query),
    }


def _query(query: str | None) -> dict[str, str]:
    """The query that the passage was read with, for architectures that read queries."""
    return {"query": query} if query is not None else {}
