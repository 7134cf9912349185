"""Multi-view dense retrieval: CAMVR, MVR, the Dual Cross Encoder and their baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multiview.names import VERSION

if TYPE_CHECKING:
    from multiview.serving.retriever import Retriever

__version__ = VERSION


def load(address: str, *, device: str = "auto", verify: bool = False) -> Retriever:
    """Returns the retriever of the index at `address`, such as `gs://bucket/store/index/KEY`.

    See `multiview.serving.retriever.load`. The first call imports torch.

    >>> import multiview
    >>> retriever = multiview.load(address)
    >>> (hits,) = retriever.search(["When did the lighthouse stop burning oil?"], k=3)
    >>> len(hits), hits[0].score >= hits[1].score >= hits[2].score
    (3, True)
    >>> for hit in hits:
    ...     line = f"{hit.score:.1f} {hit.id} {hit.title}: {hit.snippet} ({hit.columns['url']})"
    """
    from multiview.serving import retriever

    return retriever.load(address, device=device, verify=verify)
