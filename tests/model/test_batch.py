"""Batches in groups of similar length."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multiview.model.batch import by_length, encode_groups, make_groups
from multiview.model.layouts.base import TokenSequence, View

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=40)


@given(LENGTHS, st.integers(1, 200))
def test_groups_hold_every_sequence_once_and_pad_less_than_another_group_costs(
    lengths: list[int], cost: int
) -> None:
    groups = by_length(lengths, cost)
    assert sorted(position for group in groups for position in group) == list(range(len(lengths)))
    found = [[lengths[position] for position in group] for group in groups]
    assert [length for group in found for length in group] == sorted(lengths, reverse=True)
    for group, following in zip(found, [*found[1:], []], strict=True):
        assert sum(group[0] - length for length in group) < cost
        # No group ends before it must.
        assert not following or sum(group[0] - length for length in [*group, following[0]]) >= cost


def test_a_group_has_no_more_members_than_it_may() -> None:
    assert by_length([5, 5, 9, 5, 5], math.inf, most=2) == [[2, 0], [1, 3], [4]]


@pytest.mark.parametrize(("cost", "count"), [(1, 4), (10, 2), (math.inf, 1)])
def test_vectors_come_in_the_order_of_the_sequences(cost: float, count: int) -> None:
    sequences = [TokenSequence([7] * length, (View(((0, length),)),)) for length in (3, 9, 1, 9, 4)]
    groups = make_groups(sequences, 0, 1, cost)
    assert len(groups["batches"]) == count
    lengths = encode_groups(lambda batch: batch["attention_mask"].sum(1), groups)
    assert lengths.tolist() == [3, 9, 1, 9, 4]
    longest = groups["batches"][0]
    assert torch.equal(longest["input_ids"][0], torch.tensor([7] * 9))
