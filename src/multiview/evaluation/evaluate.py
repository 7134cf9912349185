"""Evaluation of retrieved passages, by the same rules for an index and for BM25 alone."""

import json
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview import metric_names
from multiview.artifacts.record import load_record
from multiview.artifacts.staging import LocalArtifact
from multiview.config import Encode
from multiview.data.answers import matching_mode
from multiview.data.passages import Passage, PassageLookup, PassageRows, read_passages, shard_files
from multiview.data.processes import rare_collections
from multiview.data.queries import with_queries
from multiview.data.questions import Question, read_questions
from multiview.errors import InputError
from multiview.evaluation.costs import SEARCH_SECONDS, SINGLE_QUESTION, median_milliseconds
from multiview.evaluation.files import METRICS_FILE, QRELS_FILE, QUESTIONS_FILE, RUN_FILE
from multiview.evaluation.metrics import (
    first_rank,
    gold_metrics,
    means,
    measure,
    top_k_accuracy,
    write_qrels,
    write_trec_run,
)
from multiview.evaluation.top_hits import TOP_HITS_FILE, FindViews, index_views, write_top_hits
from multiview.index.ranker import Ranker
from multiview.index.ranking import TopPassages
from multiview.index.view_index import ViewIndex
from multiview.model.layouts.base import Layout
from multiview.negatives.filters import AnswerHits, Positives
from multiview.steps.context import StepContext


def evaluate(context: StepContext) -> None:
    """Step: search the index for every question, by views or however else it ranks, and measure the passages that it
    finds. Questions are encoded as any search of this index encodes them, whatever the settings of `encode` are now.

    Inputs `model`, `index`, `passages`, `questions`, `train_questions` (may be absent); output `evaluation` (see
    `write_evaluation` and `analyses`). For an approximate index, also reports the share of the true top passages that
    it found. Raises InputError when the index holds views of another model.
    """
    from multiview.encoding.encode import Encoder

    index = ViewIndex.of_step(context)
    questions = _questions(context)
    texts = [question.question for question in questions]
    encoder = Encoder.of_step(context)
    queries = encoder.question_vectors(
        texts, lambda done: context.events.progress(done, len(texts), "questions")
    )
    index = index.first_views(context.settings.evaluation.views, encoder.layout)
    corpus = PassageRows(shard_files(context.input("passages").path))
    ranker = Ranker(index, context.input("index").path, corpus, encoder.settings)
    evaluate_queries(context, ranker, encoder.layout, encoder.settings, questions, queries)


@rare_collections()
def evaluate_queries(
    context: StepContext,
    ranker: Ranker,
    layout: Layout,
    encode: Encode,
    questions: list[Question],
    queries: np.ndarray,
) -> None:
    """`evaluate` for encoded `queries` [q, dim] float32. All analyses but `speed` are of the ranking by views."""
    from multiview.evaluation.analyses.analysis_input import AnalysisInput
    from multiview.evaluation.analyses.run import analyse

    index, settings = ranker.index, context.settings.evaluation
    training = context.optional_input("train_questions")
    given = AnalysisInput(
        model=context.input("model").path,
        layout=layout,
        index=index,
        passages=context.input("passages").path,
        questions=questions,
        train_questions=training and training.path,
        queries=queries,
        ask=partial(ranker.search, k=settings.depth),
        settings=settings,
        encode=encode,
        matching=matching_mode(context.settings),
        events=context.events,
    )
    if settings.analyses or not ranker.name:
        given.search()
    if ranker.name:
        report = partial(context.events.progress, total=len(queries), unit="searches")
        texts, begun = [question.question for question in questions], time.perf_counter()
        ranked = ranker.search(texts, queries, settings.depth, report)
        given.search_seconds, judged = (time.perf_counter() - begun) / len(texts), None
        if settings.depth > ranker.depth:
            context.events.warning(
                f"evaluation.depth={settings.depth}: an index that ranks by {ranker.name} gives the {ranker.depth} best of "
                "each ranking; metrics beyond say little"
            )
        top, by_views = ranked.top, ranked.parts.get("dense")
    else:
        judged = given.ranking.holds, given.ranking.gold
        top = by_views = given.top
    # MVR Table 4: the search without the question's encoding. A fact, because outputs must be reproducible.
    context.events.fact(**{SEARCH_SECONDS: given.search_seconds})
    if by_views and not by_views.exact:
        measure(index, queries, by_views.passages, context.events)
    views = index_views(index, queries, given.indexed_passages)
    write_evaluation(context, top, index.ids, questions, find_views=views, judged=judged)
    analyse(context.output("evaluation"), given)


@rare_collections()
def evaluate_bm25(context: StepContext) -> None:
    """Step: evaluate BM25. Inputs `passages`, `questions`; output `evaluation` (see `write_evaluation`).

    With the input `queries` it is DocT5Query (Nogueira and Lin, 2019; Dual Cross Encoder 4.3): each passage is indexed
    with its generated queries, as drawn, at the end of its text; accuracy is of the passages' own texts.
    """
    from multiview.index.bm25 import Bm25Index

    questions = _questions(context)
    passages: Path = context.input("passages").path
    queries = context.optional_input("queries")
    indexed: Iterable[Passage] = read_passages(passages)
    if queries:  # sentence ends stay those of the text without queries
        with_drawn = with_queries(read_passages(passages), queries.path)
        indexed = (replace(passage, text=" ".join((passage.text, *drawn))) for passage, drawn in with_drawn)
    index = Bm25Index.of(indexed, context.settings.bm25, context.settings.corpus.language)
    begun = time.perf_counter()
    texts, depth = [question.question for question in questions], context.settings.evaluation.depth
    top = index.search(texts, depth, lambda done: context.events.progress(done, len(questions), "searches"))
    seconds = (time.perf_counter() - begun) / len(questions)
    alone = median_milliseconds(lambda text: index.search([text], depth), texts)
    context.events.fact(**{SEARCH_SECONDS: seconds, SINGLE_QUESTION: round(alone, 3)})
    write_evaluation(context, top, index.ids, questions, tag="doct5query" if queries else "bm25")


def write_evaluation(
    context: StepContext,
    top: TopPassages,
    ids: pa.Array,
    questions: Sequence[Question],
    tag: str = "multiview",
    find_views: FindViews | None = None,
    judged: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Measures the rankings of any retriever and writes them into the output `evaluation` of a step.

    `top` [q, depth] holds rows of `ids`, whose texts are in the step's input `passages`; `tag` names the retriever in
    `run.trec`, `find_views` finds the views of passages that have some, and `judged` says which passages hold an answer
    and which are gold [q, depth] bool, where that is known. Accuracy is measured on the questions with answers, gold
    metrics on those with gold passages; without such questions the metric is left out, and without passages all are.

    Writes `metrics.json` (name to value), `run.trec`, `qrels.trec` (with grades), `best.parquet` (see
    `write_top_hits`) and `questions.parquet`, one row per question: qid; rank_of_first_answer and rank_of_first_gold,
    from 1 or null; the top passage, its score and its winning view; the span of that view's snippet in the text, null
    where the view represents no part of the text; and one column per metric, null where the question has no answer or
    no gold passage. `metrics.json` has the means of these columns.
    """
    folder, settings = context.output("evaluation"), context.settings.evaluation
    if judged is None:
        corpus = PassageLookup(context.input("passages").path)
        answers = AnswerHits(questions, ids, corpus, matching_mode(context.settings))
        judged = answers.holds(top.passages), Positives(ids, questions).hits(top.passages)
    holds, gold_hits = judged
    first_answer, first_gold = first_rank(holds), first_rank(gold_hits)
    rankings = _rankings(top, ids, questions)
    gold = {question.qid: question.grades for question in questions}
    cuts = metric_names.accuracy_cuts(settings.at, settings.depth)
    names = {qid: [name for name, _ in ranking] for qid, ranking in rankings.items()}
    answered = np.array([bool(question.answers) for question in questions])
    values = top_k_accuracy(first_answer, answered, cuts) | gold_metrics(names, gold, cuts, settings.depth)
    metrics = means(values) if len(ids) else {}
    if answered.any() and (top.passages >= 0).any() and not holds.any():
        context.events.warning(
            f"no passage among the first {settings.depth} of any question holds an answer (first: "
            f"{next(question.answers[0] for question in questions if question.answers)!r}): are they answers, and of this "
            "corpus?"
        )
    (folder / METRICS_FILE).write_text(json.dumps(metrics, indent=1, sort_keys=True) + "\n")
    write_trec_run(folder / RUN_FILE, rankings, tag)
    write_qrels(folder / QRELS_FILE, gold)
    spans = write_top_hits(folder / TOP_HITS_FILE, top, ids, holds, gold_hits, questions, find_views)
    first, empty = top.passages[:, 0], top.passages[:, 0] < 0
    of_questions = {
        "qid": pa.array([question.qid for question in questions], pa.string()),
        "rank_of_first_answer": pa.array(first_answer, pa.int32(), mask=first_answer == 0),
        "rank_of_first_gold": pa.array(first_gold, pa.int32(), mask=first_gold == 0),
        "top_passage_id": ids.take(pa.array(first, pa.int64(), mask=empty)),
        "top_score": pa.array(top.scores[:, 0], pa.float32(), mask=empty),
        "top_view": pa.array(top.winning_views[:, 0], pa.int32(), mask=top.winning_views[:, 0] < 0),
        "top_start": pa.array([span and span[0] for span in spans], pa.int32()),
        "top_stop": pa.array([span and span[1] for span in spans], pa.int32()),
    }
    for name, column in values.items():
        of_questions[name] = pa.array(column, pa.float64(), mask=np.isnan(column))
    pq.write_table(pa.table(of_questions), folder / QUESTIONS_FILE)
    for name, value in metrics.items():
        context.events.metric(name, value)
    context.events.fact(questions=len(questions), depth=settings.depth)


def ranks_of(folder: Path) -> np.ndarray:
    """Rank per question [q] float64 of its first passage with an answer, or of its first gold passage where the
    question has no answers; inf where none was retrieved."""
    table = pq.read_table(folder / QUESTIONS_FILE)
    answer, gold = (_floats(table, f"rank_of_first_{kind}") for kind in ("answer", "gold"))
    accuracy = [name for name in table.column_names if name.startswith(metric_names.ACCURACY_PREFIX)]
    answered = table[accuracy[0]].is_valid().to_numpy() if accuracy else np.zeros(len(table), bool)
    return np.nan_to_num(np.where(answered, answer, gold), nan=np.inf)


def comparable_ranks(evaluations: Sequence[LocalArtifact]) -> np.ndarray:
    """`ranks_of` each evaluation [systems, q], inf beyond the depth to which all of them retrieved."""
    ranks = np.stack([ranks_of(staged.path) for staged in evaluations])
    depths = [
        load_record(staged.address).record.facts.get("depth", np.inf)
        for staged in evaluations
        if staged.address
    ]
    return np.where(ranks > min(depths, default=np.inf), np.inf, ranks)


def best_ranks_of(folder: Path) -> np.ndarray:
    """Rank per question [q] float64 of its first gold or answer-holding passage; inf where none was retrieved."""
    table = pq.read_table(folder / QUESTIONS_FILE)
    ranks = [_floats(table, f"rank_of_first_{kind}") for kind in ("answer", "gold")]
    return np.nan_to_num(np.fmin(*ranks), nan=np.inf)


def values_of(folder: Path, metrics: Collection[str]) -> dict[str, np.ndarray]:
    """Per-question values [q] float64 of those `metrics` that have them; NaN where a question is not judged."""
    present = pq.read_schema(folder / QUESTIONS_FILE).names
    table = pq.read_table(folder / QUESTIONS_FILE, columns=[name for name in metrics if name in present])
    return {name: _floats(table, name) for name in table.column_names}


def _floats(table: pa.Table, name: str) -> np.ndarray:
    return table[name].to_numpy(zero_copy_only=False).astype(np.float64)


def _questions(context: StepContext) -> list[Question]:
    folder = context.input("questions").path
    questions = read_questions(folder)
    if not questions:
        raise InputError(f"{folder}: no questions to evaluate on; check questions.dev_source or dev_share")
    return questions


def _rankings(
    top: TopPassages, ids: pa.Array, questions: Sequence[Question]
) -> dict[str, list[tuple[str, float]]]:
    """The (passage id, score) pairs of each question, best first, without padding, by its qid."""
    real = top.passages >= 0
    names, scores = ids.take(pa.array(top.passages[real])).to_pylist(), top.scores[real].tolist()
    pairs = zip(names, scores, strict=True)
    counts = real.sum(axis=1).tolist()
    return {
        question.qid: list(islice(pairs, count)) for question, count in zip(questions, counts, strict=True)
    }
