"""Multi-view dense retrieval: CAMVR, MVR, the Dual Cross Encoder and their baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, overload

from multiview.names import CHAMPION, DEFAULT_STORE, VERSION

if TYPE_CHECKING:
    from multiview.serving.follow import ChampionRetriever
    from multiview.serving.retriever import Retriever

__version__ = VERSION


class _Options(TypedDict, total=False):
    """What both kinds of `load` take besides an address."""

    store: str
    device: str
    verify: bool
    views: int | None


@overload
def load(address: str, *, follow: Literal[False] = ..., **options: Unpack[_Options]) -> Retriever: ...
@overload
def load(address: str, *, follow: Literal[True], **options: Unpack[_Options]) -> ChampionRetriever: ...
def load(
    address: str,
    *,
    store: str = DEFAULT_STORE,
    device: str = "auto",
    verify: bool = False,
    follow: bool = False,
    views: int | None = None,
) -> Retriever | ChampionRetriever:
    """Returns the retriever of the index at `address`, such as `gs://bucket/store/index/KEY`, or of the `champion` of `store`.

    See `multiview.serving.retriever.load`. With `follow`, which only a champion allows, the retriever answers from the
    store's next champion once that one has been loaded and verified. The first call imports torch.

    >>> import multiview
    >>> retriever = multiview.load(address)
    >>> (hits,) = retriever.search(["When did the lighthouse stop burning oil?"], k=3)
    >>> len(hits), hits[0].score >= hits[1].score >= hits[2].score
    (3, True)
    >>> for hit in hits:
    ...     line = f"{hit.score:.1f} {hit.id} {hit.title}: {hit.snippet} ({hit.columns['url']})"
    """
    from multiview.serving import retriever

    if address != CHAMPION:
        if follow:
            raise ValueError(f"only {CHAMPION!r} can be followed, not {address}")
        return retriever.load(address, device=device, verify=verify, views=views)
    from multiview.artifacts.champions import address_of, champion_of
    from multiview.artifacts.store import open_store
    from multiview.serving import follow as following

    opened = open_store(store)
    if follow:
        return following.ChampionRetriever(following.Follower(opened, device=device, views=views))
    return retriever.load(address_of(opened, champion_of(opened)), device=device, verify=verify, views=views)
