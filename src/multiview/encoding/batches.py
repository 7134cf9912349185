"""Plans of batches in which a sequence's vectors depend on the sequence alone.

The shape of a batch changes the last bits of its vectors; the other sequences in it do not. So every batch that a
sequence may lie in has one shape, and the last ones are filled up. Memory is bounded by the open batches, or by the
sequences that wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from multiview.config import Encode
from multiview.model.layouts import TokenSequence

Tag = TypeVar("Tag")
Member = tuple[TokenSequence, Tag]

PACKED_TOKENS = 512
"""The least number of tokens per packed batch: enough for a CPU's kernels to run at full speed."""
WAITING = 16
"""Packed batches that the waiting sequences could fill. Only speed and memory depend on it."""


BUCKET = 32
"""Sequences are padded to multiples of this many tokens."""


class Buckets(Generic[Tag]):
    """Sequences that wait for their batch, by padded length; the tag of a sequence identifies its vectors."""

    def __init__(self, settings: Encode, limit: int) -> None:
        self._settings = settings
        self._limit = limit
        self._open: dict[int, list[Member[Tag]]] = {}

    def length(self, tokens: int) -> int:
        """Padded length of a sequence: the next multiple of the bucket, and no more than the model's limit."""
        return min(-(-tokens // BUCKET) * BUCKET, self._limit)

    def rows(self, length: int) -> int:
        """Number of rows of every batch of this padded length: the multiple of 8 that the token budget allows, at least 8."""
        return max(8, self._settings.batch_tokens // length // 8 * 8)

    def batches(self, sequences: Iterable[Member[Tag]]) -> Iterator[tuple[int, list[Member[Tag]]]]:
        """Yields length and members of each batch as soon as it is full; incomplete batches come last."""
        for sequence, tag in sequences:
            length = self.length(len(sequence.input_ids))
            waiting = self._open.setdefault(length, [])
            waiting.append((sequence, tag))
            if len(waiting) == self.rows(length):
                yield length, self._open.pop(length)
        while self._open:
            length = min(self._open)
            yield length, self._open.pop(length)


class Packs(Generic[Tag]):
    """Sequences that wait until they fill a packed batch of `tokens` tokens."""

    def __init__(self, limit: int, waiting: int = WAITING) -> None:
        """`limit` is the model's longest sequence in tokens; a batch holds four of them, so that little of it is filler.

        Sequences wait until they could fill `waiting` batches: the more there are, the fuller a batch becomes.
        """
        self.tokens = max(PACKED_TOKENS, -(-4 * limit // 64) * 64)
        self._enough = waiting * self.tokens

    def batches(self, sequences: Iterable[Member[Tag]]) -> Iterator[list[Member[Tag]]]:
        """Yields the members of each batch: the longest that wait, and at its end those that fill it up best.

        In some runs sequences of similar length beside each other were a few percent faster.
        """
        waiting: list[Member[Tag]] = []
        tokens = 0
        for member in sequences:
            waiting.append(member)
            tokens += _tokens(member)
            while tokens >= self._enough:
                members = self._next(waiting)
                tokens -= sum(map(_tokens, members))
                yield members
        while waiting:
            yield self._next(waiting)

    def _next(self, waiting: list[Member[Tag]]) -> list[Member[Tag]]:
        """Removes and returns the members of a batch; a sequence that is longer than one is its only member."""
        waiting.sort(key=_tokens, reverse=True)
        room, longest = self.tokens, _tokens(waiting[0])
        first = 0
        while first < len(waiting) and (not first or room > 2 * longest):
            room -= _tokens(waiting[first])
            first += 1
        members = waiting[:first]
        del waiting[:first]
        while fitting := fullest_pair([_tokens(member) for member in waiting], room):
            room -= sum(_tokens(waiting[number]) for number in fitting)
            members += [waiting.pop(number) for number in sorted(fitting, reverse=True)]
        return members


def fullest_pair(lengths: Sequence[int], room: int) -> tuple[int, ...]:
    """The positions of the two lengths, or of the one, with the largest sum within `room`; empty where none fits.

    >>> fullest_pair([5, 3, 8, 4], 10)
    (3, 0)
    """
    alone = len(lengths)
    tokens = [*lengths, 0]  # a length alone is a pair with this one
    order = sorted(range(len(tokens)), key=tokens.__getitem__)
    low, high, best, most = 0, alone, (), 0
    while low < high:
        total = tokens[order[low]] + tokens[order[high]]
        if total > room:
            high -= 1
            continue
        if total > most:
            most, best = total, (order[low], order[high])
        low += 1
    return tuple(number for number in best if number != alone)


def _tokens(member: Member[Tag]) -> int:
    return len(member[0].input_ids)
