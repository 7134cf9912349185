"""Evaluation of generated queries against the questions that people asked of the same passages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview import metric_names
from multiview.data.queries import iterate_queries
from multiview.data.questions import Question, read_questions
from multiview.generation.metrics import diversity_levels, queries_table, rouge_l_by_number, self_bleu
from multiview.steps.context import StepContext

METRICS_FILE = "metrics.json"
LEVELS_FILE = "levels.json"
QUESTIONS_FILE = "questions.parquet"
TABLE_FILE = "table.md"


def evaluate_queries(context: StepContext) -> None:
    """Step: measure `queries`, a list of shards, by the `questions` whose gold passages they were generated from.

    A question's gold passage is its first; questions whose passage has no query are left out and counted.
    Writes into `query_evaluation`: `metrics.json` (rouge_l_at_1 … and self_bleu_4, means over questions and
    over passages; none where nothing can be measured), `levels.json` (see `metrics.diversity_levels`), `table.md`, and `questions.parquet` (qid,
    passage_id, rouge_l [k] by number of queries, and self_bleu_4 of the passage, null below two queries).
    """
    most = context.settings.generation.queries
    asked = [
        question for question in read_questions(context.input("questions").path) if question.positive_ids
    ]
    shards = [staged.path for staged in context.list_input("queries")]
    queries = _queries_of({question.positive_ids[0] for question in asked}, shards)
    questions = [question for question in asked if queries.get(question.positive_ids[0])]
    if not questions:
        context.events.warning("no question has a gold passage with generated queries: they are not measured")
    rouge = np.empty((len(questions), most))
    for row, question in enumerate(questions):
        rouge[row] = rouge_l_by_number(question.question, queries[question.positive_ids[0]], most)
        context.events.progress(row + 1, len(questions), "questions")
    alike = {name: self_bleu(queries[name]) for name in dict.fromkeys(q.positive_ids[0] for q in questions)}
    table = _question_table(questions, rouge, alike)
    metrics = {
        metric_names.rouge_l_at(k): float(rouge[:, k - 1].mean()) for k in range(1, most + 1) if questions
    }
    self_bleus, best = _by_passage(questions, rouge[:, -1], alike)
    levels = diversity_levels(self_bleus, {metric_names.ROUGE_L: best})
    known = [value for value in alike.values() if value is not None]
    if known:
        metrics[metric_names.SELF_BLEU] = float(np.mean(known))
    folder = context.output("query_evaluation")
    (folder / METRICS_FILE).write_text(_json(metrics))
    (folder / LEVELS_FILE).write_text(_json(levels))
    by_number = {k: metrics[metric_names.rouge_l_at(k)] for k in range(1, most + 1) if questions}
    (folder / TABLE_FILE).write_text(queries_table(by_number, levels))
    pq.write_table(table, folder / QUESTIONS_FILE)
    for name, value in metrics.items():
        context.events.metric(name, value)
    context.events.fact("questions", len(questions))
    context.events.fact("questions_without_queries", len(asked) - len(questions))


def _queries_of(wanted: set[str], shards: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    """The queries of these passages as they were drawn, repeated ones among them; others are not kept."""
    return {name: queries for shard in shards for name, queries in iterate_queries(shard) if name in wanted}


def _by_passage(
    questions: list[Question], best: np.ndarray, alike: dict[str, float | None]
) -> tuple[list[float], list[float]]:
    """Of each passage with a self-BLEU-4, that and the mean best ROUGE-L over its questions."""
    of_passage: dict[str, list[float]] = {}
    for question, value in zip(questions, best, strict=True):
        of_passage.setdefault(question.positive_ids[0], []).append(float(value))
    measured = [
        (score, float(np.mean(of_passage[name]))) for name, score in alike.items() if score is not None
    ]
    return [score for score, _ in measured], [quality for _, quality in measured]


def _question_table(questions: list[Question], rouge: np.ndarray, alike: dict[str, float | None]) -> pa.Table:
    passages = [question.positive_ids[0] for question in questions]
    return pa.table(
        {
            "qid": pa.array([question.qid for question in questions], pa.string()),
            "passage_id": pa.array(passages, pa.string()),
            metric_names.ROUGE_L: pa.array(list(rouge), pa.list_(pa.float64())),
            metric_names.SELF_BLEU: pa.array([alike[name] for name in passages], pa.float64()),
        }
    )


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
