"""Ranges of rows, as NumPy reads and writes them at once."""

from __future__ import annotations

import numpy as np


def rows_in(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns the rows of ranges that begin at `starts` [r] and have `counts` [r] rows, one range after another.

    >>> rows_in(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
