"""Milliseconds a passage and a question (MVR Table 4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from multiview.encoding.encode import Encoder
from multiview.evaluation.analyses.subject import Findings, Subject
from multiview.model.layouts import TokenSequence

PASSAGES = 48
QUESTIONS = 100
SMALLEST_BATCH = 64
"""A token budget that makes batches of eight: larger ones would mostly be filled up with copies."""


def speed(subject: Subject) -> Findings:
    """Facts, because files must come out the same: `encode_milliseconds_per_passage`, `search_milliseconds_per_question`.

    The first: up to 48 random passages, with the queries that they are read with, encoded in the index's arithmetic, eight at a time (the
    `encode` step tells `passages_per_second` of its own, larger batches). The second: the search for the first
    100 questions, their encoding not counted. Both in this process, on its device.
    """
    sample = subject.sample(len(subject.index), PASSAGES)
    passages = [indexed.sequences for indexed in subject.read_passages(sample)]
    encoder = Encoder(subject.model, subject.encode.model_copy(update={"batch_tokens": SMALLEST_BATCH}))
    _encode(encoder, passages[:1])  # what is done once is not counted
    encoded = _seconds(lambda: _encode(encoder, passages)) / len(passages)
    queries = subject.queries[:QUESTIONS]
    searched = _seconds(lambda: subject.index.search(queries, subject.settings.depth)) / len(queries)
    return Findings(
        facts={
            "encode_milliseconds_per_passage": round(1000 * encoded, 3),
            "search_milliseconds_per_question": round(1000 * searched, 3),
        }
    )


def _encode(encoder: Encoder, passages: Sequence[Sequence[TokenSequence]]) -> None:
    for _ in encoder.passages((sequence, None) for sequences in passages for sequence in sequences):
        pass


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
