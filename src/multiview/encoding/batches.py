"""Plans of batches in which a sequence's vectors depend on the sequence alone.

The shape of a batch changes the last bits of its vectors; the other sequences in it do not. So every batch that a
sequence may lie in has one shape, and the last ones are filled up. Memory is bounded by the open batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from multiview.config import Encode
from multiview.model.layouts import TokenSequence

Tag = TypeVar("Tag")
Member = tuple[TokenSequence, Tag]

PACKED_TOKENS = 512
"""The least number of tokens per packed batch: enough for a CPU's kernels to run at full speed."""
OPEN_PACKS = 32
"""Packed batches that wait for sequences that fit. Only speed and memory depend on it."""


class Buckets(Generic[Tag]):
    """Sequences that wait for their batch, by padded length; the tag of a sequence identifies its vectors."""

    def __init__(self, settings: Encode, limit: int) -> None:
        self._settings = settings
        self._limit = limit
        self._open: dict[int, list[Member[Tag]]] = {}

    def length(self, tokens: int) -> int:
        """Padded length of a sequence: the next multiple of the bucket, and no more than the model's limit."""
        bucket = self._settings.bucket
        return min(-(-tokens // bucket) * bucket, self._limit)

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

    def __init__(self, limit: int, at_once: int = OPEN_PACKS) -> None:
        """`limit` is the model's longest sequence in tokens; a batch holds four of them, so that little of it is filler.

        At most `at_once` batches are open.
        """
        self._at_once = at_once
        self.tokens = max(PACKED_TOKENS, -(-4 * limit // 64) * 64)

    def batches(self, sequences: Iterable[Member[Tag]]) -> Iterator[list[Member[Tag]]]:
        """Yields the members of each batch; a sequence joins the fullest open one that has room for it.

        Batches that are open at the end are packed anew, the longest sequences first, mostly into fewer.
        """
        packs: _OpenPacks[Tag] = _OpenPacks(self.tokens)
        for member in sequences:
            if not packs.add(member):
                if len(packs.members) == self._at_once:
                    yield packs.close_fullest()
                packs.open_with(member)
        rest: _OpenPacks[Tag] = _OpenPacks(self.tokens)
        for member in sorted(chain.from_iterable(packs.members), key=_tokens, reverse=True):
            if not rest.add(member):
                rest.open_with(member)
        yield from rest.members


class _OpenPacks(Generic[Tag]):
    """Packed batches that have room for further sequences."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._room: list[int] = []
        self.members: list[list[Member[Tag]]] = []

    def add(self, member: Member[Tag]) -> bool:
        """Adds a sequence to the fullest batch that has room for it; false where none has."""
        tokens = _tokens(member)
        fitting = [pack for pack, left in enumerate(self._room) if left >= tokens]
        if fitting:
            fullest = min(fitting, key=self._room.__getitem__)
            self.members[fullest].append(member)
            self._room[fullest] -= tokens
        return bool(fitting)

    def open_with(self, member: Member[Tag]) -> None:
        """Opens a batch with a sequence, which it has room for."""
        self.members.append([member])
        self._room.append(self._tokens - _tokens(member))

    def close_fullest(self) -> list[Member[Tag]]:
        """Removes the fullest batch and returns its members."""
        fullest = self._room.index(min(self._room))
        self._room.pop(fullest)
        return self.members.pop(fullest)


def _tokens(member: Member[Tag]) -> int:
    return len(member[0].input_ids)
