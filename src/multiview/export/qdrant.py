"""Qdrant collections: one per index, with one point per passage, and an alias that follows the champion.

A point's multivector consists of the passage's views. Compared by the maximum of inner products (`MAX_SIM` over `DOT`),
a question's one vector scores a point by the best of its views, which is the index's own score. Text indexes with
scores let a query rank by words too, and fuse both rankings.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from multiview import environment
from multiview.artifacts.champions import address_of, champion_numbers, champion_of, read_champion
from multiview.artifacts.store import Store
from multiview.config import Export, text_sha256
from multiview.data.reading.values import shown_value
from multiview.errors import InputError, repeats_header
from multiview.export.files import check_installed
from multiview.export.views import IndexViews
from multiview.serving.hits import passage_fields
from multiview.serving.retriever import load_artifacts

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import PointStruct

ALIAS = Export().alias
"""The alias that follows the champion, unless another one is named."""
KEPT = Export().keep
"""Number of earlier champions' collections to keep, for rollbacks."""
POINTS_AT_ONCE = 64
REQUEST_SECONDS = 60
MULTIVECTOR_LIMIT = 1024 * 1024
"""Numbers in a multivector from which on a server refuses it."""
TEXT_FIELDS = ("text", "title")
"""Fields of a point's payload with a text index, which a query filters or ranks by (BM25)."""
NAMESPACE = uuid.UUID("8a9c4f0e-6b1d-5f5e-9d3b-1f0f6f3f7c52")


@dataclass(frozen=True)
class IndexCollection:
    """A collection that has the content of an index."""

    name: str
    points: int
    uploaded: int
    """Number of points that were missing or differed."""
    deleted: int
    """Number of points that the index does not have."""
    notice: str
    """As `IndexViews.notice`."""


@contextlib.contextmanager
def open_client(url: str | None = None, path: str | os.PathLike[str] | None = None) -> Iterator[QdrantClient]:
    """A client of the server at `url`, whose API key is in `MULTIVIEW_QDRANT_API_KEY`, or of a folder at `path` that
    this process alone uses (Qdrant's local mode). Raises InputError if neither or both are given or Qdrant's client is
    not installed, and for every error of Qdrant within the block."""
    if (url is None) == (path is None):
        raise InputError("Qdrant: name either a server (--url) or a folder for its local mode (--path)")
    check_installed("qdrant", "qdrant_client")
    from qdrant_client import QdrantClient

    place = f"Qdrant at {url or path}"
    try:
        if path is not None:
            client = QdrantClient(path=os.fspath(path))
        else:
            key = os.environ.get(environment.QDRANT_API_KEY) or None
            # If the server is down, the check of versions would add a warning to the error.
            client = QdrantClient(url=url, api_key=key, timeout=REQUEST_SECONDS, check_compatibility=False)
        with contextlib.closing(client):
            yield client
    except Exception as error:
        locked = isinstance(error, RuntimeError) and "already accessed" in str(error)
        if not locked and not type(error).__module__.startswith(("qdrant_client", "httpx", "httpcore")):
            raise
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        # The error about a refused header repeats the key.
        raise InputError(f"{place}: {line}") from (None if repeats_header(error) else error)


def collection_name(address: str, prefix: str = ALIAS) -> str:
    """Returns the name of an index's collection, `PREFIX-` and 16 hex digits that stand for the content of index,
    passages and model: a further column of the corpus makes another collection. Raises InputError for a prefix with a
    character that Qdrant does not allow."""
    if wrong := set(prefix) & set('<>:"/\\|?*\0\x1f'):
        raise InputError(f"alias {prefix!r}: Qdrant takes no {min(wrong)!r} in a name; name another")
    made_from = " ".join(record.digest for _, record in load_artifacts(address))
    return f"{prefix}-{text_sha256(made_from)[:16]}"


def load_index(client: QdrantClient, address: str, prefix: str = ALIAS) -> IndexCollection:
    """Makes the collection of an index, and returns it once every point was read back and found equal. Only points that
    differ are uploaded or deleted, so a load that was killed continues where it stopped. Raises InputError if a passage
    has more views than a point may have, or if the collection still differs afterwards."""
    views, name = IndexViews.open(address), collection_name(address, prefix)
    _check_sizes(views)
    _create(client, name, views.dim)
    changed = InputError(
        f"collection {name} is not that of index {address} after its upload: does somebody else write to it? load it again"
    )
    points, uploaded = points_of(views), 0
    while batch := list(islice(points, POINTS_AT_ONCE)):
        wanted = {str(each.id): point_digest(str(each.id), each.payload, each.vector) for each in batch}
        there = _digests(client, name, list(wanted))
        if missing := [each for each in batch if there.get(str(each.id)) != wanted[str(each.id)]]:
            client.upload_points(name, missing, max_retries=3, wait=True)
            uploaded += len(missing)
            if _digests(client, name, list(wanted)) != wanted:
                raise changed
    known = views.index.ids.filter(pa.array(views.index.view_counts > 0)).to_pylist()
    deleted = _delete_unknown(client, name, known)
    if client.count(name, exact=True).count != len(known):
        raise changed
    return IndexCollection(name, len(known), uploaded, deleted, views.notice)


def follow_champion(
    store: Store, client: QdrantClient, alias: str = ALIAS, keep: int = KEPT
) -> IndexCollection:
    """Points an alias at the champion's collection, which is loaded if need be, and returns the collection. The alias
    is switched in one step once the collection is verified. Then other collections with the alias's prefix are deleted,
    except those of the last `keep` indexes that were champion before, and those that another alias refers to. Raises
    InputError if the store has no champion, and as `load_index` does."""
    while True:
        champion = champion_of(store)
        loaded = load_index(client, address_of(store, champion), alias)
        if champion_of(store) == champion:
            _point(client, alias, loaded.name)
            there = [each.name for each in client.get_collections().collections]
            # Else a later one's alias was set back, or its collection is there.
            if champion_of(store) == champion:
                break
    kept = [loaded.name, *islice(_of_others(store, alias, loaded.name), keep)]
    _delete(client, alias, set(there).difference(kept))
    return loaded


def point_id(passage_id: str) -> str:
    """Returns the id of a passage's point, a UUID of version 5.

    >>> point_id("p0") == point_id("p0") != point_id("p1")
    True
    """
    return str(uuid.uuid5(NAMESPACE, passage_id))


def points_of(views: IndexViews) -> Iterator[PointStruct]:
    """Yields a point per passage that has a view, in index order; memory holds a row group of the corpus. A point's
    multivector has the passage's views in the order of its payload, which is what the server's `/passages` answers,
    with days and times as text in ISO 8601. Raises InputError if the corpus or the layout is not the index's."""
    from qdrant_client.models import PointStruct

    for indexed in views.read():
        payload = json.loads(json.dumps(passage_fields(indexed), default=_text, allow_nan=False))
        vectors = views.index.views_of(indexed.row).tolist()
        yield PointStruct(id=point_id(indexed.passage.id), payload=payload, vector=vectors)


def point_digest(id: str, payload: Mapping[str, Any] | None, vectors: Any) -> int:
    """Returns the sha256 of a point as a number. `vectors` [views, dim] count in float32, other decimal numbers with
    seven digits, because a database that reads them from JSON may be wrong in the last bit."""
    matrix = np.asarray(vectors, "<f4")
    rounded = json.loads(json.dumps(payload), parse_float=lambda text: f"{float(text):.7g}")
    described = json.dumps([id, matrix.shape, rounded], sort_keys=True)
    return int.from_bytes(hashlib.sha256(described.encode() + b"\0" + matrix.tobytes()).digest())


def _text(value: Any) -> str:
    """A value of a column that JSON has no form for, as text."""
    return value.isoformat() if hasattr(value, "isoformat") else shown_value(value)


def _digests(client: QdrantClient, name: str, ids: Sequence[str]) -> dict[str, int]:
    found = client.retrieve(name, ids, with_payload=True, with_vectors=True)
    return {str(each.id): point_digest(str(each.id), each.payload, each.vector) for each in found}


def _check_sizes(views: IndexViews) -> None:
    """Raises InputError for the first passage whose views do not fit into a multivector."""
    too_many = np.flatnonzero(views.index.view_counts * views.dim >= MULTIVECTOR_LIMIT)
    if len(too_many):
        row = int(too_many[0])
        raise InputError(
            f"passage {views.index.passage_id(row)!r}: {views.index.view_counts[row]:,} views of {views.dim} numbers; a point of "
            f"Qdrant holds fewer than {MULTIVECTOR_LIMIT:,} numbers: split the passage, or lower model.views"
        )


def _create(client: QdrantClient, name: str, dim: int) -> None:
    """Creates a collection, with views in float16 as in the index, and its text indexes, unless they exist."""
    from qdrant_client import models

    if not client.collection_exists(name):
        comparator = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        vectors = models.VectorParams(
            size=dim,
            distance=models.Distance.DOT,
            multivector_config=comparator,
            datatype=models.Datatype.FLOAT16,
        )
        client.create_collection(name, vectors)
    for field in set(TEXT_FIELDS) - client.get_collection(name).payload_schema.keys():
        # No need to wait: the points that are uploaded next queue behind it.
        schema = models.TextIndexParams(type=models.TextIndexType.TEXT, scoring=True)
        client.create_payload_index(name, field, schema, wait=False)


def _delete_unknown(client: QdrantClient, name: str, passage_ids: Sequence[str]) -> int:
    """Deletes the points of all passages except these; returns their number."""
    if client.count(name, exact=True).count == len(passage_ids):
        return 0
    known, unknown, offset = set(map(point_id, passage_ids)), [], None
    while True:
        records, offset = client.scroll(name, limit=1000, offset=offset, with_payload=False)
        unknown += [record.id for record in records if str(record.id) not in known]
        if offset is None:
            break
    client.delete(name, unknown, wait=True)
    return len(unknown)


def _point(client: QdrantClient, alias: str, name: str) -> None:
    """Points an alias at a collection, in one step, whatever it referred to before."""
    from qdrant_client.models import CreateAlias, CreateAliasOperation, DeleteAlias, DeleteAliasOperation

    now = {each.alias_name: each.collection_name for each in client.get_aliases().aliases}
    if now.get(alias) == name:
        return
    removed = [DeleteAliasOperation(delete_alias=DeleteAlias(alias_name=alias))] if alias in now else []
    made = CreateAliasOperation(create_alias=CreateAlias(collection_name=name, alias_name=alias))
    client.update_collection_aliases([*removed, made])


def _of_others(store: Store, prefix: str, name: str) -> Iterator[str]:
    """Names of the other collections of champions whose artifacts still exist, newest first, each once."""
    seen = {name}
    for number in reversed(champion_numbers(store)):
        with contextlib.suppress(InputError):
            other = collection_name(address_of(store, read_champion(store, number)), prefix)
            if other not in seen:
                seen.add(other)
                yield other


def _delete(client: QdrantClient, prefix: str, names: Iterable[str]) -> None:
    """Deletes those of these collections that have this prefix and that no alias refers to."""
    named = {each.collection_name for each in client.get_aliases().aliases}
    for name in names:
        if name not in named and re.fullmatch(rf"{re.escape(prefix)}-[0-9a-f]{{16}}", name):
            client.delete_collection(name)
