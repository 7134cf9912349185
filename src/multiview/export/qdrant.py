"""Collections of Qdrant: an index per collection, a passage per point, and an alias that follows the champion.

A point's multivector are the passage's views. Compared by the maximum of inner products (`MAX_SIM` over `DOT`), a
question's one vector scores a point by the best of its views, which is the index's own score.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from multiview import environment, names
from multiview.artifacts.champions import Champion, address_of, champion_numbers, champion_of, read_champion
from multiview.artifacts.store import Store
from multiview.config import Export
from multiview.data.passages import ROW_GROUP
from multiview.errors import InputError, counted, repeats_header
from multiview.export.views import IndexViews
from multiview.index.indexed_passages import IndexedPassages, TextsInOrder
from multiview.serving.hits import passage_fields
from multiview.serving.retriever import load_artifacts

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

REQUEST_SECONDS = 60
"""Time that a request may take."""

NAMESPACE = uuid.UUID("8a9c4f0e-6b1d-5f5e-9d3b-1f0f6f3f7c52")
"""The namespace of points' ids."""


@dataclass(frozen=True)
class Content:
    """Number and digest of a set of points, whatever their order."""

    points: int = 0
    total: int = 0
    """Sum of the points' digests, modulo 2^256."""

    def add(self, digest: int) -> Content:
        """Returns the content with one more point."""
        return Content(self.points + 1, (self.total + digest) % 2**256)

    @property
    def digest(self) -> str:
        """The sum as 64 hex digits."""
        return f"{self.total:064x}"


@dataclass(frozen=True)
class Loaded:
    """A collection that has the content of an index."""

    name: str
    content: Content
    uploaded: int
    """Points that were not there, or differed."""
    deleted: int
    """Points that the index does not have."""


@contextlib.contextmanager
def open_client(url: str | None = None, path: str | os.PathLike[str] | None = None) -> Iterator[QdrantClient]:
    """A client of the server at `url`, whose API key is in `MULTIVIEW_QDRANT_API_KEY`, or of a folder at `path` that this
    process alone uses (Qdrant's local mode).

    Raises InputError where neither or both are given, Qdrant's client is not installed, and for every error of Qdrant
    within the block.
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
    try:
        if path is not None:
            client = QdrantClient(path=os.fspath(path))
        else:
            key = os.environ.get(environment.QDRANT_API_KEY) or None
            # The check of versions, in a thread, would warn of a server that is away beside the error.
            client = QdrantClient(url=url, api_key=key, timeout=REQUEST_SECONDS, check_compatibility=False)
        with contextlib.closing(client):
            yield client
    except Exception as error:
        locked = isinstance(error, RuntimeError) and "already accessed" in str(error)
        if not locked and not type(error).__module__.startswith(("qdrant_client", "httpx", "httpcore")):
            raise
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        # Of a header that is refused, the error repeats the key.
        raise InputError(f"{place}: {line}") from (None if repeats_header(error) else error)


def collection_name(address: str, prefix: str = ALIAS) -> str:
    """Returns the name of an index's collection, `PREFIX-` and 16 hex digits of what its points are made from.

    That is the index, the passages and the model, by their content: another corpus column is another collection.
    """
    made_from = " ".join(record.digest for _, record in load_artifacts(address))
    return f"{prefix}-{hashlib.sha256(made_from.encode()).hexdigest()[:16]}"


def load_index(client: QdrantClient, address: str, prefix: str = ALIAS) -> Loaded:
    """Makes the collection of an index, and returns it once every point was read back and is the index's.

    Points that are there and equal stay, others are uploaded, and points that the index does not have are deleted: a
    load that was killed goes on where it was, and another load changes nothing. Nothing is encoded. Memory holds one
    batch of points and 16 bytes per passage. Raises InputError where the collection is another afterwards.
    """
    views, name = IndexViews.open(address), collection_name(address, prefix)
    fresh = _create(client, name, views.dim)
    wanted, ids, uploaded = Content(), bytearray(), 0

    def missing() -> Iterator[PointStruct]:
        nonlocal wanted, uploaded
        points = points_of(views)
        while batch := list(islice(points, POINTS_AT_ONCE)):
            there = {} if fresh else _digests(client, name, [str(point.id) for point in batch])
            for point in batch:
                digest = point_digest(str(point.id), point.payload, point.vector)
                wanted = wanted.add(digest)
                ids.extend(uuid.UUID(str(point.id)).bytes)
                if there.get(str(point.id)) != digest:
                    uploaded += 1
                    yield point

    client.upload_points(name, missing(), batch_size=POINTS_AT_ONCE, max_retries=RETRIES, wait=True)
    found, unknown = _read_back(client, name, np.sort(np.frombuffer(bytes(ids), "S16")))
    for start in range(0, len(unknown), POINTS_AT_ONCE):
        client.delete(name, unknown[start : start + POINTS_AT_ONCE], wait=True)
    if unknown:
        found = content_of(client, name)
    if found != wanted:
        raise InputError(
            f"collection {name}: it has {counted(found.points, 'point')} of digest {found.digest[:12]}, but index {address} has "
            f"{wanted.points} of digest {wanted.digest[:12]}: does somebody else write to it? load it again"
        )
    return Loaded(name, found, uploaded, len(unknown))


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


def point_id(passage_id: str) -> str:
    """Returns the id of a passage's point, a UUID of version 5.

    >>> point_id("p0") == point_id("p0") != point_id("p1")
    True
    """
    return str(uuid.uuid5(NAMESPACE, passage_id))


def points_of(views: IndexViews) -> Iterator[PointStruct]:
    """Yields a point per passage that has a view, in index order; memory holds a row group of the corpus.

    A point's multivector are the passage's views in the order of its payload, which is what the server's `/passages`
    answers, with days and times as texts in ISO 8601. A passage without a view is no answer to any question. Raises
    InputError where the corpus or the layout is not the index's.
    """
    from qdrant_client.models import PointStruct

    passages = IndexedPassages(views.index, views.layout, TextsInOrder(views.corpus))
    rows = np.flatnonzero(views.index.view_counts)
    for start in range(0, len(rows), ROW_GROUP):
        for indexed in passages.read(rows[start : start + ROW_GROUP]):
            payload = json.loads(json.dumps(passage_fields(indexed), default=_text, allow_nan=False))
            vectors = views.index.views_of(indexed.row).tolist()
            yield PointStruct(id=point_id(indexed.passage.id), payload=payload, vector=vectors)


def point_digest(id: str, payload: Mapping[str, Any] | None, vectors: Any) -> int:
    """Returns the sha256 of a point as a number.

    `vectors` [views, dim] are compared in float32; other decimal numbers by seven digits, because a database that reads
    them from JSON may be wrong in the last bit.
    """
    matrix = np.asarray(vectors, "<f4")
    described = json.dumps([id, matrix.shape, _rounded(payload)], sort_keys=True)
    return int.from_bytes(hashlib.sha256(described.encode() + b"\0" + matrix.tobytes()).digest())


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(each) for each in value]
    return value


def _text(value: Any) -> str:
    """A value of a column that JSON has no form for, as text."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _digests(client: QdrantClient, name: str, ids: Sequence[str]) -> dict[str, int]:
    """The digests of the points with some ids, as far as they are there."""
    found = client.retrieve(name, ids, with_payload=True, with_vectors=True)
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
