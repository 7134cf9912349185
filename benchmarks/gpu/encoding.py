"""Passages from text to views in a file: the code of the step `encode`, the forward pass alone, and SentenceTransformer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import torch

from benchmarks.encoding import GPU_BOUND_TOKENS, padded
from benchmarks.gpu.sizes import DEVICE, Given, clock
from benchmarks.table import Goal, Row, number, of_times
from benchmarks.timing import in_turns
from multiview.config import Encode
from multiview.data.passages import Passage
from multiview.encoding.batches import Buckets
from multiview.encoding.embeddings import EmbeddingsWriter
from multiview.encoding.encode import (
    Encoder,
    arithmetic,
    encode_passages,
    laid_out_ahead,
    weights_type,
)
from multiview.model.batch import make_batch, to_device
from multiview.model.devices import read_behind, workers
from multiview.model.layouts.base import TokenSequence

OURS, FORWARD, PEER = "ours", "forward pass", "SentenceTransformer"
LARGER = 1 << 16
"""Another value of encode.batch_tokens, to see what the default one loses."""
PEER_BATCHES = (256,)
"""Values of SentenceTransformer's batch_size. Its default, 32, was half as fast on an H200."""
WARMED_UP = 1024
SENTENCE_END = re.compile(r"[.!?]\s+")


def encoding(
    work: Given, shape: str, compute: str, architecture: str = "dpr", peers: bool = True
) -> Iterator[Row | str]:
    """A row of encoding SQuAD's passages, then the speeds, and where the time goes."""
    encode = Encode.model_validate({"device": DEVICE, "compute": compute})
    pooling = {"pooling": "snippet"} if architecture == "dpr" else {}
    model = work.model(shape, architecture, **pooling)
    encoder = Encoder(model, encode)
    larger = Encoder(model, encode.model_copy(update={"batch_tokens": LARGER}))
    passages = [in_sentences(passage) for passage in work.passages]
    taken: dict[str, float] = {}
    sequences = timed(
        taken, f"tokenising in {workers(encoder.device)} processes", lambda: laid_out(encoder, passages)
    )
    tokens = sum(len(sequence.input_ids) for sequence in sequences)
    runs: dict[str, Callable[[Sequence[Passage]], object]] = {
        OURS: lambda some: step(encoder, some, work.folder),
        f"{OURS}, encode.batch_tokens={LARGER}": lambda some: step(larger, some, work.folder),
        FORWARD: forward_pass(encoder, sequences),
    }
    if peers:
        runs |= sentence_transformer(work.base(shape), encode)
    for run in runs.values():
        run(passages[:WARMED_UP])
    whole = {name: lambda run=run: run(passages) for name, run in runs.items()}
    size = work.size
    times = in_turns(whole, size.repeats, clock, uncounted=0, limit=2 * size.seconds)
    rivals = (name for name in times if name.startswith(PEER))
    fastest = min(rivals, key=lambda name: median(times[name]), default=None)
    about = "" if architecture == "dpr" else f", {architecture}'s views"
    yield of_times(
        f"encode {len(passages):,} passages of SQuAD{about}, {shape}, {compute}",
        "ms per passage",
        times,
        ours=OURS,
        peer=fastest,
        bound=FORWARD,
        per=len(passages),
        goal=Goal(times_peer=1.2 if peers else None, of_bound=0.8),
    )
    speeds = (
        f"{name} {number(len(passages) / seconds)} passages/s ({number(tokens / seconds)} tokens/s)"
        for name, seconds in ((name, median(each) / 1000) for name, each in times.items())
    )
    yield f"{'; '.join(speeds)}; {tokens / len(sequences):.0f} tokens a sequence"
    yield f"where the time goes, each part alone, in s: {stages(encoder, sequences, work.folder, taken)}"


def in_sentences(passage: Passage) -> Passage:
    """The passage, cut into sentences after each full stop, `!` and `?`."""
    ends = [match.end() for match in SENTENCE_END.finditer(passage.text)]
    return replace(passage, sentence_ends=tuple(dict.fromkeys([*ends, len(passage.text)])))


def step(encoder: Encoder, passages: Sequence[Passage], folder: Path) -> None:
    """What the step `encode` does once its model is loaded."""
    with EmbeddingsWriter(folder, encoder.dim, "random") as writer:
        encode_passages(encoder, zip(passages, repeat(()), strict=False), writer)


def forward_pass(encoder: Encoder, sequences: Sequence[TokenSequence]) -> Callable[[object], None]:
    """The model alone, over large batches of sequences of similar length that are on the device already."""
    model: Any = encoder.model.encoders["passage"]
    largest = GPU_BOUND_TOKENS if DEVICE == "cuda" else 1024
    batches = padded([sequence.input_ids for sequence in sequences], largest, DEVICE)

    def run(_: object) -> None:
        with torch.inference_mode(), arithmetic(encoder.settings, encoder.device):
            for ids, mask in batches:
                model(input_ids=ids, attention_mask=mask)

    return run


def sentence_transformer(base: Path, encode: Encode) -> dict[str, Callable[[Sequence[Passage]], object]]:
    """SentenceTransformer's encoding by its batch_size, with the mean of the tokens as the vector."""
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(base), device=DEVICE, model_kwargs={"dtype": weights_type(encode)})
    peer.max_seq_length = 256

    def run(passages: Sequence[Passage], batch_size: int) -> object:
        texts = [f"{passage.title} {passage.text}" for passage in passages]
        return peer.encode(texts, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False)

    return {
        f"{PEER}, batches of {size}": lambda passages, size=size: run(passages, size) for size in PEER_BATCHES
    }


def laid_out(encoder: Encoder, passages: Sequence[Passage]) -> list[TokenSequence]:
    """The sequences of passages, as the step lays them out ahead of the model."""
    read_with = zip(passages, repeat(()), strict=False)
    ahead = laid_out_ahead(encoder.layout.passage, read_with, workers(encoder.device))
    return [sequence for _, found in ahead for sequence in found]


Returned = TypeVar("Returned")


def timed(taken: dict[str, float], name: str, run: Callable[[], Returned]) -> Returned:
    """Runs something, and notes the seconds that it took."""
    begun = clock()
    found = run()
    taken[name] = clock() - begun
    return found


def stages(
    encoder: Encoder, sequences: Sequence[TokenSequence], folder: Path, taken: dict[str, float]
) -> str:
    """The seconds of each part of the step, run one after another with its own batches; `taken` has earlier ones."""
    limit, views = encoder.layout.settings.passage_length, encoder.layout.max_views
    buckets = Buckets[int](encoder.settings, encoder.device, limit)
    shaped = timed(
        taken,
        "sorting by length",
        lambda: list(buckets.batches(zip(sequences, range(len(sequences)), strict=True))),
    )
    pad_id = encoder.model.tokenizer.pad_token_id
    made = timed(
        taken,
        "making tensors",
        lambda: [
            make_batch([sequence for sequence, _ in members], pad_id, views, shape.length, shape.rows)
            for shape, members in shaped
        ],
    )
    moved = timed(taken, "to the device", lambda: [to_device(batch, encoder.device) for batch in made])

    def forward() -> list[torch.Tensor]:
        with torch.inference_mode(), arithmetic(encoder.settings, encoder.device):
            return [encoder.model.encode_passages(batch).float() for batch in moved]

    vectors = timed(taken, f"forward of {len(made)} batches", forward)
    arrays = timed(taken, "back", lambda: [array for _, array in read_behind((0, each) for each in vectors)])
    with EmbeddingsWriter(folder, encoder.dim, "random") as writer:
        rows = (
            row for array, (_, members) in zip(arrays, shaped, strict=True) for row in array[: len(members)]
        )

        def write() -> None:
            for place, row in enumerate(rows):
                writer.write_views("", views * place, row)

        timed(taken, "writing", write)
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in taken.items())
