"""Passages as token sequences, laid out in processes ahead of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from torch.utils.data import DataLoader, Dataset

from multiview.data.passages import Passage
from multiview.model.layouts import Layout, TokenSequence

BLOCK = 64
"""Passages that a process lays out at a time."""

ReadWith = tuple[Passage, Sequence[str]]
"""A passage and the queries that it is read with."""
Block = list[ReadWith]
LaidOut = tuple[Block, list[list[TokenSequence]]]
"""A block with the sequences of each of its passages."""


class _LaidOut(Dataset[LaidOut]):
    """The sequences of each passage of a block; the loader's "index" is the block itself, which the main process reads."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __getitem__(self, block: Block) -> LaidOut:
        return block, [self._layout.passage(passage, queries) for passage, queries in block]


def laid_out_ahead(
    layout: Layout, passages: Iterable[ReadWith], workers: int
) -> Iterator[tuple[Passage, Sequence[str], list[TokenSequence]]]:
    """Yields the passages in their order, each with its queries and its sequences.

    As many processes as `workers` lay out blocks of passages, each up to two blocks ahead; with 0 of them this process
    does, as passages are asked for.
    """
    loader = DataLoader(
        _LaidOut(layout),
        batch_size=None,
        sampler=_blocks(passages),
        num_workers=workers,
        collate_fn=_as_it_is,
    )
    for block, sequences in loader:
        for (passage, queries), each in zip(block, sequences, strict=True):
            yield passage, queries, each


def _blocks(passages: Iterable[ReadWith]) -> Iterator[Block]:
    rest = iter(passages)
    while block := list(islice(rest, BLOCK)):
        yield block


def _as_it_is(laid_out: object) -> object:
    return laid_out
