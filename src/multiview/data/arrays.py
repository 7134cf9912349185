"""Helpers for arrays of numbers: ranges of rows, and conversion between Arrow and NumPy without pandas."""

import numpy as np
import pyarrow as pa


def rows_in(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns the rows of ranges that begin at `starts` [r] and have `counts` [r] rows, one range after another.

    >>> rows_in(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def numbers(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Returns a numeric column, which must have no nulls, as a read-only array; a single chunk is not copied."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.from_dlpack(array)


def int64_array(numbers: np.ndarray) -> pa.Array:
    """Returns integers [r], such as the rows for `take`, as an Arrow array; int64 input is not copied."""
    values = np.ascontiguousarray(numbers, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
