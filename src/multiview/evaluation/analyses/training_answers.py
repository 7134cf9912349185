"""Training questions by how their answer's view is found, and AVQ (CAMVR 3.2, 4.1)."""

# pyarrow.compute defines its functions when it is imported, so pyright does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview import metric_names
from multiview.data.answers import answer_views, has_answer
from multiview.data.arrays import numbers
from multiview.data.passages import Passage, PassageLookup
from multiview.data.questions import Question, read_columns
from multiview.data.tokens import Mode, Span
from multiview.evaluation.analyses.analysis_input import AnalysisInput, Findings, NotApplicable
from multiview.evaluation.analyses.tables import CaptionedTable

PASSAGES_AT_ONCE = 1024
"""Number of passages that are held in memory with their questions."""

KINDS = ("offset", "one", "several", "none", "title")


CAPTION = "Shares of the training questions by how their answer's view is found in the first positive passage, and AVQ."


def training_answers(given: AnalysisInput) -> Findings:
    """Returns the table that `CAPTION` describes, and its metrics.

    Kinds: `offset`, by the offset of the answer; without an offset, `one` or `several` views contain the answer;
    `title`, only the title contains it; `none`, no view contains it, for example because it spans two views. Questions
    of the last two kinds are trained on the best view. Table `training_answers`: found, questions, share. Where views
    stand for no part of the text, only AVQ is reported.
    """
    if given.train_questions is None:
        raise NotApplicable("there are no training questions")
    asked = read_columns(given.train_questions, ["positive_ids", "answers", "answer_starts"])
    first = pc.list_element(asked["positive_ids"].combine_chunks(), 0).dictionary_encode()
    avq = {metric_names.AVQ: len(first) / len(first.dictionary) if len(first) else 0.0}
    if not given.layout.has_spans:
        return Findings(avq)
    counts = sum(_kinds(given, asked.drop_columns("positive_ids"), first), Counter())
    total = sum(counts.values())
    if not total:
        raise NotApplicable("no training question has its passage in the corpus")
    shares = [counts[kind] / total for kind in KINDS]
    metrics = avq | {
        metric_names.answer_found(kind): share for kind, share in zip(KINDS, shares, strict=True)
    }
    table = {"found": list(KINDS), "questions": [counts[kind] for kind in KINDS], "share": shares}
    return Findings(metrics, {"training_answers": CaptionedTable(CAPTION, pa.table(table))})


def found_by(question: Question, passage: Passage, spans: Sequence[Span | None], mode: Mode) -> str:
    """Returns one of `KINDS`; `passage`, of whose text all views represent the `spans`, is the question's first positive."""
    _, kind = answer_views(spans, passage.text, question.answers, question.answer_starts, mode)
    if kind == "none" and has_answer(passage.title, question.answers, mode):
        in_text = question.answer_starts is not None or has_answer(passage.text, question.answers, mode)
        return kind if in_text else "title"
    return kind


def _kinds(given: AnalysisInput, asked: pa.Table, first: pa.DictionaryArray) -> Iterator[Counter[str]]:
    """Yields how many of the questions whose first positive is in the corpus are of each kind, for some passages at a time.

    `asked` has the questions' answers and their offsets, `first` their first positives.
    """
    if given.layout.whole_sentences:
        in_sentence = in_sentences(given.corpus, asked, first)
        yield Counter(offset=int(in_sentence.sum()))
        others = pa.array(~in_sentence)
        asked, first = asked.filter(others), first.filter(others)
    used, places = np.unique(first.indices.to_numpy(), return_inverse=True)
    ids = first.dictionary.take(pa.array(used))
    _, positions = given.corpus.find(ids)
    number = np.full(len(ids), len(positions))
    number[positions] = np.arange(len(positions))
    order = np.argsort(number[places], kind="stable")
    asked, rising = asked.take(pa.array(order)), number[places][order]
    passages = (passage for _, passage in given.corpus.stream(ids.take(pa.array(positions))))
    for start in range(0, len(positions), PASSAGES_AT_ONCE):
        batch = list(islice(passages, PASSAGES_AT_ONCE))
        spans = [given.layout.spans(passage) for passage in batch]
        low, high = np.searchsorted(rising, [start, start + len(batch)]).tolist()
        of_batch, places = asked.slice(low, high - low).combine_chunks(), rising[low:high] - start
        at_offset = within_spans(of_batch, places, spans)
        counts = Counter(offset=int(at_offset.sum()))
        others = of_batch.filter(pa.array(~at_offset)).to_pylist()
        for row, place in zip(others, places[~at_offset].tolist(), strict=True):
            starts = row["answer_starts"]
            starts = None if starts is None else tuple(starts)
            question = Question("", "", tuple(row["answers"]), starts, (batch[place].id,))
            counts[found_by(question, batch[place], spans[place], given.matching)] += 1
        yield counts


def in_sentences(corpus: PassageLookup, asked: pa.Table, first: pa.DictionaryArray) -> np.ndarray:
    """Returns whether a sentence of its passage contains an answer of each question at its offset [q] bool.

    Only ends of sentences are read. `asked` and `first` are those of `_kinds`; False for passages that the corpus lacks.
    """
    _, positions = corpus.find(first.dictionary)
    place = np.full(len(first.dictionary), len(positions))
    place[positions] = np.arange(len(positions))
    tables = corpus.tables(first.dictionary.take(pa.array(positions)), ["sentence_ends"])
    columns = [column for _, table in tables for column in table["sentence_ends"].chunks]
    ends = pa.chunked_array([*columns, pa.array([[]], pa.list_(pa.int32()))])  # the last: of no passage
    counts, stops = numbers(pc.list_value_length(ends)), numbers(pc.list_flatten(ends)).astype(np.int64)
    starts = np.concatenate([[0], stops[:-1]])[: len(stops)]
    starts[(np.cumsum(counts) - counts)[counts > 0]] = 0
    return _within(asked, place[first.indices.to_numpy()], np.stack([starts, stops], axis=1), counts)


def within_spans(asked: pa.Table, places: np.ndarray, spans: Sequence[Iterable[Span | None]]) -> np.ndarray:
    """Returns whether a span contains an answer of each question at its offset [q] bool, as `answer_views` says one by one.

    `asked` has the columns `answers` and `answer_starts`; `spans` are those of each passage's views, and `places` [q]
    says which passage a question is about. False for a question without offsets.
    """
    of_passages = [list(filter(None, each)) for each in spans]
    bounds = np.fromiter(chain.from_iterable(chain.from_iterable(of_passages)), np.int64).reshape(-1, 2)
    return _within(asked, places, bounds, np.array(list(map(len, of_passages)), np.int64))


def _within(asked: pa.Table, places: np.ndarray, bounds: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """`within_spans`, with the `bounds` [n, 2] of all spans and their `counts` [p] per passage."""
    found = np.zeros(len(asked), bool)
    with_offsets = np.flatnonzero(asked["answer_starts"].is_valid().to_numpy())
    asked = asked.take(pa.array(with_offsets)).combine_chunks()
    answers = pc.list_flatten(asked["answers"])
    questions = pc.list_parent_indices(asked["answers"]).to_numpy()
    starts = pc.list_flatten(asked["answer_starts"]).to_numpy().astype(np.int64)
    stops = starts + pc.utf8_length(answers).to_numpy()
    # Each answer with each span of its passage.
    of_answers = places[with_offsets][questions]
    repeats = counts[of_answers]
    firsts = (np.cumsum(counts) - counts)[of_answers] - (np.cumsum(repeats) - repeats)
    span = bounds[np.arange(repeats.sum()) + np.repeat(firsts, repeats)]
    answer = np.repeat(np.arange(len(starts)), repeats)
    inside = (span[:, 0] <= starts[answer]) & (stops[answer] <= span[:, 1])
    found[with_offsets[questions[answer[inside]]]] = True
    return found
