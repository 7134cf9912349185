"""Editing a filled faiss index: views go, stay under other rows, or come, with the quantizers as they were trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiview.index.approximate.adding import transformed
from multiview.index.faiss_library import faiss


class Editing:
    """An index in memory whose views become those of other rows, as if it had been filled in their order.

    First `__init__`, with where the old views go; then `add`, in order, for the new ones; then `finish`, after which
    the index is that which the same quantizers give when all views are added in the order of their rows.
    """

    def __init__(self, index: Any, rows: np.ndarray, total: int) -> None:
        """`rows` [old views] int64 is the row of each old view among `total`, -1 for one that goes.

        Raises ValueError for an index that `editable` refuses.
        """
        self._index, self._total = index, total
        self._parts = _parts(index)
        for part in self._parts:
            part.move(rows, total)

    def add(self, views: np.ndarray, rows: np.ndarray) -> None:
        """New views [n, dim] float32 with their rows [n] int64."""
        if len(rows):
            for part in self._parts:
                part.add(views, rows)

    def finish(self) -> None:
        """Put everything where its row says."""
        for part in self._parts:
            part.finish()
        pending = [self._index]
        while pending:
            index = faiss.downcast_index(pending.pop())
            index.ntotal = self._total
            if isinstance(index, faiss.IndexPreTransform):
                pending.append(index.index)
            elif isinstance(index, faiss.IndexRefine):
                pending += [index.base_index, index.refine_index]


def editable(index: Any) -> bool:
    """Whether `Editing` knows the kind of an index: inverted lists or plain codes, transformed before or refined after.

    Not graphs, which are made of their views, nor codes that lie interleaved (`fs`).
    """
    try:
        _parts(index)
    except ValueError:
        return False
    return True


class _Lists:
    """Inverted lists, of `ivf`, which may stand behind the transforms of `outer`."""

    def __init__(self, outer: Any, ivf: Any) -> None:
        self._outer, self._ivf = outer, ivf
        self._lists = faiss.downcast_InvertedLists(ivf.invlists)

    def move(self, rows: np.ndarray, total: int) -> None:
        for number in range(self._ivf.nlist):
            ids, codes = self._content(number)
            moved = rows[ids]
            self._write(number, moved[moved >= 0], codes[moved >= 0])

    def add(self, views: np.ndarray, rows: np.ndarray) -> None:
        self._ivf.add_with_ids(transformed(self._outer, views), rows)

    def finish(self) -> None:
        for number in range(self._ivf.nlist):
            ids, codes = self._content(number)
            order = np.argsort(ids)
            if (np.diff(order) != 1).any():
                self._write(number, ids[order], codes[order])

    def _content(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Views of faiss' own memory: ids [n] int64 and codes [n, bytes] uint8."""
        size, width = self._lists.list_size(number), self._ivf.code_size
        if not size:
            return np.empty(0, np.int64), np.empty((0, width), np.uint8)
        ids = faiss.rev_swig_ptr(self._lists.get_ids(number), size)
        codes = faiss.rev_swig_ptr(self._lists.get_codes(number), size * width)
        return ids, codes.reshape(size, width)

    def _write(self, number: int, ids: np.ndarray, codes: np.ndarray) -> None:
        """`ids` and `codes` are copies: what `_content` gives may move when the list is resized."""
        self._lists.resize(number, len(ids))
        if len(ids):
            for to, values in zip(self._content(number), (ids, codes), strict=True):
                to[:] = values


class _Codes:
    """Plain codes by row, of `flat`, which may stand behind the transforms of `outer`."""

    def __init__(self, outer: Any, flat: Any) -> None:
        self._outer, self._flat = outer, flat

    def move(self, rows: np.ndarray, total: int) -> None:
        self._moved = np.zeros((total, self._flat.code_size), np.uint8)
        size = self._flat.ntotal * self._flat.code_size
        if size:
            old = faiss.rev_swig_ptr(self._flat.codes.data(), size).reshape(-1, self._flat.code_size)
            self._moved[rows[rows >= 0]] = old[rows >= 0]

    def add(self, views: np.ndarray, rows: np.ndarray) -> None:
        self._moved[rows] = self._flat.sa_encode(transformed(self._outer, views))

    def finish(self) -> None:
        self._flat.codes.resize(self._moved.size)
        if self._moved.size:
            faiss.rev_swig_ptr(self._flat.codes.data(), self._moved.size)[:] = self._moved.ravel()
        del self._moved


def _parts(index: Any) -> list[_Lists | _Codes]:
    """What holds the views of an index. Raises ValueError for a kind that is not known."""
    outer = inner = faiss.downcast_index(index)
    if isinstance(outer, faiss.IndexRefine):
        return [*_parts(outer.base_index), *_parts(outer.refine_index)]
    while isinstance(inner, faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    # Local search draws at random: the codes of a view are not the same twice.
    searched = "LocalSearch" in type(inner).__name__
    if isinstance(inner, faiss.IndexFlatCodes) and not searched:
        return [_Codes(outer, inner)]
    if isinstance(inner, faiss.IndexIVF) and not searched and _has_plain_lists(inner):
        return [_Lists(outer, inner)]
    raise ValueError(f"the views of {type(inner).__name__} cannot be edited")


def _has_plain_lists(ivf: Any) -> bool:
    """Whether each list is ids and codes side by side, and nothing of a view lies elsewhere."""
    known: Any = faiss  # some of which no stub knows
    elsewhere = (known.IndexIVFPQR, known.IndexIVFFlatDedup)
    lists = faiss.downcast_InvertedLists(ivf.invlists)
    mapped = ivf.direct_map.type != known.DirectMap.NoMap
    return type(lists) is faiss.ArrayInvertedLists and not mapped and not isinstance(ivf, elsewhere)
