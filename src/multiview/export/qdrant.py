"""Collections of Qdrant: an index per collection, a passage per point, and an alias that follows the champion.

A point's multivector are the passage's views. Compared by the maximum of inner products (`MAX_SIM` over `DOT`), a
question's one vector scores a point by the best of its views, which is the index's own score.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from multiview import environment, names
from multiview.artifacts.champions import Champion, address_of, champion_numbers, champion_of, read_champion
from multiview.artifacts.store import Store
from multiview.config import Export
from multiview.errors import InputError, counted, repeats_header
from multiview.export.points import Content, point_digest, points_of
from multiview.export.views import IndexViews
from multiview.serving.retriever import check_index

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.conversions.common_types import PointId
    from qdrant_client.models import PointStruct, Record

ALIAS = Export().alias
"""The alias that follows the champion, unless another one is named."""

KEPT = Export().keep
"""Collections of earlier champions that are kept, for rollbacks."""

POINTS_AT_ONCE = 64
"""Points per request."""

RETRIES = 3
"""Times that the client sends a batch of points again."""

SECONDS = 60
"""Time that a request may take."""


@dataclass(frozen=True)
class Loaded:
    """A collection that has the content of an index."""

    name: str
    index: str
    """The index's address."""
    content: Content
    uploaded: int
    """Points that were not there, or differed."""
    deleted: int
    """Points that the index does not have."""


@contextlib.contextmanager
def open_client(url: str | None = None, path: str | os.PathLike[str] | None = None) -> Iterator[QdrantClient]:
    """A client of the server at `url`, or of a collection folder at `path` that this process alone uses (Qdrant's local mode).

    The server's API key is in the variable `MULTIVIEW_QDRANT_API_KEY`. Raises InputError where neither or both are
    given, Qdrant's client is not installed, and for every error of Qdrant within the block.
    """
    if (url is None) == (path is None):
        raise InputError("Qdrant: name either a server (--url) or a folder for its local mode (--path)")
    try:
        from qdrant_client import QdrantClient
    except ImportError as error:
        raise InputError(
            f"Qdrant's client is not installed: pip install '{names.DISTRIBUTION}[qdrant]'"
        ) from error
    place = f"Qdrant at {url or path}"
    with _explained(place):
        if path is not None:
            try:
                client = QdrantClient(path=os.fspath(path))
            except RuntimeError as error:  # of its lock
                raise InputError(f"{place}: {error}") from error
        else:
            key = os.environ.get(environment.QDRANT_API_KEY) or None
            # The check of versions, in a thread, would warn of a server that is away beside the error.
            client = QdrantClient(url=url, api_key=key, timeout=SECONDS, check_compatibility=False)
        try:
            yield client
        finally:
            client.close()


def collection_name(address: str, prefix: str = ALIAS) -> str:
    """Returns the name of an index's collection, `PREFIX-` and 16 hex digits of what its points are made from.

    That is the index, the passages and the model, by their content: another corpus column is another collection.
    """
    _, record = check_index(address)
    made_from = [reference.digest for name in ("model", "passages") for reference in record.inputs[name]]
    return f"{prefix}-{hashlib.sha256(' '.join([record.digest, *made_from]).encode()).hexdigest()[:16]}"


def load_index(client: QdrantClient, address: str, prefix: str = ALIAS) -> Loaded:
    """Makes the collection of an index, and returns it once every point was read back and is the index's.

    Points that are there and equal stay, others are uploaded, and points that the index does not have are deleted: a
    load that was killed goes on where it was, and another load changes nothing. Nothing is encoded. Memory holds one
    batch of points and 16 bytes per passage. Raises InputError where the collection is another afterwards.
    """
    views, name = IndexViews.open(address), collection_name(address, prefix)
    upload = _Upload(client, name, views)
    client.upload_points(name, upload.missing(), batch_size=POINTS_AT_ONCE, max_retries=RETRIES, wait=True)
    found, unknown = _read_back(client, name, upload.ids())
    for start in range(0, len(unknown), POINTS_AT_ONCE):
        client.delete(name, unknown[start : start + POINTS_AT_ONCE], wait=True)
    if unknown:
        found = content_of(client, name)
    if found != upload.content:
        raise InputError(
            f"collection {name}: it has {counted(found.points, 'point')} of digest {found.digest[:12]}, but index {address} has "
            f"{upload.content.points} of digest {upload.content.digest[:12]}: does somebody else write to it? load it again"
        )
    return Loaded(name, address, found, upload.uploaded, len(unknown))


def follow_champion(store: Store, client: QdrantClient, alias: str = ALIAS, keep: int = KEPT) -> Loaded:
    """Lets an alias refer to the champion's collection, which is loaded if it is not there, and returns the collection.

    The alias changes at once, and only after the collection was verified; so questions are answered by the old
    collection or by the new one. Then collections with the alias's prefix are deleted, except those of the `keep`
    indexes that were champion before, and those that another alias refers to. A repeated call changes nothing. Raises
    InputError where the store has no champion, and as `load_index` does.
    """
    while True:
        champion = champion_of(store)
        loaded = load_index(client, address_of(store, champion), alias)
        if champion_of(store) == champion:
            break
    _point(client, alias, loaded.name)
    _delete_others(client, alias, [loaded.name, *islice(_earlier(store, champion, alias, loaded.name), keep)])
    return loaded


def content_of(client: QdrantClient, name: str) -> Content:
    """Returns number and digest of the points of a collection, which are read in batches."""
    content = Content()
    for record in _records(client, name):
        content = content.add(_digest(record))
    return content


class _Upload:
    """The points of an index that a collection lacks, and the content that it should have."""

    def __init__(self, client: QdrantClient, name: str, views: IndexViews) -> None:
        self._client, self._name, self._views = client, name, views
        self._fresh = _create(client, name, views.dim)
        self._ids = bytearray()
        self.content = Content()
        self.uploaded = 0

    def missing(self) -> Iterator[PointStruct]:
        """Yields the points that are not there, or are others."""
        from qdrant_client.models import PointStruct

        points = points_of(self._views)
        while batch := list(islice(points, POINTS_AT_ONCE)):
            there = {} if self._fresh else self._there([point.id for point in batch])
            for point in batch:
                digest = point.digest
                self.content = self.content.add(digest)
                self._ids += uuid.UUID(point.id).bytes
                if there.get(point.id) != digest:
                    self.uploaded += 1
                    yield PointStruct(id=point.id, vector=point.vectors.tolist(), payload=point.payload)

    def ids(self) -> np.ndarray:
        """The ids of all points of the index, rising [n] of 16 bytes, once `missing` has ended."""
        return np.sort(np.frombuffer(bytes(self._ids), "S16"))

    def _there(self, ids: list[str]) -> dict[str, int]:
        found = self._client.retrieve(self._name, ids, with_payload=True, with_vectors=True)
        return {str(_uuid(record)): _digest(record) for record in found}


def _create(client: QdrantClient, name: str, dim: int) -> bool:
    """Creates a collection; returns whether it was not there."""
    from qdrant_client.models import Distance, MultiVectorComparator, MultiVectorConfig, VectorParams

    if client.collection_exists(name):
        return False
    multivector = MultiVectorConfig(comparator=MultiVectorComparator.MAX_SIM)
    client.create_collection(
        name, VectorParams(size=dim, distance=Distance.DOT, multivector_config=multivector)
    )
    return True


def _records(client: QdrantClient, name: str) -> Iterator[Record]:
    """The points of a collection, read in batches."""
    offset, more = None, True
    while more:
        records, offset = client.scroll(
            name, limit=POINTS_AT_ONCE, offset=offset, with_payload=True, with_vectors=True
        )
        yield from records
        more = offset is not None


def _read_back(client: QdrantClient, name: str, ids: np.ndarray) -> tuple[Content, list[PointId]]:
    """The content of the points whose ids are among `ids`, and the ids of all others."""
    content = Content()
    unknown: list[PointId] = []
    for record in _records(client, name):
        wanted = np.frombuffer(_uuid(record).bytes, "S16")
        place = int(np.searchsorted(ids, wanted)[0])
        if place < len(ids) and ids[place] == wanted[0]:
            content = content.add(_digest(record))
        else:
            unknown.append(record.id)
    return content, unknown


def _uuid(record: Record) -> uuid.UUID:
    """A point's id, which may be a number where others wrote it."""
    return uuid.UUID(int=record.id) if isinstance(record.id, int) else uuid.UUID(str(record.id))


def _digest(record: Record) -> int:
    return point_digest(str(_uuid(record)), record.payload, record.vector)


def _point(client: QdrantClient, alias: str, name: str) -> None:
    """Lets an alias refer to a collection, at once, whatever it referred to."""
    from qdrant_client.models import CreateAlias, CreateAliasOperation, DeleteAlias, DeleteAliasOperation

    now = {each.alias_name: each.collection_name for each in client.get_aliases().aliases}
    if now.get(alias) == name:
        return
    changes: list[CreateAliasOperation | DeleteAliasOperation] = []
    if alias in now:
        changes.append(DeleteAliasOperation(delete_alias=DeleteAlias(alias_name=alias)))
    changes.append(CreateAliasOperation(create_alias=CreateAlias(collection_name=name, alias_name=alias)))
    client.update_collection_aliases(changes)


def _earlier(store: Store, champion: Champion, prefix: str, name: str) -> Iterator[str]:
    """The collections of the indexes that were champion before, the last one first, each once, as far as the indexes are there."""
    seen = {name}
    for number in reversed(champion_numbers(store)):
        if number >= champion.number:
            continue
        with contextlib.suppress(InputError):
            earlier = collection_name(address_of(store, read_champion(store, number)), prefix)
            if earlier not in seen:
                seen.add(earlier)
                yield earlier


def _delete_others(client: QdrantClient, prefix: str, kept: list[str]) -> None:
    """Deletes the collections of other indexes with the same prefix."""
    kept = [*kept, *(each.collection_name for each in client.get_aliases().aliases)]
    for collection in client.get_collections().collections:
        if (
            re.fullmatch(rf"{re.escape(prefix)}-[0-9a-f]{{16}}", collection.name)
            and collection.name not in kept
        ):
            client.delete_collection(collection.name)


@contextlib.contextmanager
def _explained(place: str) -> Iterator[None]:
    """Raises the errors of Qdrant's client within the block as InputErrors of one line."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("qdrant_client", "httpx", "httpcore")):
            raise
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        # Of a header that is refused, the error repeats the key.
        raise InputError(f"{place}: {line}") from (None if repeats_header(error) else error)
