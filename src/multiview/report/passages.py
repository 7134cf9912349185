"""A retrieved passage as the page shows it: the text with its matching part marked, and one bar per view."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from multiview.data.reading.tables import Row

SHOWN_CHARACTERS = 700
"""Most characters to show of a text."""
BEFORE = 200
"""Characters to show before the matching snippet, where the text is longer than `SHOWN_CHARACTERS`."""


class Piece(NamedTuple):
    """A piece of a passage's text, with the view that represents it, if one does."""

    text: str
    view: int | None = None
    won: bool = False


def pieces(text: str, hit: Row) -> list[Piece]:
    """Returns the text cut at its views' borders and shortened around the view that won.

    Where views overlap, only the view that won is cut out. A view of the whole text is not marked.
    """
    spans = [span for span in _spans(hit, len(text)) if span[:2] != (0, len(text))]
    won = next((span for span in spans if span[2] == hit["view"]), None)
    if any(stop > following for (_, stop, _), (following, _, _) in itertools.pairwise(spans)):
        spans = [won] if won else []
    low = max(0, min((won[0] if won else 0) - BEFORE, len(text) - SHOWN_CHARACTERS))
    high = min(len(text), low + SHOWN_CHARACTERS)
    found, end = [Piece("…")] if low else [], low
    for start, stop, view in spans:
        start, stop = max(start, low), min(stop, high)
        if start < stop:
            found += [Piece(text[end:start])] if start > end else []
            found.append(Piece(text[start:stop], view + 1, view == hit["view"]))
            end = stop
    found += [Piece(text[end:high])] if end < high else []
    return [*found, Piece("…")] if high < len(text) else found


def _spans(hit: Row, length: int) -> list[tuple[int, int, int]]:
    """Start, stop and view of the views that represent a part of the text, in the text's order."""
    spans = zip(hit["view_starts"] or (), hit["view_stops"] or (), strict=True)
    return sorted(
        (start, stop, view)
        for view, (start, stop) in enumerate(spans)
        if start is not None and stop is not None and 0 <= start < stop <= length
    )


def widths(hit: Row, hits: Sequence[Row]) -> list[int]:
    """Returns the width of the bar of each view of `hit`, in per cent, on a scale shared by all `hits`; none for a
    passage with one view."""
    scores: list[float] = hit["view_scores"] or []
    if len(scores) < 2:
        return []
    every = [score for other in hits for score in other["view_scores"]]
    low, high = min(every), max(every)
    return [round(6 + 94 * (score - low) / (high - low)) if high > low else 100 for score in scores]
