"""Batches of fixed shapes, so that a sequence's vectors depend on that sequence alone.

The shape of a batch changes the last bits of its vectors, and so does padding, without which there is no attention
mask. So a sequence's number of tokens alone decides the shape of its batch, and an incomplete batch is filled up.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from multiview.config import Encode
from multiview.model.devices import HALF
from multiview.model.layouts.base import TokenSequence

Tag = TypeVar("Tag")
Member = tuple[TokenSequence, Tag]

MULTIPLE = 16
"""Sequences are padded to a multiple of this many tokens, to suit a GPU's tensor cores; short ones, of half as many."""
SHORT = 32
"""Tokens below which a sequence is short, as questions are."""
CPU_TOKENS, CPU_HALF_TOKENS = 256, 1024
"""Most tokens of a batch on a CPU; the second is for weights in half precision, which a CPU reorders for every batch.
Larger batches are hardly faster there, and take more filling up when there are few passages."""


@dataclass(frozen=True)
class Shape:
    """The shape of a batch."""

    rows: int
    length: int
    padded: bool
    """Whether every row ends with padding; otherwise none does."""


class Buckets(Generic[Tag]):
    """Sequences that wait for their batch, by its shape; the tag of a sequence identifies its vectors."""

    def __init__(self, settings: Encode, device: torch.device, limit: int, multiple: int = 1) -> None:
        """`limit` is the number of tokens of the longest sequence. The number of rows is a multiple of `multiple`."""
        on_cpu = CPU_HALF_TOKENS if settings.compute in HALF else CPU_TOKENS
        most = on_cpu if device.type == "cpu" else settings.batch_tokens
        self._tokens = min(settings.batch_tokens, most)
        self._limit, self._multiple = limit, multiple
        self._open: dict[Shape, list[Member[Tag]]] = {}

    def shape(self, tokens: int) -> Shape:
        """Returns the shape of the batch for a sequence of `tokens` tokens."""
        length = padded_length(tokens, self._limit)
        rows = max(1, self._tokens // length // self._multiple) * self._multiple
        return Shape(rows, length, tokens < length)

    def batches(self, sequences: Iterable[Member[Tag]]) -> Iterator[tuple[Shape, list[Member[Tag]]]]:
        """Yields shape and members of each batch as soon as it is full; incomplete batches come last."""
        for sequence, tag in sequences:
            shape = self.shape(len(sequence.input_ids))
            waiting = self._open.setdefault(shape, [])
            waiting.append((sequence, tag))
            if len(waiting) == shape.rows:
                yield shape, self._open.pop(shape)
        while self._open:
            yield self._open.popitem()


def padded_length(tokens: int, limit: int) -> int:
    """Returns the length that a sequence is padded to: more than its own, unless that is the `limit`.

    >>> [padded_length(tokens, 60) for tokens in (1, 7, 8, 31, 32, 47, 48, 60)]
    [8, 8, 16, 32, 48, 48, 60, 60]
    """
    multiple = MULTIPLE // 2 if tokens < SHORT else MULTIPLE
    return min((tokens // multiple + 1) * multiple, limit)
