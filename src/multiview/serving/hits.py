"""What a search returns: passages with their scores, and the view that gave each its score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multiview.data.reading.tables import Row
from multiview.data.tokens import Span
from multiview.index.indexed_passages import IndexedPassage, IndexedView


@dataclass(frozen=True, slots=True)
class ScoredView:
    """One view of a passage with its score, and the text that the view represents."""

    number: int
    """Position among all views of the passage, from 1, the views of empty snippets included: the 3 of `[VIE3]`."""
    score: float
    span: Span | None
    """The part of the text that the view represents, [start, stop) in code points; none for the title, and where
    views represent no part of the text."""
    snippet: str | None
    """The text of the span; the title for the title's view; empty for the view of an empty snippet; none where the
    architecture's views represent no part of the passage (MVR)."""
    query: str | None = None
    """The generated query that the passage was read with for this view, where the architecture reads queries."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a search found."""

    id: str
    title: str
    text: str
    score: float
    best: ScoredView
    """The view that gave the passage its score."""
    columns: Row
    """Other columns of the corpus, such as url or date."""
    views: tuple[ScoredView, ...] = ()
    """Every indexed view of the passage, in order, where `search` was called with `explain`; else empty."""

    @property
    def snippet(self) -> str | None:
        """The snippet that matched (see `ScoredView`)."""
        return self.best.snippet

    @property
    def span(self) -> Span | None:
        """The snippet's part of the text, [start, stop) in code points."""
        return self.best.span

    @classmethod
    def of(cls, indexed: IndexedPassage, score: float, winner: int, view_scores: Sequence[float] = ()) -> Hit:
        """Returns the hit of an indexed passage, whose best view is `indexed.views[winner]`; with all of its views where
        their scores are given."""
        passage = indexed.passage
        return cls(
            id=passage.id,
            title=passage.title,
            text=passage.text,
            score=score,
            best=_scored(indexed.views[winner], score),
            columns=dict(indexed.columns),
            views=tuple(map(_scored, indexed.views, view_scores)),
        )


def _scored(view: IndexedView, score: float) -> ScoredView:
    return ScoredView(view.number + 1, score, view.span, view.snippet, view.query)
