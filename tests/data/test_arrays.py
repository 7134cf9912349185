"""Numbers between Arrow and NumPy: as pyarrow converts them, without a copy."""

import numpy as np
import pyarrow as pa
import pytest

from multiview.data.arrays import int64_array, numbers


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.uint64(), pa.float32()])
def test_numbers_are_those_of_pyarrow(kind):
    arrays = [pa.array(values, kind) for values in ([], [7], [1, 2, 3])]
    columns = [*arrays, arrays[2].slice(1), pa.chunked_array(arrays), pa.chunked_array([], kind)]
    for column in columns:
        assert numbers(column).dtype == column.to_numpy().dtype
        assert numbers(column).tolist() == column.to_pylist()


def test_arrays_of_numbers_are_those_of_pyarrow():
    for values in (np.arange(0), np.arange(5), np.arange(9)[::2], np.arange(3, dtype=np.int32)):
        assert int64_array(values).equals(pa.array(values.astype(np.int64)))
    values = np.arange(4)
    held = int64_array(values)
    assert held.buffers()[1].address == values.ctypes.data, "nothing is copied"
    del values
    assert held.to_pylist() == [0, 1, 2, 3]
