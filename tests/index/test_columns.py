"""Rows are kept in the order in which they came, however many there are."""

import numpy as np

from multiview.index.columns import Columns


def test_rows_come_back_in_order_beyond_the_room_and_after_clearing():
    columns, rng = Columns(3, np.int64, np.float32, np.float64), np.random.default_rng(0)
    for _ in range(2):
        parts = [rng.integers(9, size=count) for count in (0, 2, 1, 7, 30)]
        for part in parts:
            columns.append(part, part / 2, 7)
        whole = np.concatenate(parts)
        numbers, halves, sevens = columns.filled
        assert len(columns) == len(whole)
        assert numbers.dtype == np.int64 and numbers.tolist() == whole.tolist()
        assert halves.dtype == np.float32 and halves.tolist() == (whole / 2).tolist()
        assert sevens.dtype == np.float64 and (sevens == 7).all()
        columns.replace(*(part[:0] for part in columns.filled))
        assert not len(columns)
