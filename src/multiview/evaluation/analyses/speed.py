"""Milliseconds per passage and per question (MVR Table 4)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from multiview.encoding.encode import Encoder
from multiview.evaluation.analyses.analysis_input import AnalysisInput, Findings
from multiview.evaluation.costs import SINGLE_QUESTION, median_milliseconds
from multiview.index.stored_views import StreamedViews
from multiview.model.layouts import TokenSequence

PASSAGES = 48
QUESTIONS = 100
SMALLEST_BATCH = 64
"""A token budget that makes padded batches of eight rows; larger ones would mostly be filled with copies."""


def speed(given: AnalysisInput) -> Findings:
    """Times on this process's device, as facts, because files must be reproducible.

    `encode_milliseconds_per_passage`: up to 48 random passages, with the queries that they are read with, encoded in
    the arithmetic of the index, in small batches. `search_milliseconds_per_question`: `SEARCH_SECONDS` of every
    evaluation. `single_question_milliseconds` and `single_search_milliseconds`: medians of questions asked one at a
    time, left out where the views are in a bucket, all of which a search reads.
    """
    sample = given.random_rows(len(given.index), PASSAGES)
    passages = [indexed.sequences for indexed in given.indexed_passages.read(sample)]
    encoder = Encoder(given.model, given.encode.model_copy(update={"batch_tokens": SMALLEST_BATCH}))
    _encode(encoder, passages[:1])  # work that is done only once is not counted
    begun = time.perf_counter()
    _encode(encoder, passages)
    encode_seconds = (time.perf_counter() - begun) / len(passages)
    facts = {
        "encode_milliseconds_per_passage": 1000 * encode_seconds,
        "search_milliseconds_per_question": 1000 * given.search_seconds,
    }
    if not isinstance(given.index.views, StreamedViews):
        texts = [question.question for question in given.questions[:QUESTIONS]]
        vectors = dict(zip(texts, given.queries[:QUESTIONS, None], strict=True))
        search = partial(given.index.search, k=given.settings.depth)
        facts[SINGLE_QUESTION] = median_milliseconds(
            lambda text: search(encoder.question_vector(text)[None]), texts
        )
        facts["single_search_milliseconds"] = median_milliseconds(lambda text: search(vectors[text]), texts)
    for name, value in facts.items():
        given.events.fact(name, round(value, 3))
    return Findings()


def _encode(encoder: Encoder, passages: Sequence[Sequence[TokenSequence]]) -> None:
    for _ in encoder.passages((sequence, None) for sequences in passages for sequence in sequences):
        pass
