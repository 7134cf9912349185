"""Encoding of passages and questions into vectors that depend on their text alone.

The shape of a batch changes the last bits of its vectors; the other rows of the batch do not. Sequences are therefore
sorted into buckets, each with one padded length and one number of rows, and the last batch of a bucket is filled with
copies.
Memory is bounded by the open batches, not by the corpus.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch

from multiview.config import Encode
from multiview.data.passages import Passage, content_hash, count_passages, read_passages
from multiview.data.queries import with_queries
from multiview.encoding.embeddings import EmbeddingsWriter
from multiview.model.batch import Batch, make_batch, to_device
from multiview.model.devices import device
from multiview.model.encoder import BiEncoder, width
from multiview.model.layouts import TokenSequence, kept_views
from multiview.steps.context import StepContext
from multiview.steps.events import Events

Tag = TypeVar("Tag")

TOKENS_ALONE = 8
"""The length of a question that is encoded alone is a multiple of this."""


class Buckets(Generic[Tag]):
    """Sequences that wait for their batch, by padded length; the tag of a sequence identifies its vectors."""

    def __init__(self, settings: Encode, limit: int) -> None:
        self._settings = settings
        self._limit = limit
        self._open: dict[int, list[tuple[TokenSequence, Tag]]] = {}

    def length(self, tokens: int) -> int:
        """Padded length of a sequence: the next multiple of the bucket, and no more than the model's limit."""
        bucket = self._settings.bucket
        return min(-(-tokens // bucket) * bucket, self._limit)

    def rows(self, length: int) -> int:
        """Number of rows of every batch of this padded length: the multiple of 8 that the token budget allows, at least 8."""
        return max(8, self._settings.batch_tokens // length // 8 * 8)

    def batches(
        self, sequences: Iterable[tuple[TokenSequence, Tag]]
    ) -> Iterator[tuple[int, list[tuple[TokenSequence, Tag]]]]:
        """Yields length and members of each batch as soon as it is full; incomplete batches come last."""
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
    """A loaded model on its device, encoding in the arithmetic of `encode.compute`."""

    def __init__(
        self, model: Path, settings: Encode, questions_only: bool = False, plain: bool = False
    ) -> None:
        """Loads the model in the folder `model`; with `questions_only`, without the encoder that only passages need.

        `plain` is that of `BiEncoder.load`.
        """
        self.settings = settings
        self.device = device(settings.device, "encode.device")
        self.model = BiEncoder.load(model, weights_type(settings), questions_only, plain).to(self.device)
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
        """Yields each sequence with its tag and its views' vectors [views, D] float32, batch by batch: in another order."""
        buckets: Buckets[Tag] = Buckets(self.settings, self.layout.settings.passage_length)
        for length, members in buckets.batches(sequences):
            batch = self._batch(buckets, length, members, self.layout.max_views)
            vectors = self._run(self.model.encode_passages, batch)
            for (sequence, tag), padded in zip(members, vectors[: len(members)], strict=True):
                yield sequence, tag, padded[: len(sequence.views)]

    def questions(self, questions: Sequence[str]) -> Iterator[tuple[int, np.ndarray]]:
        """Yields position and vector [D] float32 of each question, times the model's scale, in another order."""
        buckets: Buckets[int] = Buckets(self.settings, self.layout.settings.question_length)
        sequences = ((self.layout.question(question), i) for i, question in enumerate(questions))
        for length, members in buckets.batches(sequences):
            vectors = self._run(self.model.encode_questions, self._batch(buckets, length, members, 1))
            yield from zip((i for _, i in members), vectors[: len(members)], strict=True)

    def question_vectors(
        self, questions: Sequence[str], report_done: Callable[[int], None] = lambda done: None
    ) -> np.ndarray:
        """Returns the vectors of `questions` [q, D] float32, times the model's scale.

        `report_done` is called with the number of questions done so far.
        """
        vectors = np.empty((len(questions), self.dim), dtype=np.float32)
        for done, (i, vector) in enumerate(self.questions(questions), 1):
            vectors[i] = vector
            report_done(done)
        return vectors

    def question_vector(self, question: str) -> np.ndarray:
        """Returns the vector of one question [D] float32, times the model's scale, encoded alone.

        It runs in a batch of one row, padded to a multiple of `TOKENS_ALONE`. So it depends on nothing but the question,
        and differs from the vector of `question_vectors` in its last bits, because that batch has another shape.
        """
        sequence = self.layout.question(question)
        tokens = -(-len(sequence.input_ids) // TOKENS_ALONE) * TOKENS_ALONE
        length = min(tokens, self.layout.settings.question_length)
        batch = make_batch([sequence], self.model.tokenizer.pad_token_id, 1, length)
        return self._run(self.model.encode_questions, batch)[0]

    def _batch(
        self, buckets: Buckets[Tag], length: int, members: list[tuple[TokenSequence, Tag]], max_views: int
    ) -> Batch:
        sequences = [sequence for sequence, _ in members]
        pad_id = self.model.tokenizer.pad_token_id
        return make_batch(sequences, pad_id, max_views, length, buckets.rows(length))

    @torch.inference_mode()
    def _run(self, encode: Callable[[Batch], torch.Tensor], batch: Batch) -> np.ndarray:
        with arithmetic(self.settings, self.device):
            return encode(to_device(batch, self.device)).float().cpu().numpy()


class Placement(NamedTuple):
    """The position of the vectors of a sequence in the embeddings."""

    passage: str
    """Id of the passage."""
    row: int
    """Row of the sequence's first kept view."""
    kept: list[int]
    """Positions of the kept views in the sequence."""


class Placer:
    """Assigns rows of the embeddings to the views of passages, in order; to padding views only with `padding`."""

    def __init__(self, writer: EmbeddingsWriter, padding: bool) -> None:
        self.writer = writer
        self._padding = padding
        self.padding_left_out = 0

    def place(
        self, passage: Passage, sequences: Sequence[TokenSequence], queries: Sequence[str] = ()
    ) -> Iterator[tuple[TokenSequence, Placement]]:
        """Yields each sequence of the next passage, which was read with `queries`, with its placement."""
        kept = [kept_views(sequence.views, self._padding) for sequence in sequences]
        digest = content_hash(passage.title, passage.text)
        row = self.writer.add_passage(passage.id, digest, sum(map(len, kept)), queries)
        for sequence, views in zip(sequences, kept, strict=True):
            self.padding_left_out += len(sequence.views) - len(views)
            yield sequence, Placement(passage.id, row, views)
            row += len(views)


def encode(context: StepContext) -> None:
    """Step: encode the views of one shard (`passages`) with `model`, as `embeddings`.

    With the input `queries`, the shard's generated queries, each passage is read with each of its queries; without
    it, a layout that reads queries reads the passage alone. See `multiview.encoding.embeddings` for the
    files. Raises InputError for a vector that float16 cannot hold.
    """
    started = time.monotonic()
    settings, model = context.settings.encode, context.input("model")
    passages, queries = context.input("passages").path, context.optional_input("queries")
    # A shard is empty where no passage of a corpus changed: the model need not be loaded then.
    encoder = Encoder(model.path, settings) if count_passages(passages) else None
    dim = encoder.dim if encoder else width(model.path)
    with EmbeddingsWriter(context.output("embeddings"), dim, model.digest, queries is not None) as writer:
        placer = Placer(writer, settings.index_padding_views)
        if encoder:
            _encode_shard(encoder, passages, queries and queries.path, placer, context.events)
    context.events.fact("passages", writer.passages)
    context.events.fact("views", writer.rows)
    context.events.fact("padding_views_left_out", placer.padding_left_out)
    context.events.metric("passages_per_second", writer.passages / (time.monotonic() - started))


def _encode_shard(
    encoder: Encoder, shard: Path, queries: Path | None, placer: Placer, events: Events
) -> None:
    """Writes the views of the passages of `shard`, read with the queries of the folder `queries` where there is one."""
    passages = read_passages(shard)
    read_with = with_queries(passages, queries) if queries else zip(passages, repeat(()))
    sequences = (
        placed
        for passage, asked in read_with
        for placed in placer.place(passage, encoder.layout.passage(passage, asked), asked)
    )
    total = count_passages(shard)
    for _, placement, vectors in encoder.passages(sequences):
        placer.writer.write_views(placement.passage, placement.row, vectors[placement.kept])
        events.progress(placer.writer.passages, total, "passages")


def encode_questions(model: Path, questions: Sequence[str], settings: Encode, events: Events) -> np.ndarray:
    """Returns the vectors of `questions` [q, dim] float32, times the model's scale."""
    encoder = Encoder(model, settings, questions_only=True)
    return encoder.question_vectors(
        questions, lambda done: events.progress(done, len(questions), "questions")
    )


def weights_type(settings: Encode) -> torch.dtype:
    """Returns the data type of a model's weights under `encode.compute`."""
    return torch.bfloat16 if settings.compute == "bfloat16" else torch.float32


def arithmetic(settings: Encode, device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Returns the context that a forward pass runs in under `encode.compute`."""
    if settings.compute == "autocast":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
