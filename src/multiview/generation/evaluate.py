"""Evaluation of generated queries against the questions that people asked of the same passages."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview import metric_names
from multiview.data.queries import iterate_queries
from multiview.data.questions import Question, read_questions
from multiview.evaluation.generated_queries import (
    diversity_levels,
    queries_table,
    rouge_l_by_number,
    self_bleu,
)
from multiview.steps.context import StepContext

METRICS_FILE = "metrics.json"
LEVELS_FILE = "levels.json"
QUESTIONS_FILE = "questions.parquet"
TABLE_FILE = "table.md"


def evaluate_queries(context: StepContext) -> None:
    """Step: measures `queries`, a list of shards, against the `questions` about the same gold passages.

    A question's gold passage is its first positive that the corpus has, as in the analyses of a model. Questions about
    a passage without queries are left out and counted.

    Writes into `query_evaluation`:

    - `metrics.json`: rouge_l_at_1 … (means over questions, of the first k queries as drawn) and self_bleu_4 (mean over
      passages, of all queries as drawn); a metric is absent where nothing can be measured.
    - `levels.json`: see `generated_queries.diversity_levels`.
    - `table.md`: both as tables in Markdown.
    - `questions.parquet`: qid, passage_id, rouge_l [k] by number of queries, and self_bleu_4 of the passage, null
      below two queries.
    """
    max_queries = context.settings.generation.queries
    with_gold = [
        question for question in read_questions(context.input("questions").path) if question.positive_ids
    ]
    shards = [staged.path for staged in context.list_input("queries")]
    queries = _read_queries({id_ for question in with_gold for id_ in question.positive_ids}, shards)
    gold = {question.qid: _gold(question, queries) for question in with_gold}
    questions = [question for question in with_gold if queries.get(gold[question.qid])]
    if not questions:
        context.events.warning("no question has a gold passage with generated queries: they are not measured")
    rouge = np.empty((len(questions), max_queries))
    for row, question in enumerate(questions):
        rouge[row] = rouge_l_by_number(question.question, queries[gold[question.qid]], max_queries)
        context.events.progress(row + 1, len(questions), "questions")
    passage_ids = [gold[question.qid] for question in questions]
    passage_bleus = {passage_id: self_bleu(queries[passage_id]) for passage_id in dict.fromkeys(passage_ids)}
    table = _question_table(questions, passage_ids, rouge, passage_bleus)
    metrics = {
        metric_names.rouge_l_at(k): float(rouge[:, k - 1].mean())
        for k in range(1, max_queries + 1)
        if questions
    }
    self_bleus, best = _by_passage(passage_ids, rouge[:, -1], passage_bleus)
    levels = diversity_levels(self_bleus, {metric_names.ROUGE_L: best})
    known = [value for value in passage_bleus.values() if value is not None]
    if known:
        metrics[metric_names.SELF_BLEU] = float(np.mean(known))
    folder = context.output("query_evaluation")
    (folder / METRICS_FILE).write_text(_json(metrics))
    (folder / LEVELS_FILE).write_text(_json(levels))
    rouge_by_k = {k: metrics[metric_names.rouge_l_at(k)] for k in range(1, max_queries + 1) if questions}
    (folder / TABLE_FILE).write_text(queries_table(rouge_by_k, levels))
    pq.write_table(table, folder / QUESTIONS_FILE)
    for name, value in metrics.items():
        context.events.metric(name, value)
    context.events.fact("questions", len(questions))
    context.events.fact("questions_without_queries", len(with_gold) - len(questions))


def _read_queries(passage_ids: set[str], shards: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    """Returns the queries of these passages as they were drawn, repeated ones included."""
    return {
        passage_id: queries
        for shard in shards
        for passage_id, queries in iterate_queries(shard)
        if passage_id in passage_ids
    }


def _gold(question: Question, queries: Collection[str]) -> str:
    """Returns the question's first positive that is a key of `queries`; its first one if none is."""
    return next((id_ for id_ in question.positive_ids if id_ in queries), question.positive_ids[0])


def _by_passage(
    passage_ids: Sequence[str], best: np.ndarray, passage_bleus: dict[str, float | None]
) -> tuple[list[float], list[float]]:
    """Returns, per passage with a self-BLEU-4, this value and the mean best ROUGE-L over its questions."""
    rouge_by_passage: dict[str, list[float]] = {}
    for passage_id, value in zip(passage_ids, best, strict=True):
        rouge_by_passage.setdefault(passage_id, []).append(float(value))
    pairs = [
        (bleu, float(np.mean(rouge_by_passage[passage_id])))
        for passage_id, bleu in passage_bleus.items()
        if bleu is not None
    ]
    return [bleu for bleu, _ in pairs], [quality for _, quality in pairs]


def _question_table(
    questions: Sequence[Question],
    passage_ids: Sequence[str],
    rouge: np.ndarray,
    passage_bleus: dict[str, float | None],
) -> pa.Table:
    return pa.table(
        {
            "qid": pa.array([question.qid for question in questions], pa.string()),
            "passage_id": pa.array(passage_ids, pa.string()),
            metric_names.ROUGE_L: pa.array(list(rouge), pa.list_(pa.float64())),
            metric_names.SELF_BLEU: pa.array([passage_bleus[id_] for id_ in passage_ids], pa.float64()),
        }
    )


def _json(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
