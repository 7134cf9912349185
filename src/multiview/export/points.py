"""The passages of an index as points of a vector database, and the digest by which two sets of points are compared."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multiview.data.passages import ROW_GROUP
from multiview.export.views import IndexViews
from multiview.index.indexed_passages import IndexedPassages, TextsInOrder
from multiview.serving.hits import passage_fields

NAMESPACE = uuid.UUID("8a9c4f0e-6b1d-5f5e-9d3b-1f0f6f3f7c52")
"""The namespace of points' ids."""

ROUND = 2**256


@dataclass(frozen=True)
class Point:
    """A passage with all of its views."""

    id: str
    """A UUID that depends on the passage's id alone."""
    payload: dict[str, Any]
    """`{"id", "title", "text", "columns", "views": [{"view", "span", "snippet"}]}`: what the server's `/passages` answers.

    Days and times are texts in ISO 8601."""
    vectors: np.ndarray
    """The views in the order of `payload["views"]` [views, dim] float32."""

    @property
    def digest(self) -> int:
        """The digest of id, payload and vectors (see `point_digest`)."""
        return point_digest(self.id, self.payload, self.vectors)


@dataclass(frozen=True)
class Content:
    """Number and digest of a set of points, whatever their order."""

    points: int = 0
    total: int = 0
    """Sum of the points' digests, modulo 2^256."""

    def add(self, digest: int) -> Content:
        """Returns the content with one more point."""
        return Content(self.points + 1, (self.total + digest) % ROUND)

    @property
    def digest(self) -> str:
        """The sum as 64 hex digits."""
        return f"{self.total:064x}"


def point_id(passage_id: str) -> str:
    """Returns the id of a passage's point, a UUID of version 5.

    >>> point_id("p0") == point_id("p0") != point_id("p1")
    True
    """
    return str(uuid.uuid5(NAMESPACE, passage_id))


def points_of(views: IndexViews) -> Iterator[Point]:
    """Yields a point per passage that has a view, in index order; memory holds a row group of the corpus.

    A passage without a view is no answer to any question. Raises InputError where the corpus or the layout is not the
    index's.
    """
    passages = IndexedPassages(views.index, views.layout, TextsInOrder(views.corpus))
    rows = np.flatnonzero(views.index.view_counts)
    for start in range(0, len(rows), ROW_GROUP):
        for indexed in passages.read(rows[start : start + ROW_GROUP]):
            payload = json.loads(json.dumps(passage_fields(indexed), default=_text, allow_nan=False))
            yield Point(point_id(indexed.passage.id), payload, views.index.views_of(indexed.row))


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
