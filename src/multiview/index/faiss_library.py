"""faiss, loaded with BLAS kernels that suit this processor. Everything that uses faiss imports it from this module.

The wheels of faiss carry OpenBLAS 0.3.15 of 2021, which falls back to kernels of 2005 on processors it does not know:
SSE3 on Intel's Sapphire and Emerald Rapids and on AMD's Zen 5, where building a compact index then takes four times as
long. It reads `OPENBLAS_CORETYPE`, which names other kernels, once, as it is loaded.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

# Loaded before the variable is set: NumPy's own OpenBLAS is newer and chooses for itself.
import numpy as np  # noqa: F401
import torch

from multiview import environment

KERNELS = {"AVX512": "SkylakeX", "AVX2": "Haswell"}
"""OpenBLAS' kernels by the instructions of a processor, as torch names them; others are left to OpenBLAS. On processors
that it knows, OpenBLAS takes these too or, on AMD's, kernels that are as fast and give the same bytes."""


_kernel = KERNELS.get(torch.backends.cpu.get_cpu_capability())
if _kernel and environment.OPENBLAS_CORETYPE not in os.environ:
    os.environ[environment.OPENBLAS_CORETYPE] = _kernel
    try:
        import faiss
    finally:  # the OpenBLAS of another library, or of a child process, chooses for itself
        del os.environ[environment.OPENBLAS_CORETYPE]
else:
    import faiss

all_of_faiss: Any = faiss
"""faiss without its stubs, which lack some classes and keyword arguments."""

# From this many questions on, faiss multiplies matrices; its own threshold is so high that a hundred
# questions against a whole corpus go without BLAS, ten times slower.
faiss.cvar.distance_compute_blas_threshold = 20


def list_count(index: Any) -> int | None:
    """Number of inverted lists; none for an index without lists."""
    ivf = faiss.try_extract_index_ivf(index)
    return ivf and int(ivf.nlist)


@contextlib.contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Makes faiss and its BLAS use `count` threads; with None, as many as before."""
    previous = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count or previous)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(previous)
