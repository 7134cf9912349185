"""Encoding of passages and questions into vectors that depend on their text alone (`multiview.encoding.batches`)."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from multiview.artifacts.record import load_record
from multiview.config import Encode
from multiview.data.passages import Passage, content_hash, count_passages, read_passages
from multiview.data.queries import with_queries
from multiview.encoding.batches import Buckets, Member, Tag
from multiview.encoding.embeddings import EmbeddingsWriter, encoded_with
from multiview.errors import InputError
from multiview.model.base_model.loading import unknown_text
from multiview.model.batch import Batch, make_batch, to_device
from multiview.model.devices import HALF, device, read_behind, within_gpu_memory, workers
from multiview.model.encoder import BiEncoder, width
from multiview.model.layouts.base import TokenSequence, kept_views
from multiview.steps.context import StepContext
from multiview.steps.events import Events

BLOCK = 64
"""Texts that a process lays out at a time."""

Text = TypeVar("Text", bound=tuple[Any, ...])
LaidOut = TypeVar("LaidOut")
Block = TypeVar("Block")
ReadWith = tuple[Passage, Sequence[str]]
"""A passage and the queries that it is read with."""


class Encoder:
    """A loaded model on its device, encoding in the arithmetic of `encode.compute`."""

    def __init__(self, model: Path, settings: Encode, questions_only: bool = False) -> None:
        """Loads the model in the folder `model`; with `questions_only`, without the encoder that only passages need."""
        self.settings = settings
        self.device = device(settings.device, "encode.device")
        if settings.compute == "float16" and self.device.type == "cpu":
            raise InputError(
                "encode.compute: float16 needs a GPU; use bfloat16 or float32, or for an index that was encoded so, search on a GPU"
            )
        self.model = BiEncoder.load(model, weights_type(settings), questions_only).to(self.device)
        self.layout, self.dim = self.model.layout, self.model.dim
        if settings.question_length is not None:
            self.layout.lengthen_questions(settings.question_length, self.model.positions)

    @classmethod
    def of_step(cls, context: StepContext) -> Self:
        """Returns the encoder of questions to a step's input `index`, as any search of it encodes them with its `model`."""
        index = load_record(context.input("index").address).record
        settings = encoded_with(index, context.settings.encode.device)
        return cls(context.input("model").path, settings, questions_only=True)

    def passages(self, sequences: Iterable[Member[Tag]]) -> Iterator[tuple[TokenSequence, Tag, np.ndarray]]:
        """Yields each sequence with its tag and its views' vectors [views, D] float32, batch by batch, so not in the order given."""
        limit, views = self.layout.settings.passage_length, self.layout.max_views
        for (sequence, tag), vectors in self._encoded(self.model.encode_passages, limit, views, sequences):
            yield sequence, tag, vectors[: len(sequence.views)]

    def question_vectors(
        self, questions: Sequence[str], report_done: Callable[[int], None] = lambda done: None
    ) -> np.ndarray:
        """Returns the vectors of `questions` [q, D] float32, times the model's scale, and reports the number of those done."""
        limit = self.layout.settings.question_length
        vectors = np.empty((len(questions), self.dim), np.float32)
        sequences = ((self.layout.question(question), i) for i, question in enumerate(questions))
        encoded = self._encoded(self.model.encode_questions, limit, 1, sequences)
        for done, ((_, i), vector) in enumerate(encoded, 1):
            vectors[i] = vector
            report_done(done)
        return vectors

    def question_vector(self, question: str) -> np.ndarray:
        """Returns the vector of one question [D] float32, times the model's scale, encoded in a batch of one row.

        Its last bits differ from those of `question_vectors`, whose batches have more rows, and padding.
        """
        sequence = self.layout.question(question)
        vectors = self._run(self.model.encode_questions, [sequence], 1, len(sequence.input_ids), rows=1)
        return vectors[0].cpu().numpy()

    def _encoded(
        self,
        encode: Callable[[Batch], torch.Tensor],
        limit: int,
        max_views: int,
        sequences: Iterable[Member[Tag]],
    ) -> Iterator[tuple[Member[Tag], np.ndarray]]:
        """Yields each of the `sequences` and its tag with what `encode` returns for it."""
        buckets: Buckets[Tag] = Buckets(self.settings, self.device, limit)

        def runs() -> Iterator[tuple[list[Member[Tag]], torch.Tensor]]:
            for shape, members in buckets.batches(sequences):
                rows = [sequence for sequence, _ in members]
                yield members, self._run(encode, rows, max_views, shape.length, shape.rows)

        with smaller_batches(self.settings):
            for members, vectors in read_behind(runs()):
                yield from zip(members, vectors, strict=False)

    @torch.inference_mode()
    def _run(
        self,
        encode: Callable[[Batch], torch.Tensor],
        sequences: Sequence[TokenSequence],
        max_views: int,
        length: int,
        rows: int,
    ) -> torch.Tensor:
        """Returns, in float32, what `encode` returns for a batch of `sequences` that is filled up to `rows` rows."""
        batch = make_batch(sequences, self.model.tokenizer.pad_token_id, max_views, length, rows)
        with arithmetic(self.settings, self.device):
            return encode(to_device(batch, self.device)).float()


class Placement(NamedTuple):
    """Where the vectors of a sequence belong in the embeddings."""

    passage: str
    """Id of the passage."""
    row: int
    """Row of the sequence's first kept view."""
    kept: list[int]
    """Positions of the kept views in the sequence."""


def encode(context: StepContext) -> None:
    """Step: encode the views of one shard (`passages`) with `model`, as `embeddings`.

    With the input `queries` each passage is read with each of its generated queries. Raises InputError for a vector that
    float16 cannot hold.
    """
    started = time.monotonic()
    # Without question_length, which no passage's views depend on.
    settings, model = Encode(**vars(context.settings.encode)), context.input("model")
    passages, queries = context.input("passages").path, context.optional_input("queries")
    total, left_out = count_passages(passages), 0
    # A shard is empty where no passage of a corpus changed: the model need not be loaded then.
    encoder = Encoder(model.path, settings) if total else None
    dim = encoder.dim if encoder else width(model.path)
    written = context.output("embeddings"), dim, model.digest, queries is not None, settings.compute
    with EmbeddingsWriter(*written) as writer:
        if encoder:
            texts = (passage.text for passage in read_passages(passages))
            if gap := unknown_text(encoder.model.tokenizer, encoder.layout.settings.base, texts):
                context.events.warning(gap)
            read = read_passages(passages)
            read_with = with_queries(read, queries.path) if queries else zip(read, repeat(()))
            report = partial(context.events.progress, total=total, unit="passages")
            left_out = encode_passages(encoder, read_with, writer, report)
    context.events.fact(passages=writer.passages, views=writer.rows, padding_views_left_out=left_out)
    context.events.metric("passages_per_second", writer.passages / (time.monotonic() - started))


def encode_passages(
    encoder: Encoder,
    read_with: Iterable[ReadWith],
    writer: EmbeddingsWriter,
    report_done: Callable[[int], None] = lambda done: None,
) -> int:
    """Encodes passages, each read with its queries, and writes their views; reports the number of passages read.

    Padding views are written only with `encode.index_padding_views`; returns how many are left out. Raises InputError for
    a vector that float16 cannot hold.
    """
    left_out = 0

    def placed() -> Iterator[tuple[TokenSequence, Placement]]:
        """The sequences of all passages, each with the place of its vectors."""
        nonlocal left_out
        ahead = laid_out_ahead(encoder.layout.passage, read_with, workers(encoder.device))
        for (passage, queries), sequences in ahead:
            kept = [kept_views(each.views, encoder.settings.index_padding_views) for each in sequences]
            digest = content_hash(passage.title, passage.text)
            row = writer.add_passage(passage.id, digest, sum(map(len, kept)), queries)
            for sequence, views in zip(sequences, kept, strict=True):
                left_out += len(sequence.views) - len(views)
                yield sequence, Placement(passage.id, row, views)
                row += len(views)

    for _, placement, vectors in encoder.passages(placed()):
        writer.write_views(placement.passage, placement.row, vectors[placement.kept])
        report_done(writer.passages)
    return left_out


def laid_out_ahead(
    lay_out: Callable[..., LaidOut], texts: Iterable[Text], processes: int
) -> Iterator[tuple[Text, LaidOut]]:
    """Yields the texts in their order, each with what `lay_out` returns for it; a text is a tuple of its arguments.

    `processes` workers lay out blocks of texts, each up to two blocks ahead; with 0, this process does, on demand.
    """
    rest = iter(texts)
    blocks = iter(lambda: list(islice(rest, BLOCK)), [])
    loader = DataLoader(
        _Blocks(lay_out), batch_size=None, sampler=blocks, num_workers=processes, collate_fn=_unchanged
    )
    for block, laid_out in loader:
        yield from zip(block, laid_out, strict=True)


class _Blocks(Dataset[tuple[list[Text], list[LaidOut]]]):
    """What is laid out of a block of texts; the loader's "index" is the block itself, which the main process reads."""

    def __init__(self, lay_out: Callable[..., LaidOut]) -> None:
        self._lay_out = lay_out

    def __getitem__(self, block: list[Text]) -> tuple[list[Text], list[LaidOut]]:
        return block, [self._lay_out(*text) for text in block]


def _unchanged(block: Block) -> Block:
    """In place of torch's own, which makes lists of tuples."""
    return block


def encode_questions(model: Path, questions: Sequence[str], settings: Encode, events: Events) -> np.ndarray:
    """Returns the vectors of `questions` [q, dim] float32, times the model's scale."""
    encoder = Encoder(model, settings, questions_only=True)
    report = partial(events.progress, total=len(questions), unit="questions")
    return encoder.question_vectors(questions, report)


def weights_type(settings: Encode) -> torch.dtype:
    """Returns the data type of a model's weights under `encode.compute`."""
    return HALF.get(settings.compute, torch.float32)


def smaller_batches(settings: Encode) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which running out of GPU memory raises an error that names the setting to lower."""
    return within_gpu_memory(f"set encode.batch_tokens below {settings.batch_tokens}")


def arithmetic(settings: Encode, device: torch.device) -> torch.autocast:
    """The context that a forward pass runs in under `encode.compute`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=settings.compute == "autocast")
