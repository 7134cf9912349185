"""Adding views to an index, so that the stored form of a view depends on that view alone.

A product of matrices rounds differently for another number of rows, and some BLAS kernels also for a row at another
offset. An index would then depend on how its views were sharded, and a refreshed index would differ from one that is
built anew.
"""

from __future__ import annotations

import numpy as np

from multiview.index.approximate import FaissObject
from multiview.index.faiss_library import faiss, threads


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
