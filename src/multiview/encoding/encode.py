"""Passages and questions to vectors, so that a vector depends on its own text and nothing else.

A batch's shape changes the last bits of what comes out of it; its neighbours do not. So sequences are
sorted into buckets of one padded length and one number of rows each, and the last batch of a bucket is
filled up. Memory is bounded by the batches that are open, not by the corpus.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from multiview.config import Encode
from multiview.data.passages import Passage, content_hash, count_passages, read_passages
from multiview.data.queries import with_queries
from multiview.encoding.embeddings import QUERIES_FIELD
from multiview.errors import InputError
from multiview.model.batch import Batch, make_batch
from multiview.model.devices import device
from multiview.model.encoder import BiEncoder, width
from multiview.model.layouts import TokenSequence, View, kept_views
from multiview.steps.context import StepContext
from multiview.steps.events import Events

VIEWS_FILE = "views.f16"
ROWS_FILE = "rows.parquet"
DESCRIPTION_FILE = "embeddings.json"
ROWS_PER_BLOCK = 4096
"""Rows that share a digest: what must be read to check one of them."""
ROWS_SCHEMA = pa.schema(
    [("id", pa.string()), ("content_hash", pa.string()), ("offset", pa.int64()), ("views", pa.int32())]
)

Tag = TypeVar("Tag")


class Buckets(Generic[Tag]):
    """Sequences waiting for their batch, by padded length; a tag says what each vector is for."""

    def __init__(self, settings: Encode, limit: int) -> None:
        self._settings = settings
        self._limit = limit
        self._open: dict[int, list[tuple[TokenSequence, Tag]]] = {}

    def length(self, tokens: int) -> int:
        """The padded length of a sequence: the next multiple of the bucket, but never over the model's limit."""
        bucket = self._settings.bucket
        return min(-(-tokens // bucket) * bucket, self._limit)

    def rows(self, length: int) -> int:
        """Rows of every batch of this padded length: as the token budget allows, a multiple of 8."""
        return max(8, self._settings.batch_tokens // length // 8 * 8)

    def batches(
        self, sequences: Iterable[tuple[TokenSequence, Tag]]
    ) -> Iterator[tuple[int, list[tuple[TokenSequence, Tag]]]]:
        """Padded length and members of each batch, as soon as it is full; what is left over at the end."""
        for sequence, tag in sequences:
            length = self.length(len(sequence.input_ids))
            waiting = self._open.setdefault(length, [])
            waiting.append((sequence, tag))
            if len(waiting) == self.rows(length):
                yield length, self._open.pop(length)
        while self._open:
            length = min(self._open)
            yield length, self._open.pop(length)


class Encoder:
    """A loaded model on its device, encoding in the arithmetic of `encode.compute`.

    With `questions_only`, an encoder of passages that is not the questions' own is not loaded.
    """

    def __init__(self, model: Path, settings: Encode, questions_only: bool = False) -> None:
        self.settings = settings
        self.device = device(settings.device, "encode.device")
        self.model = BiEncoder.load(model, weights_type(settings), questions_only).to(self.device).eval()
        self.layout = self.model.layout
        if settings.question_length is not None:
            self.layout.lengthen_questions(settings.question_length, self.model.positions)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.model.dim

    def passages(
        self, sequences: Iterable[tuple[TokenSequence, Tag]]
    ) -> Iterator[tuple[TokenSequence, Tag, np.ndarray]]:
        """Each sequence with its view vectors, float32 [its views, D], batch by batch: in another order."""
        buckets: Buckets[Tag] = Buckets(self.settings, self.layout.settings.passage_length)
        for length, members in buckets.batches(sequences):
            batch = self._batch(buckets, length, members, self.layout.max_views)
            vectors = self._run(self.model.encode_passages, batch)
            for (sequence, tag), rows in zip(members, vectors[: len(members)], strict=True):
                yield sequence, tag, rows[: len(sequence.views)]

    def questions(self, questions: Sequence[str]) -> Iterator[tuple[int, np.ndarray]]:
        """Each question's number and vector, float32 [D], times the model's scale: in another order."""
        buckets: Buckets[int] = Buckets(self.settings, self.layout.settings.question_length)
        sequences = ((self.layout.question(question), i) for i, question in enumerate(questions))
        for length, members in buckets.batches(sequences):
            vectors = self._run(self.model.encode_questions, self._batch(buckets, length, members, 1))
            yield from zip((i for _, i in members), vectors[: len(members)], strict=True)

    def question_vectors(
        self, questions: Sequence[str], report_done: Callable[[int], None] = lambda done: None
    ) -> np.ndarray:
        """Vectors of `questions`, float32 [questions, D], times the model's scale, in their order."""
        vectors = np.empty((len(questions), self.dim), dtype=np.float32)
        for done, (i, vector) in enumerate(self.questions(questions), 1):
            vectors[i] = vector
            report_done(done)
        return vectors

    def _batch(
        self, buckets: Buckets[Tag], length: int, members: list[tuple[TokenSequence, Tag]], views: int
    ) -> Batch:
        pad_id = self.model.tokenizer.pad_token_id
        return make_batch([sequence for sequence, _ in members], pad_id, views, length, buckets.rows(length))

    @torch.inference_mode()
    def _run(self, encode: Any, batch: Batch) -> np.ndarray:
        moved = {
            name: tensor.to(self.device) for name, tensor in batch.items() if isinstance(tensor, torch.Tensor)
        }
        with arithmetic(self.settings, self.device):
            return encode(moved).float().cpu().numpy()


class ViewRows:
    """Gives the views of passages their rows in the matrix, in passage order, and writes `rows.parquet`:
    with the queries that passages were read with, where `queries` says that they were."""

    def __init__(self, path: Path, padding: bool, queries: bool = False) -> None:
        self._padding = padding
        self._schema = ROWS_SCHEMA.append(QUERIES_FIELD) if queries else ROWS_SCHEMA
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._pending: list[tuple[Any, ...]] = []
        self.passages = 0
        self.rows = 0
        self.padding_left_out = 0

    def place(
        self, passage: Passage, sequences: Sequence[TokenSequence], queries: Sequence[str] = ()
    ) -> Iterator[tuple[TokenSequence, tuple[str, int]]]:
        """Each sequence with its passage's id and the row of its first kept view."""
        first = self.rows
        for sequence in sequences:
            at, kept = self.rows, len(self.kept(sequence.views))
            self.rows += kept
            self.padding_left_out += len(sequence.views) - kept
            yield sequence, (passage.id, at)
        digest = content_hash(passage.title, passage.text)
        row = (passage.id, digest, first, self.rows - first, list(queries))
        self._pending.append(row[: len(self._schema)])
        self.passages += 1
        if len(self._pending) == ROWS_PER_BLOCK:
            self._flush()

    def kept(self, views: Sequence[View]) -> list[int]:
        """Which views of a sequence get a row."""
        return kept_views(views, self._padding)

    def close(self) -> None:
        """Write what is left."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._pending:
            columns = [list(column) for column in zip(*self._pending, strict=True)]
            self._writer.write_table(pa.table(columns, schema=self._schema))
            self._pending.clear()


def encode(context: StepContext) -> None:
    """Step: the views of one shard (`passages`) by `model`, as `embeddings`.

    With the input `queries`, the shard's generated queries, each passage is read with each of them; without,
    a layout that reads queries reads the passage alone. Writes `views.f16` (little-endian float16 [rows, dim], rows in passage order), `rows.parquet` (id,
    content_hash, offset of the first row, views) and `embeddings.json`. InputError for a vector beyond float16.
    """
    started = time.monotonic()
    folder, shard = context.output("embeddings"), context.input("passages").path
    queries = context.optional_input("queries")
    rows = ViewRows(folder / ROWS_FILE, context.settings.encode.index_padding_views, queries is not None)
    if count_passages(shard):
        dim = _encode_shard(context, rows, folder / VIEWS_FILE)
    else:  # as when nothing of a corpus changed
        dim = width(context.input("model").path)
        (folder / VIEWS_FILE).touch()
    rows.close()
    description = {
        "dim": dim,
        "rows": rows.rows,
        "passages": rows.passages,
        "rows_per_block": ROWS_PER_BLOCK,
        "block_sha256": list(_block_digests(folder / VIEWS_FILE, ROWS_PER_BLOCK * dim * 2)),
        "model": context.input("model").digest,
    }
    (folder / DESCRIPTION_FILE).write_text(json.dumps(description, indent=1, sort_keys=True) + "\n")
    context.events.fact("passages", rows.passages)
    context.events.fact("views", rows.rows)
    context.events.fact("padding_views_left_out", rows.padding_left_out)
    context.events.metric("passages_per_second", rows.passages / (time.monotonic() - started))


def _encode_shard(context: StepContext, rows: ViewRows, file: Path) -> int:
    """Write the views of a shard's passages into `file` and give them their `rows`; the length of a vector."""
    encoder = Encoder(context.input("model").path, context.settings.encode)
    shard, queries = context.input("passages").path, context.optional_input("queries")
    total, passages = count_passages(shard), read_passages(shard)
    sequences = (
        placed
        for passage, read_with in (
            with_queries(passages, queries.path) if queries else zip(passages, repeat(()))
        )
        for placed in rows.place(passage, encoder.layout.passage(passage, read_with), read_with)
    )
    size = 2 * encoder.dim
    with file.open("wb") as views:
        for sequence, (name, row), vectors in encoder.passages(sequences):
            with np.errstate(over="ignore"):
                half = vectors[rows.kept(sequence.views)].astype("<f2")
            if not np.isfinite(half).all():
                raise InputError(
                    f"passage {name!r}: its vector does not fit into float16; train with model.normalise=true or less long"
                )
            os.pwrite(views.fileno(), half.tobytes(), row * size)
            context.events.progress(rows.passages, total, "passages")
    return encoder.dim


def encode_questions(model: Path, questions: Sequence[str], settings: Encode, events: Events) -> np.ndarray:
    """Vectors of `questions`, float32 [questions, dim], times the model's scale, in their order."""
    encoder = Encoder(model, settings, questions_only=True)
    return encoder.question_vectors(
        questions, lambda done: events.progress(done, len(questions), "questions")
    )


def weights_type(settings: Encode) -> torch.dtype:
    """The type of a model's weights under `encode.compute`."""
    return torch.bfloat16 if settings.compute == "bfloat16" else torch.float32


def arithmetic(settings: Encode, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """The context that a forward pass runs in under `encode.compute`."""
    if settings.compute == "autocast":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _block_digests(path: Path, block: int) -> Iterator[str]:
    with path.open("rb") as file:
        while data := file.read(block):
            yield hashlib.sha256(data).hexdigest()
