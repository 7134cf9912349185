"""Views that stay in a bucket, where they are read block by block."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Literal, TypeAlias

import numpy as np

from multiview.artifacts.staging import StoredFile
from multiview.encoding.embeddings import VIEW_DTYPE
from multiview.errors import InputError, counted

Matrix: TypeAlias = "np.ndarray | StreamedViews"
"""Views [rows, dim] float16: in memory, mapped from a file, or in a bucket."""

HELD = 4
"""Number of blocks in memory, with the one that is read ahead; while it comes from a bucket, it takes twice its size. Speed
depends on the number, and memory."""


class StreamedViews:
    """Views [rows, dim] float16 of a file in a store, read by slices or rows, as of an array.

    Reading is fast for slices that follow each other, and for rows that rise: a block is read, checked against its
    digest and held, while another thread reads the next.
    """

    def __init__(
        self,
        file: StoredFile,
        shape: tuple[int, int],
        rows_per_block: int,
        block_sha256: Sequence[str],
        way_out: str,
    ) -> None:
        """`block_sha256` are the digests of the blocks, each of `rows_per_block` views but the last; errors end with
        `way_out`. Raises InputError where the file has another size than these views."""
        expected = shape[0] * shape[1] * VIEW_DTYPE.itemsize
        if file.bytes != expected or len(block_sha256) != -(-shape[0] // rows_per_block):
            raise InputError(
                f"{file}: {file.bytes} bytes and {counted(len(block_sha256), 'block digest')}, but "
                f"{counted(shape[0], 'view')} of {shape[1]} float16 values, {expected} bytes; {way_out}"
            )
        self.shape = shape
        self.rows_per_block = rows_per_block
        self._none = np.empty((0, shape[1]), VIEW_DTYPE)
        self._file, self._block_sha256, self._way_out = file, block_sha256, way_out
        self._held: OrderedDict[int, Future[np.ndarray]] = OrderedDict()
        """The blocks by number, the one that was asked for last at the end."""
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(HELD, thread_name_prefix="streamed-views")

    def __len__(self) -> int:
        """Number of views."""
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Views [n, dim] float16 of successive rows. Raises InputError where a block of them is damaged or gone."""
        start, stop, _ = rows.indices(len(self))
        size = self.rows_per_block
        parts = [
            self._block(number, number + 1)[max(0, start - number * size) : stop - number * size]
            for number in range(start // size, -(-stop // size))
        ]
        return parts[0] if len(parts) == 1 else np.concatenate([self._none, *parts])

    def take(self, rows: np.ndarray, axis: Literal[0] = 0) -> np.ndarray:
        """Views [n, dim] float16 of `rows` [n]. Raises InputError where a block of them is damaged or gone."""
        views = np.empty((len(rows), self.shape[1]), VIEW_DTYPE)
        blocks, places = np.divmod(rows, self.rows_per_block)
        numbers = np.unique(blocks).tolist()
        for number, following in zip(numbers, [*numbers, None][1:], strict=True):
            here = blocks == number
            views[here] = self._block(number, following)[places[here]]
        return views

    def _block(self, number: int, following: int | None) -> np.ndarray:
        """Returns a block, and has the one that will be asked for next read meanwhile. What failed once is not tried again."""
        with self._lock:
            for each in (number, following):
                if each is not None and each < len(self._block_sha256):
                    if each not in self._held:
                        self._held[each] = self._threads.submit(self._read, each)
                    self._held.move_to_end(each)
            while len(self._held) > HELD:
                self._held.popitem(last=False)
            block = self._held[number]
        return block.result()

    def _read(self, number: int) -> np.ndarray:
        start = number * self.rows_per_block
        rows = min(self.rows_per_block, len(self) - start)
        row_bytes = self.shape[1] * VIEW_DTYPE.itemsize
        try:
            block = self._file.read(start * row_bytes, (start + rows) * row_bytes)
        except FileNotFoundError:
            raise InputError(f"{self._file}: is gone since this step began; run again") from None
        if hashlib.sha256(block).hexdigest() != self._block_sha256[number]:
            raise InputError(
                f"{self._file}: block {number} is not what was written (sha256 differs); {self._way_out}"
            )
        return np.frombuffer(block, VIEW_DTYPE).reshape(rows, self.shape[1])
