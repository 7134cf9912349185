"""Numbers between Arrow and NumPy without pandas.

pyarrow's own conversions import pandas where it is installed, which takes half a second.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def numbers(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Returns a column of numbers without nulls, read-only; one chunk is not copied."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.from_dlpack(array)


def int64_array(numbers: np.ndarray) -> pa.Array:
    """Returns whole numbers [r], such as rows for `take`, as an Arrow array; int64 is not copied."""
    values = np.ascontiguousarray(numbers, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
