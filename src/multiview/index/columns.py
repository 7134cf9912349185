"""Columns that grow by rows, in memory that is taken once."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike


class Columns:
    """Rows of several columns, which are copied into memory that is taken once.

    A list of small arrays would do, but each of them would stay in the middle of the heap, between the large arrays of
    one block and the next, and the heap would grow with the number of blocks.
    """

    def __init__(self, rows: int, *dtypes: DTypeLike) -> None:
        """There is room for `rows` rows, and for more as soon as they are appended."""
        self._columns = [np.empty(rows, dtype) for dtype in dtypes]
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, first: np.ndarray, *others: np.ndarray | float) -> None:
        """Copies rows behind the others; in place of a column, a number stands in each row."""
        stop = self._rows + len(first)
        if stop > len(self._columns[0]):
            for number, filled in enumerate(self.filled):
                self._columns[number] = np.empty(stop + stop // 2, filled.dtype)
                self._columns[number][: self._rows] = filled
        for column, more in zip(self._columns, (first, *others), strict=True):
            column[self._rows : stop] = more
        self._rows = stop

    def replace(self, *columns: np.ndarray) -> None:
        """Has these rows in place of all."""
        self._rows = 0
        self.append(*columns)

    @property
    def filled(self) -> list[np.ndarray]:
        """The columns, which `replace` overwrites."""
        return [column[: self._rows] for column in self._columns]
