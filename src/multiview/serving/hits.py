"""What a search returns: passages, each with its score and the view that earned it; and the same as JSON, which
`multiview search --json` prints and the server answers with."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Self

from multiview.data.reading.tables import Row
from multiview.data.reading.values import shown_value
from multiview.data.tokens import Span
from multiview.index.indexed_passages import IndexedPassage, IndexedView


@dataclass(frozen=True, slots=True)
class ScoredView:
    """One view of a passage with its score, and the text that the view represents."""

    number: int
    """Position among all views of the passage, from 1, counting those of empty snippets too: 3 for `[VIE3]`."""
    score: float
    span: Span | None
    """The part of the text that the view represents, [start, stop) in code points; none for the title, and where
    views represent no part of the text."""
    snippet: str | None
    """The text of the span; the title for the title's view; empty for the view of an empty snippet; none where the
    architecture's views represent no part of the passage (MVR)."""
    query: str | None = None
    """The generated query that the passage was read with for this view, where the architecture reads queries."""

    @classmethod
    def of(cls, view: IndexedView, score: float) -> Self:
        return cls(view.number + 1, score, view.span, view.snippet, view.query)


NO_VIEW = ScoredView(0, 0.0, None, None)


@dataclass(frozen=True, slots=True)
class Rank:
    """A passage's place in one of the rankings that were fused or reranked."""

    rank: int
    """Its place, from 1."""
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a search found."""

    id: str
    title: str
    text: str
    score: float
    """The best view's score; where not only views rank, BM25's, a sum of reciprocal ranks, or a reranker's logit."""
    best: ScoredView
    """The view that suits the question best; numbered 0 for a passage without views."""
    columns: Row
    """Other columns of the corpus, such as url or date."""
    views: tuple[ScoredView, ...] = ()
    """Every indexed view of the passage, in order, where `search` was called with `explain`; else empty."""
    ranks: dict[str, Rank] = field(default_factory=dict)
    """With `explain`, the passage's place in each of the rankings `dense`, `bm25` and `hybrid` that found it."""

    @property
    def snippet(self) -> str | None:
        """The snippet that matched (see `ScoredView`)."""
        return self.best.snippet

    @property
    def span(self) -> Span | None:
        """The snippet's part of the text, [start, stop) in code points."""
        return self.best.span


def as_json(content: object) -> str:
    """Returns JSON in one line of ASCII, so that nothing in a text can break the line; dates are strings."""
    return json.dumps(content, default=shown_value, allow_nan=False)


def answer_fields(question: str, hits: Sequence[Hit], exact: bool) -> dict[str, object]:
    """Returns `{"question", "exact", "hits": [{"rank", "id", "title", "text", "score", "view", "span", "snippet",
    "columns"}]}`, with every view's score under `views` and the ranks under `ranks` where the hits have them. Spans are
    in code points. `exact` is false where the index may have missed better passages."""
    return {
        "question": question,
        "exact": exact,
        "hits": [_hit_fields(rank, hit) for rank, hit in enumerate(hits, 1)],
    }


def _hit_fields(rank: int, hit: Hit) -> dict[str, object]:
    views = [{**_view_fields(view.number, view), "score": view.score} for view in hit.views]
    return {
        "rank": rank,
        "id": hit.id,
        "title": hit.title,
        "text": hit.text,
        "score": hit.score,
        **_view_fields(hit.best.number, hit.best),
        "columns": finite(hit.columns),
        **({"views": views} if views else {}),
        **({"ranks": {name: asdict(rank) for name, rank in hit.ranks.items()}} if hit.ranks else {}),
    }


def passage_fields(found: IndexedPassage) -> dict[str, object]:
    """Returns `{"id", "title", "text", "columns", "views": [{"view", "span", "snippet"}]}`."""
    return {
        "id": found.passage.id,
        "title": found.passage.title,
        "text": found.passage.text,
        "columns": finite(dict(found.columns)),
        "views": [_view_fields(view.number + 1, view) for view in found.views],
    }


def _view_fields(number: int, view: ScoredView | IndexedView) -> dict[str, object]:
    """The fields of a view; `query` only for architectures that read queries."""
    query = {"query": view.query} if view.query is not None else {}
    return {"view": number, "span": view.span, "snippet": view.snippet, **query}


def finite(value: object) -> object:
    """Returns the value with None in place of NaN and infinities, which JSON cannot hold; pandas writes NaN for missing
    numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return {name: finite(item) for name, item in value.items()} if isinstance(value, dict) else value
