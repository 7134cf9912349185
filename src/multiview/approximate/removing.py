"""Removing views from a faiss index, of any kind that can."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np

from multiview.errors import InputError


def remove_views(index: Any, rows: np.ndarray, kind: str) -> None:
    """Take the views of `rows` [n] int64, distinct, out of `index`, which was read into memory, in place.

    The others move up, as in an array of views from which these rows were deleted: ids are rows again. Quantizers
    stay as they were trained. Raises InputError for a kind that cannot, such as hnsw.
    """
    rows = np.sort(rows)
    try:
        removed = index.remove_ids(rows)
    except RuntimeError:
        raise InputError(
            f"an index of kind {kind} cannot remove views: build it again without them"
        ) from None
    if removed != len(rows):
        raise ValueError(f"{len(rows)} rows to remove, but the index has {removed} of them")
    ivf: Any = faiss.try_extract_index_ivf(index)
    for number in range(ivf.nlist if ivf else 0):
        if size := ivf.invlists.list_size(number):
            ids = faiss.rev_swig_ptr(ivf.invlists.get_ids(number), size)
            ids -= np.searchsorted(rows, ids)
