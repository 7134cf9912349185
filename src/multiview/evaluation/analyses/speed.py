"""Milliseconds a passage and a question (MVR Table 4)."""

from __future__ import annotations

import time
from collections.abc import Iterator

from multiview.encoding import Encoder
from multiview.evaluation.analyses.subject import Findings, Subject
from multiview.model.layouts import TokenSequence

PASSAGES = 64
QUESTIONS = 100


def speed(subject: Subject) -> Findings:
    """Facts, because files must come out the same: `encode_milliseconds_per_passage`, `search_milliseconds_per_question`.

    The first: up to 64 random passages, laid out and encoded as the `encode` step does; the second: the
    search for the first 100 questions, their encoding not counted. Both in this process, on its device.
    """
    numbers = subject.draw(len(subject.index), PASSAGES)
    passages = subject.passages_of(numbers)
    encoder = subject.encoder
    if subject.encode.compute != "float32":
        encoder = Encoder(subject.model, subject.encode)

    def sequences() -> Iterator[tuple[TokenSequence, None]]:
        return ((sequence, None) for passage in passages for sequence in subject.layout.passage(passage))

    next(encoder.passages(sequences()))
    begun = time.perf_counter()
    for _ in encoder.passages(sequences()):
        pass
    encoded = time.perf_counter() - begun
    queries = subject.queries[:QUESTIONS]
    begun = time.perf_counter()
    subject.index.search(queries, subject.settings.depth)
    searched = time.perf_counter() - begun
    return Findings(
        facts={
            "encode_milliseconds_per_passage": round(1000 * encoded / len(passages), 3),
            "search_milliseconds_per_question": round(1000 * searched / len(queries), 3),
        }
    )
