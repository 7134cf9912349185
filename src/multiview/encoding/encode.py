"""Encoding of passages and questions into vectors that depend on their text alone (`multiview.encoding.batches`)."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from multiview.config import Encode
from multiview.data.passages import Passage, content_hash, count_passages, read_passages
from multiview.data.queries import with_queries
from multiview.encoding.ahead import ReadWith, laid_out_ahead
from multiview.encoding.batches import Buckets, Member, Packs, Tag
from multiview.encoding.embeddings import EmbeddingsWriter
from multiview.errors import InputError
from multiview.model.batch import Batch, Packed, make_batch, make_packed, to_device
from multiview.model.devices import device, keep_freed_memory, read_behind, within_gpu_memory, workers
from multiview.model.encoder import BiEncoder, width
from multiview.model.half_products import half_products
from multiview.model.layouts import TokenSequence, kept_views
from multiview.steps.context import StepContext
from multiview.steps.events import Events

Given = TypeVar("Given")
Result = TypeVar("Result")

TOKENS_ALONE = 8
"""The length of a question that is encoded alone is a multiple of this."""


class Encoder:
    """A loaded model on its device, encoding in the arithmetic of `encode.compute`."""

    def __init__(
        self, model: Path, settings: Encode, questions_only: bool = False, plain: bool | None = None
    ) -> None:
        """Loads the model in the folder `model`; with `questions_only`, without the encoder that only passages need.

        `plain` is that of `BiEncoder.load`, by default true on a CPU, where packed batches are faster so.
        """
        self.settings = settings
        self.device = device(settings.device, "encode.device")
        if settings.compute == "float16" and self.device.type == "cpu":
            raise InputError("encode.compute: float16 needs a GPU; use bfloat16 or float32")
        plain = self.device.type == "cpu" if plain is None else plain
        self.model = BiEncoder.load(model, weights_type(settings), questions_only, plain).to(self.device)
        self.layout = self.model.layout
        self._pad_id: int = self.model.tokenizer.pad_token_id
        self.packs = self.device.type == "cpu" and self.model.prepare_packing()
        """Whether sequences are laid end to end instead of padded; on a GPU attention would run sequence by sequence."""
        if self.packs and not questions_only:
            keep_freed_memory()
        if settings.question_length is not None:
            self.layout.lengthen_questions(settings.question_length, self.model.positions)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.model.dim

    def passages(self, sequences: Iterable[Member[Tag]]) -> Iterator[tuple[TokenSequence, Tag, np.ndarray]]:
        """Yields each sequence with its tag and its views' vectors [views, D] float32, batch by batch: in another order."""
        model, limit = self.model, self.layout.settings.passage_length
        if self.packs:
            results = self._packed(model.encode_packed_passages, limit, sequences)
        else:
            results = self._padded(model.encode_passages, limit, self.layout.max_views, sequences)
        with smaller_batches(self.settings):
            for members, vectors in results:
                for (sequence, tag), each in zip(members, vectors, strict=False):
                    yield sequence, tag, each[: len(sequence.views)]

    def questions(self, questions: Iterable[str]) -> Iterator[tuple[int, np.ndarray]]:
        """Yields position and vector [D] float32 of each question, times the model's scale, in another order."""
        model, limit = self.model, self.layout.settings.question_length
        sequences = ((self.layout.question(question), i) for i, question in enumerate(questions))
        if self.packs:
            results = self._packed(model.encode_packed_questions, limit, sequences)
        else:
            results = self._padded(model.encode_questions, limit, 1, sequences)
        with smaller_batches(self.settings):
            for members, vectors in results:
                for (_, i), vector in zip(members, vectors, strict=False):
                    yield i, vector.reshape(-1)

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

        It runs in a batch of one row, padded to a multiple of `TOKENS_ALONE`. So it depends on nothing but the
        question, and differs from the vector of `question_vectors` in its last bits, because that batch has another
        shape.
        """
        sequence = self.layout.question(question)
        tokens = -(-len(sequence.input_ids) // TOKENS_ALONE) * TOKENS_ALONE
        length = min(tokens, self.layout.settings.question_length)
        batch = make_batch([sequence], self._pad_id, 1, length)
        vectors = self._run(self.model.encode_questions, to_device(batch, self.device))
        return vectors[0].float().cpu().numpy()

    def _packed(
        self, encode: Callable[[Packed], list[torch.Tensor]], limit: int, sequences: Iterable[Member[Tag]]
    ) -> Iterator[tuple[list[Member[Tag]], Sequence[np.ndarray]]]:
        """Yields the members of each packed batch with their vectors."""
        packs: Packs[Tag] = Packs(limit)
        for members in packs.batches(sequences):
            packed = make_packed([sequence for sequence, _ in members], self._pad_id, packs.tokens)
            yield members, [vectors.numpy() for vectors in self._run(encode, packed)]

    def _padded(
        self,
        encode: Callable[[Batch], torch.Tensor],
        limit: int,
        max_views: int,
        sequences: Iterable[Member[Tag]],
    ) -> Iterator[tuple[list[Member[Tag]], np.ndarray]]:
        """Yields the members of each padded batch with the vectors of its rows, of which there may be more."""
        buckets: Buckets[Tag] = Buckets(self.settings, limit)

        def runs() -> Iterator[tuple[list[Member[Tag]], torch.Tensor]]:
            for length, members in buckets.batches(sequences):
                rows = [sequence for sequence, _ in members]
                batch = make_batch(rows, self._pad_id, max_views, length, buckets.rows(length))
                yield members, self._run(encode, to_device(batch, self.device)).float()

        return read_behind(runs())

    @torch.inference_mode()
    def _run(self, encode: Callable[[Given], Result], batch: Given) -> Result:
        with arithmetic(self.settings, self.device):
            return encode(batch)


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
    total = count_passages(shard)
    encode_passages(encoder, read_with, placer, lambda done: events.progress(done, total, "passages"))


def encode_passages(
    encoder: Encoder,
    read_with: Iterable[ReadWith],
    placer: Placer,
    report_done: Callable[[int], None] = lambda done: None,
) -> None:
    """Writes the views of passages, each with the queries that it is read with, at the places that `placer` assigns.

    `report_done` is called with the number of passages read so far. Raises InputError for a vector that float16 cannot
    hold.
    """
    ahead = workers(encoder.device)
    sequences = (
        placed
        for passage, asked, laid_out in laid_out_ahead(encoder.layout, read_with, ahead)
        for placed in placer.place(passage, laid_out, asked)
    )
    for _, placement, vectors in encoder.passages(sequences):
        placer.writer.write_views(placement.passage, placement.row, vectors[placement.kept])
        report_done(placer.writer.passages)


def encode_questions(model: Path, questions: Sequence[str], settings: Encode, events: Events) -> np.ndarray:
    """Returns the vectors of `questions` [q, dim] float32, times the model's scale."""
    encoder = Encoder(model, settings, questions_only=True)
    return encoder.question_vectors(
        questions, lambda done: events.progress(done, len(questions), "questions")
    )


HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""Values of `encode.compute` with weights in half precision."""


def weights_type(settings: Encode) -> torch.dtype:
    """Returns the data type of a model's weights under `encode.compute`."""
    return HALF.get(settings.compute, torch.float32)


def smaller_batches(settings: Encode) -> contextlib.AbstractContextManager[None]:
    """A context whose error, where a GPU's memory is full, names the setting that bounds a batch."""
    return within_gpu_memory(f"set encode.batch_tokens below {settings.batch_tokens}")


@contextlib.contextmanager
def arithmetic(settings: Encode, device: torch.device) -> Iterator[None]:
    """The context that a forward pass runs in under `encode.compute`."""
    autocast = torch.autocast(device.type, torch.bfloat16)
    with (
        half_products(device, settings.compute in ("autocast", "bfloat16")),
        autocast if settings.compute == "autocast" else contextlib.nullcontext(),
    ):
        yield
