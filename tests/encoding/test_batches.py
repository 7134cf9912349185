"""Plans of batches: each sequence once, in batches of fixed shapes, with little padding."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiview.config import Encode
from multiview.encoding.batches import WAITING, Buckets, Packs, fullest_pair
from multiview.model.layouts import TokenSequence


def test_batches_have_one_shape_a_length_and_memory_is_theirs_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("multiview.encoding.batches.BUCKET", 16)
    buckets: Buckets[int] = Buckets(Encode(batch_tokens=256), limit=40)
    assert [buckets.length(tokens) for tokens in (1, 16, 17, 32, 33, 40)] == [16, 16, 32, 32, 40, 40]
    assert [buckets.rows(length) for length in (16, 32, 40)] == [16, 8, 8]
    taken = 0

    def sequences() -> Any:
        nonlocal taken
        for i in range(100):
            taken += 1
            yield TokenSequence([0] * (5 + 12 * (i % 3)), ()), i

    seen: list[int] = []
    for length, members in buckets.batches(sequences()):
        seen += [tag for _, tag in members]
        assert len(members) <= buckets.rows(length)
        assert taken - len(seen) < 16 + 8 + 8
        assert all(buckets.length(len(sequence.input_ids)) == length for sequence, _ in members)
    assert sorted(seen) == list(range(100))


@given(st.lists(st.integers(1, 128), max_size=200))
def test_packs_hold_every_sequence_once_and_no_more_tokens_than_fit(lengths: list[int]) -> None:
    packs: Packs[int] = Packs(limit=128, waiting=2)
    batches = list(packs.batches((TokenSequence([0] * n, ()), i) for i, n in enumerate(lengths)))
    assert sorted(tag for members in batches for _, tag in members) == list(range(len(lengths)))
    sizes = [sum(len(sequence.input_ids) for sequence, _ in members) for members in batches]
    assert packs.tokens == 512 and all(0 < size <= 512 for size in sizes)


@given(st.lists(st.integers(1, 40), max_size=12), st.integers(1, 80))
def test_no_two_sequences_fill_a_batch_better(lengths: list[int], room: int) -> None:
    pairs = [(), *combinations(range(len(lengths)), 1), *combinations(range(len(lengths)), 2)]
    sums = [sum(lengths[number] for number in pair) for pair in pairs]
    found = fullest_pair(lengths, room)
    assert tuple(sorted(found)) in pairs
    assert sum(lengths[number] for number in found) == max(total for total in sums if total <= room)


@pytest.mark.parametrize("limit", [256, 512])
@pytest.mark.parametrize(("count", "mean"), [(192, 155), (2000, 155), (5000, 12)])
def test_passages_are_little_filler_and_memory_is_that_of_the_waiting(
    count: int, mean: int, limit: int
) -> None:
    draws = random.Random(0)
    # About the lengths of SQuAD's passages, and of its questions.
    lengths = [max(5, min(256, int(draws.gauss(mean, mean / 3)))) for _ in range(count)]
    packs: Packs[int] = Packs(limit)
    waiting = most = 0

    def sequences() -> Any:
        nonlocal waiting, most
        for i, length in enumerate(lengths):
            waiting += length
            most = max(most, waiting)
            yield TokenSequence([0] * length, ()), i

    batches = 0
    for members in packs.batches(sequences()):
        batches += 1
        waiting -= sum(len(sequence.input_ids) for sequence, _ in members)
    assert batches <= 1.02 * sum(lengths) / packs.tokens + 1
    assert most < WAITING * packs.tokens + 256


def test_a_sequence_that_is_too_long_is_alone() -> None:
    lengths = [10, 600, 500, 700]
    batches = Packs(32).batches((TokenSequence([0] * n, ()), n) for n in lengths)
    assert [[length for _, length in members] for members in batches] == [[700], [600], [500, 10]]


def test_a_packed_batch_holds_a_longer_limit_four_times() -> None:
    assert [Packs(limit).tokens for limit in (32, 128, 150, 256, 512)] == [512, 512, 640, 1024, 2048]
