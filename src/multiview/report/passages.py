"""A retrieved passage as the page shows it: the text with its matching part marked, and one bar per view."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from multiview.report.contents import ShownHit, ShownView

LONGEST = 700
"""Most characters to show of a text."""
BEFORE = 200
"""Characters to show before the matching snippet, where the text is longer than `LONGEST`."""
MOST_BARS = 16
"""Most views with a bar; the others are counted."""


@dataclass(frozen=True)
class Piece:
    """A piece of a passage's text."""

    text: str
    view: int | None = None
    """The view that represents the piece, if one does."""
    won: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar for a view's score; `width` is in per cent of the widest bar."""

    view: int
    score: str
    width: int
    won: bool


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def figure(score: float) -> str:
    """Returns a score with two decimals, or with four below 1, as scores of fused rankings are."""
    return f"{score:.2f}" if abs(score) >= 1 or score == 0 else f"{score:.4f}"


def pieces(text: str, hit: ShownHit) -> list[Piece]:
    """Returns the text cut at its views' borders and shortened around the view that won.

    Where views overlap, only the view that won is cut out. A view of the whole text is not marked.
    """
    spans = [view for view in _spanned(hit.views, len(text)) if (view.start, view.stop) != (0, len(text))]
    won = next((view for view in spans if view.number == hit.view), None)
    if any(view.stop > following.start for view, following in itertools.pairwise(spans)):  # pyright: ignore[reportOperatorIssue]
        spans = [won] if won else []
    won_start = won.start if won and won.start is not None else 0
    low = max(0, min(won_start - BEFORE, len(text) - LONGEST)) if len(text) > LONGEST else 0
    high = min(len(text), low + LONGEST)
    found, end = [Piece("…")] if low else [], low
    for view in spans:
        start, stop = max(view.start or 0, low), min(view.stop or 0, high)
        if start >= stop:
            continue
        found += [Piece(text[end:start])] if start > end else []
        found.append(Piece(text[start:stop], view.number, view is won))
        end = stop
    found += [Piece(text[end:high])] if end < high else []
    return [*found, Piece("…")] if high < len(text) else found


def _spanned(views: Sequence[ShownView], length: int) -> list[ShownView]:
    """The views that represent a part of the text, in the text's order."""
    spanned = [
        v for v in views if v.start is not None and v.stop is not None and 0 <= v.start < v.stop <= length
    ]
    return sorted(spanned, key=lambda view: (view.start, view.stop))


def bars(hit: ShownHit, hits: Sequence[ShownHit]) -> list[Bar]:
    """Returns one bar per view of `hit`, on a scale shared by all `hits`; none for a passage with one view."""
    if len(hit.views) < 2:
        return []
    scores = [view.score for other in hits for view in other.views]
    low, high = min(scores), max(scores)
    shown = sorted(hit.views, key=lambda view: (view.number != hit.view, view.number))[:MOST_BARS]
    return [
        Bar(
            view=view.number,
            score=figure(view.score),
            width=round(6 + 94 * (view.score - low) / (high - low)) if high > low else 100,
            won=view.number == hit.view,
        )
        for view in sorted(shown, key=lambda view: view.number)
    ]
