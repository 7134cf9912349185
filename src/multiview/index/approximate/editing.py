"""Filling and editing a faiss index: views are added, removed or moved to other rows, with the quantizers as trained.

Each view is transformed separately, so that its stored form depends on that view alone. One matrix product of many rows
rounds differently with their number and, in some BLAS kernels, with a row's offset: an index would depend on how its
views were sharded, and a refreshed index would differ from one that is built anew.
"""

import numpy as np

from multiview.index.approximate import FaissObject
from multiview.index.faiss_library import all_of_faiss, faiss, threads


def add(index: FaissObject, views: np.ndarray) -> None:
    """Adds views [n, dim] float32 as `index.add` does, with each view transformed separately."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        add(index.index, transformed(index, views))
        index.ntotal = index.index.ntotal
    elif isinstance(index, faiss.IndexRefine):
        add(index.base_index, views)
        add(index.refine_index, views)
        index.ntotal = index.refine_index.ntotal
    else:
        index.add(views)


def transformed(index: FaissObject, views: np.ndarray) -> np.ndarray:
    """Returns views [n, dim] float32 as the index behind all transforms of `index` gets them, each row transformed separately."""
    index = faiss.downcast_index(index)
    if not isinstance(index, faiss.IndexPreTransform):
        return views
    chain: FaissObject = index.chain
    # Several threads would share out the columns of a row, and their number would change how it is rounded.
    with threads(1):
        for position in range(chain.size()):
            rows = [chain.at(position).apply(view[None]) for view in views]
            views = np.concatenate([np.empty((0, chain.at(position).d_out), np.float32), *rows])
    return transformed(index.index, views)


class IndexEditor:
    """Edits an index in memory, as if it had been filled with the new views in the order of their rows.

    `__init__` moves the old views to their new rows, `add` adds new views, in order, and `finish` completes the index.
    It is then the index that the same quantizers give when all views are added in the order of their rows.
    """

    def __init__(self, index: FaissObject, rows: np.ndarray, total: int) -> None:
        """`rows` [old views] int64 is the new row of each old view among `total`, -1 for a view that is removed.

        Raises ValueError for an index that `editable` refuses.
        """
        self._index, self._total = index, total
        self._parts = _parts(index)
        for part in self._parts:
            part.move(rows, total)

    def add(self, views: np.ndarray, rows: np.ndarray) -> None:
        """Adds new views [n, dim] float32 at `rows` [n] int64."""
        if len(rows):
            for part in self._parts:
                part.add(views, rows)

    def finish(self) -> None:
        """Puts every view at its row."""
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


def editable(index: FaissObject) -> bool:
    """Whether `IndexEditor` supports an index: inverted lists or plain codes, with transforms before or refinement after them.

    Graphs are not supported, because they are made of their views, nor are interleaved codes (`fs`).
    """
    try:
        _parts(index)
    except ValueError:
        return False
    return True


class _Lists:
    """Inverted lists of `ivf`, which may come after the transforms of `outer`."""

    def __init__(self, outer: FaissObject, ivf: FaissObject) -> None:
        self._outer, self._ivf = outer, ivf
        self._lists = faiss.downcast_InvertedLists(ivf.invlists)

    def move(self, rows: np.ndarray, total: int) -> None:
        for list_number in range(self._ivf.nlist):
            ids, codes = self._content(list_number)
            moved = rows[ids]
            self._write(list_number, moved[moved >= 0], codes[moved >= 0])

    def add(self, views: np.ndarray, rows: np.ndarray) -> None:
        self._ivf.add_with_ids(transformed(self._outer, views), rows)

    def finish(self) -> None:
        for list_number in range(self._ivf.nlist):
            ids, codes = self._content(list_number)
            order = np.argsort(ids)
            if (np.diff(order) != 1).any():
                self._write(list_number, ids[order], codes[order])

    def _content(self, list_number: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids [n] int64 and codes [n, bytes] uint8 of an inverted list, as arrays over faiss's own memory."""
        size, width = self._lists.list_size(list_number), self._ivf.code_size
        if not size:
            return np.empty(0, np.int64), np.empty((0, width), np.uint8)
        ids = faiss.rev_swig_ptr(self._lists.get_ids(list_number), size)
        codes = faiss.rev_swig_ptr(self._lists.get_codes(list_number), size * width)
        return ids, codes.reshape(size, width)

    def _write(self, list_number: int, ids: np.ndarray, codes: np.ndarray) -> None:
        """Replaces an inverted list. `ids` and `codes` must be copies: resizing may move the memory that `_content` returns."""
        self._lists.resize(list_number, len(ids))
        if len(ids):
            for target, values in zip(self._content(list_number), (ids, codes), strict=True):
                target[:] = values


class _Codes:
    """Plain codes by row of `flat`, which may come after the transforms of `outer`."""

    def __init__(self, outer: FaissObject, flat: FaissObject) -> None:
        self._outer, self._flat = outer, flat

    def move(self, rows: np.ndarray, total: int) -> None:
        self._moved = np.zeros((total, self._flat.code_size), np.uint8)
        size = self._flat.ntotal * self._flat.code_size
        if size:
            codes = faiss.rev_swig_ptr(self._flat.codes.data(), size).reshape(-1, self._flat.code_size)
            self._moved[rows[rows >= 0]] = codes[rows >= 0]

    def add(self, views: np.ndarray, rows: np.ndarray) -> None:
        self._moved[rows] = self._flat.sa_encode(transformed(self._outer, views))

    def finish(self) -> None:
        self._flat.codes.resize(self._moved.size)
        if self._moved.size:
            faiss.rev_swig_ptr(self._flat.codes.data(), self._moved.size)[:] = self._moved.ravel()
        del self._moved


def _parts(index: FaissObject) -> list[_Lists | _Codes]:
    """The parts of an index that hold its views. Raises ValueError for a kind that is not supported."""
    outer = inner = faiss.downcast_index(index)
    if isinstance(outer, faiss.IndexRefine):
        return [*_parts(outer.base_index), *_parts(outer.refine_index)]
    while isinstance(inner, faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    # Local search is random: the codes of a view are not reproducible.
    searched = "LocalSearch" in type(inner).__name__
    if isinstance(inner, faiss.IndexFlatCodes) and not searched:
        return [_Codes(outer, inner)]
    if isinstance(inner, faiss.IndexIVF) and not searched and _has_plain_lists(inner):
        return [_Lists(outer, inner)]
    raise ValueError(f"the views of {type(inner).__name__} cannot be edited")


def _has_plain_lists(ivf: FaissObject) -> bool:
    """Whether each list has ids and codes side by side, and no part of a view is stored elsewhere."""
    stored_elsewhere = (all_of_faiss.IndexIVFPQR, all_of_faiss.IndexIVFFlatDedup)
    lists = faiss.downcast_InvertedLists(ivf.invlists)
    mapped = ivf.direct_map.type != all_of_faiss.DirectMap.NoMap
    return type(lists) is faiss.ArrayInvertedLists and not mapped and not isinstance(ivf, stored_elsewhere)
