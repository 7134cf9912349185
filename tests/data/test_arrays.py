"""Orders of rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from multiview.data.arrays import stable_order

FEW, MANY = st.integers(0, 3), st.integers(0, (1 << 40) - 1)


@given(st.lists(st.one_of(FEW, MANY, st.builds(lambda few: few << 16, FEW)), max_size=50))
def test_orders_are_numpy_s(rows: list[int]) -> None:
    numbers = np.array(rows, np.int64)
    assert np.array_equal(stable_order(numbers), np.argsort(numbers, kind="stable"))
