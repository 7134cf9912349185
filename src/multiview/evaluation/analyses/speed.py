"""Milliseconds per passage and per question (MVR Table 4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from multiview.encoding.encode import Encoder
from multiview.evaluation.analyses.subject import Findings, Subject
from multiview.model.layouts import TokenSequence

PASSAGES = 48
QUESTIONS = 100
SMALLEST_BATCH = 64
"""A token budget that makes padded batches of eight rows; larger ones would mostly be filled with copies."""


def speed(subject: Subject) -> Findings:
    """Times of encoding and search, as facts, because files must be reproducible. Both are taken in this process, on its device.

    `encode_milliseconds_per_passage`: up to 48 random passages, with the queries that they are read with, encoded in
    the arithmetic of the index, in small batches. (The `encode` step reports `passages_per_second` for its larger
    batches.) `search_milliseconds_per_question`: the search for the first 100 questions, without their encoding.
    """
    sample = subject.random_rows(len(subject.index), PASSAGES)
    passages = [indexed.sequences for indexed in subject.read_passages(sample)]
    encoder = Encoder(subject.model, subject.encode.model_copy(update={"batch_tokens": SMALLEST_BATCH}))
    _encode(encoder, passages[:1])  # work that is done only once is not counted
    encode_seconds = _seconds(lambda: _encode(encoder, passages)) / len(passages)
    queries = subject.queries[:QUESTIONS]
    search_seconds = _seconds(lambda: subject.index.search(queries, subject.settings.depth)) / len(queries)
    return Findings(
        facts={
            "encode_milliseconds_per_passage": round(1000 * encode_seconds, 3),
            "search_milliseconds_per_question": round(1000 * search_seconds, 3),
        }
    )


def _encode(encoder: Encoder, passages: Sequence[Sequence[TokenSequence]]) -> None:
    for _ in encoder.passages((sequence, None) for sequences in passages for sequence in sequences):
        pass


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
