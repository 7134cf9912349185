"""Multi-view dense retrieval: CAMVR, MVR, the Dual Cross Encoder and their baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multiview.names import VERSION

if TYPE_CHECKING:
    from multiview.serving.retriever import Retriever

__version__ = VERSION


def load(address: str, *, device: str = "auto", verify: bool = False) -> Retriever:
    """Returns the retriever of an index: `multiview.load(address).search(questions, k)`.

    See `multiview.serving.retriever.load`. The first call imports torch and faiss.
    """
    from multiview.serving import retriever

    return retriever.load(address, device=device, verify=verify)
