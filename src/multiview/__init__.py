"""Multi-view dense retrieval: CAMVR, MVR, the Dual Cross Encoder and their baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multiview.names import VERSION

if TYPE_CHECKING:
    from multiview.serving.retriever import Retriever

__version__ = VERSION


def load(address: str, *, device: str = "auto", verify: bool = False) -> Retriever:
    """The retriever of an index, ready to be asked: `multiview.load(address).search(questions, k)`.

    See `multiview.serving.retriever.load`. What it needs (torch, faiss) is imported by the first call.
    """
    from multiview.serving import retriever

    return retriever.load(address, device=device, verify=verify)
