"""Snippets: a passage's sentences, merged into exactly n by Algorithm 1 of CAMVR."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Snippet:
    """One of a passage's n snippets.

    `text` is raw, white space included: a passage's snippets together are `title + " " + text`. `span` is the part of
    the passage's text in the snippet, in code points; None for a snippet of only the title and for padding.
    """

    text: str
    span: tuple[int, int] | None
    padding: bool = False


def split_snippets(
    title: str, text: str, sentence_ends: Sequence[int], n: int, merge_title: bool = True
) -> list[Snippet]:
    """Returns the n snippets of a passage, in text order, padding last (CAMVR 3.2, Algorithm 1).

    `sentence_ends` are the end offsets of the sentences, white space up to the next sentence included. The title is
    the first snippet, unless it is blank. While there are more than n snippets, the shortest one (in characters; the
    earlier of equals) is merged with its shorter neighbour (the left of equals). With `merge_title=False` the title
    is never merged if n > 1. The spans partition the text. Raises ValueError for n < 1.
    """
    groups = snippet_parts(title, sentence_ends, n, merge_title)
    snippets = [_join(title, text, parts) for parts in groups]
    return snippets + [Snippet("", None, padding=True)] * (n - len(snippets))


def snippet_parts(
    title: str, sentence_ends: Sequence[int], n: int, merge_title: bool = True
) -> list[list[tuple[int, int] | None]]:
    """Returns the neighbouring sentences of each snippet but padding (see `split_snippets`); the part None is the title."""
    if n < 1:
        raise ValueError(f"a passage needs at least one snippet, not {n}")
    spans = [*pairwise([0, *map(int, sentence_ends)])]
    titled = bool(title.strip())
    parts: list[tuple[int, int] | None] = [None, *spans] if titled else [*spans]
    if len(parts) <= n:
        return [[part] for part in parts]
    lengths = [stop - start for start, stop in spans]
    if titled and not merge_title and n > 1:
        groups = [(0, 1)] + [(first + 1, last + 1) for first, last in _merge(lengths, n - 1)]
    else:
        groups = _merge([len(title), *lengths] if titled else lengths, n)
    return [parts[first:last] for first, last in groups]


def covered(parts: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Returns the span of the text that neighbouring parts cover; None for the title alone."""
    first, last = parts[0] or (parts[1] if len(parts) > 1 else None), parts[-1]
    return first and last and (first[0], last[1])


def _join(title: str, text: str, parts: Sequence[tuple[int, int] | None]) -> Snippet:
    """Returns one snippet of neighbouring parts; the part None is the title."""
    if (span := covered(parts)) is None:
        return Snippet(f"{title} " if text else title, None)
    body = text[slice(*span)]
    return Snippet(f"{title} {body}" if parts[0] is None else body, span)


def _merge(lengths: Sequence[int], n: int) -> list[tuple[int, int]]:
    """Returns the runs [first, last) of neighbours that remain after merging shortest-first until at most n remain.

    The paper's loop searches the shortest snippet again after each merge, O(k²) for k sentences. A heap over a linked
    list takes O(k log k). A run is identified by its first part, which also orders it. Heap entries with an outdated
    length are skipped.
    """
    k = len(lengths)
    size = list(lengths)
    left, right = list(range(-1, k - 1)), list(range(1, k + 1))
    alive = [True] * k
    heap = [(length, part) for part, length in enumerate(lengths)] if k > n else []
    heapq.heapify(heap)
    remaining = k
    while remaining > n:
        length, part = heapq.heappop(heap)
        if not alive[part] or size[part] != length:
            continue
        before, after = left[part], right[part]
        if before < 0 or (after < k and size[after] < size[before]):
            kept, removed = part, after
        else:
            kept, removed = before, part
        size[kept] += size[removed]
        alive[removed] = False
        right[kept] = right[removed]
        if right[removed] < k:
            left[right[removed]] = kept
        heapq.heappush(heap, (size[kept], kept))
        remaining -= 1
    return [(part, right[part]) for part in range(k) if alive[part]]
