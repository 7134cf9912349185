"""What reaches a bar, and the k highest, are the same in bfloat16, which NumPy compares as whole numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.index import products
from multiview.index.products import Highest, bits_reaching, in_float32, in_order, reaching, true_positions

EVERY_BITS = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
FINITE = EVERY_BITS[np.isfinite(in_float32(EVERY_BITS))]
"""The bits of all finite numbers of bfloat16."""

bars = st.one_of(
    st.floats(width=32, allow_nan=False),
    st.sampled_from([0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 2.0**-126, -(2.0**-126)]),
)


@settings(max_examples=300, deadline=None)
@given(bars)
def test_bits_reach_a_bar_where_their_numbers_do(bar):
    bars = np.array([bar], np.float32)
    reached = in_order(FINITE) >= bits_reaching(bars)
    np.testing.assert_array_equal(reached, in_float32(FINITE) >= bars)


def test_numbers_above_zero_are_in_order_as_they_are():
    above = FINITE[in_float32(FINITE) > 0]
    np.testing.assert_array_equal(in_order(above), above)
    np.testing.assert_array_equal(in_order(in_order(FINITE)), FINITE)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([torch.float32, torch.bfloat16]), st.booleans(), st.booleans())
def test_products_that_reach_the_bar_are_found_row_by_row(seed, dtype, negative, with_numpy):
    """Those of columns beyond the questions are not."""
    rng = np.random.default_rng(seed)
    some = torch.from_numpy(rng.standard_normal((30, 16)).astype(np.float32) - 2 * negative).to(dtype)
    bar = some[rng.integers(30, size=13), torch.arange(13)].float().numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "with_numpy", lambda device: with_numpy)
        rows, columns, values = reaching(some, bar)
    expected = np.nonzero(some[:, :13].float().numpy() >= bar)
    assert rows.tolist() == expected[0].tolist() and columns.tolist() == expected[1].tolist()
    np.testing.assert_array_equal(values, some.float().numpy()[expected])


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 12),
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.booleans(),
)
def test_the_lowest_of_the_highest_is_that_of_all_parts_together(seed, k, dtype, with_numpy):
    rng = np.random.default_rng(seed)
    parts = [
        torch.from_numpy(rng.standard_normal((rows, 6)).astype(np.float32)).to(dtype) for rows in (3, 1, 9)
    ]
    highest = Highest(k)
    assert np.isneginf(highest.lowest(5)).all()
    for number, part in enumerate(parts, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(products, "with_numpy", lambda device: with_numpy)
            highest.add(part)
            lowest = highest.lowest(5)
        seen = np.sort(torch.cat(parts[:number]).float().numpy()[:, :5], axis=0)
        expected = seen[-k] if len(seen) >= k else np.full(5, -np.inf)
        np.testing.assert_array_equal(lowest, expected.astype(np.float32))


def test_eight_values_are_read_at_once_to_the_last():
    rng = np.random.default_rng(0)
    for length in range(40):
        for share in (0.0, 0.1, 1.0):
            mask = rng.random(length) < share
            assert true_positions(mask).tolist() == np.flatnonzero(mask).tolist()
