"""Views with the answer: whether they find the passage (CAMVR Eq. 15, Table 4), and how training finds them
(CAMVR 3.2, 4.1)."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview import metric_names
from multiview.data.answers import answer_views, has_answer
from multiview.data.passages import Passage
from multiview.data.questions import FILE
from multiview.data.tokens import Mode, Span, TokenizedText
from multiview.evaluation.analyses.analysis_input import AnalysisInput, Findings, NotApplicable, Table

KINDS = ("offset", "one", "several", "none", "title")


def answer_view(given: AnalysisInput) -> Findings:
    """Table `answer_view`: k, overall, answer_view, other_views; and its metrics. The title never holds an answer."""
    if not given.layout.has_spans:
        raise NotApplicable("views represent no part of the text")
    given.check_several_views()
    if given.layout.reads_queries:
        raise NotApplicable("every view represents the whole text")
    if not any(question.answers for question in given.questions):
        raise NotApplicable("no question has an answer")
    overall, answer = given.accuracy(given.ranking.holds), given.accuracy(answer_view_hits(given))
    metrics: dict[str, float] = {}
    rows = []
    for k in given.cuts:
        name = metric_names.accuracy_at(k)
        row = {"answer_view": answer[name], "other_views": overall[name] - answer[name]}
        metrics |= {metric_names.of_group(group, name): value for group, value in row.items()}
        rows.append({"k": k, "overall": overall[name], **row})
    caption = (
        'Accuracy by snippets that matched and hold the answer, and the rest of the accuracy, "other views".'
    )
    return Findings(metrics, {"answer_view": Table(caption, pa.Table.from_pylist(rows))})


def answer_view_hits(given: AnalysisInput) -> np.ndarray:
    """Returns whether the best view of each retrieved passage represents text with an answer [q, depth] bool."""
    hits = np.zeros(given.ranking.holds.shape, bool)
    held: dict[int, list[tuple[int, int]]] = {}
    for question, column in np.argwhere(given.ranking.holds).tolist():
        held.setdefault(int(given.top.passages[question, column]), []).append((question, column))
    for indexed in given.indexed_passages.read(np.array(list(held), np.int64)):
        text = TokenizedText(indexed.passage.text, given.matching)
        for question, column in held[indexed.row]:
            span = indexed.views[given.top.winning_views[question, column]].span
            views, _ = answer_views([span], text, given.questions[question].answers, mode=given.matching)
            hits[question, column] = bool(views)
    return hits


def training_answers(given: AnalysisInput) -> Findings:
    """Table `training_answers`: found (one of `KINDS`), questions, share; the shares are metrics, and so is `avq`.

    Kinds: `offset`, by the offset of the answer; without an offset, `one` or `several` views contain the answer;
    `title`, only the title contains it; `none`, no view contains it, for example because it spans two views. Questions
    of the last two kinds are trained on the best view. Where views stand for no part of the text, only AVQ is reported.
    """
    if given.train_questions is None:
        raise NotApplicable("there are no training questions")
    asked = pq.read_table(given.train_questions / FILE, columns=["positive_ids", "answers", "answer_starts"])
    first = pc.list_element(asked["positive_ids"].combine_chunks(), 0).dictionary_encode()
    avq = {"avq": len(first) / len(first.dictionary) if len(first) else 0.0}
    if not given.layout.has_spans:
        return Findings(avq)
    counts = _kinds(given, asked.drop_columns("positive_ids"), first)
    total = sum(counts.values())
    if not total:
        raise NotApplicable("no training question has its passage in the corpus")
    shares = [counts[kind] / total for kind in KINDS]
    metrics = avq | {f"training_answers_{kind}": share for kind, share in zip(KINDS, shares, strict=True)}
    table = {"found": list(KINDS), "questions": [counts[kind] for kind in KINDS], "share": shares}
    caption = "Shares of the training questions by how their answer's view is found in the first positive passage, and AVQ."
    return Findings(metrics, {"training_answers": Table(caption, pa.table(table))})


def found_by(
    answers: Sequence[str],
    starts: Sequence[int] | None,
    passage: Passage,
    spans: Sequence[Span | None],
    mode: Mode,
) -> str:
    """Returns one of `KINDS` for a question's answers in `passage`, whose views represent `spans` of its text."""
    _, kind = answer_views(spans, passage.text, answers, starts, mode)
    if kind == "none" and starts is None and has_answer(passage.title, answers, mode):
        return kind if has_answer(passage.text, answers, mode) else "title"
    return kind


def _kinds(given: AnalysisInput, asked: pa.Table, first: pa.DictionaryArray) -> Counter[str]:
    """Returns the number of questions of each kind, among those whose first positive is in the corpus; `asked` has the
    questions' answers and offsets, `first` their first positives."""
    counts: Counter[str] = Counter()
    order = np.argsort(first.indices.to_numpy(), kind="stable")
    stops = np.cumsum(np.bincount(first.indices.to_numpy(), minlength=len(first.dictionary)))
    _, places = given.corpus.find(first.dictionary)
    passages = given.corpus.stream(first.dictionary.take(pa.array(places)))
    for place, (_, passage) in zip(places.tolist(), passages, strict=True):
        spans = [part.span for part in given.layout.parts(passage)]
        rows = order[stops[place - 1] if place else 0 : stops[place]]
        for row in asked.take(pa.array(rows)).to_pylist():
            counts[found_by(row["answers"], row["answer_starts"], passage, spans, given.matching)] += 1
    return counts
