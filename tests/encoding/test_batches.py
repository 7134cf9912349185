"""Batches: each sequence once, in batches whose shapes depend on the sequence alone."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from multiview.config import Encode
from multiview.encoding.batches import Buckets, padded_length
from multiview.model.layouts.base import TokenSequence

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@given(
    st.lists(st.integers(1, 64), max_size=200),
    st.integers(64, 4096),
    st.sampled_from([CPU, GPU]),
    st.sampled_from([("float32", 256), ("bfloat16", 1024)]),
)
def test_the_length_of_a_sequence_decides_the_shape_of_its_batch(
    lengths: list[int], tokens: int, device: torch.device, compute: tuple[Any, int]
) -> None:
    buckets: Buckets[int] = Buckets(Encode(batch_tokens=tokens, compute=compute[0]), device, limit=64)
    taken, seen = 0, []

    def sequences() -> Any:
        nonlocal taken
        for number, length in enumerate(lengths):
            taken += 1
            yield TokenSequence([0] * length, ()), number

    for shape, members in buckets.batches(sequences()):
        seen += [number for _, number in members]
        assert shape.length == 64 or shape.length % 8 == 0
        assert len(members) <= shape.rows and shape.rows * shape.length <= tokens
        assert device == GPU or shape.rows * shape.length <= compute[1]
        for sequence, _ in members:
            assert buckets.shape(len(sequence.input_ids)) == shape
            assert len(sequence.input_ids) <= shape.length, "it fits"
            # Padded or not, which decides whether there is a mask, every row is the same as its neighbours.
            assert (len(sequence.input_ids) < shape.length) == shape.padded
        assert taken - len(seen) < sum(buckets.shape(8 * n).rows for n in range(9)), "few wait"
    assert sorted(seen) == list(range(len(lengths)))


def test_little_is_padding() -> None:
    assert all(0 < padded_length(n, 512) - n <= 16 for n in range(1, 512)) and padded_length(512, 512) == 512
