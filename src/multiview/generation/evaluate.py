"""Evaluation of generated queries against the questions that people asked of the same passages."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview import metric_names
from multiview.data.queries import iterate_queries
from multiview.data.questions import read_questions
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
    most = context.settings.generation.queries
    with_gold = [each for each in read_questions(context.input("questions").path) if each.positive_ids]
    wanted = {id_ for question in with_gold for id_ in question.positive_ids}
    queries = {
        passage_id: drawn  # as drawn, repeated ones included
        for shard in context.list_input("queries")
        for passage_id, drawn in iterate_queries(shard.path)
        if passage_id in wanted
    }
    gold = {
        question.qid: next((id_ for id_ in question.positive_ids if id_ in queries), question.positive_ids[0])
        for question in with_gold
    }
    questions = [question for question in with_gold if queries.get(gold[question.qid])]
    if not questions:
        context.events.warning("no question has a gold passage with generated queries: they are not measured")
    passage_ids = [gold[question.qid] for question in questions]
    rouge = np.empty((len(questions), most))
    for row, (question, passage_id) in enumerate(zip(questions, passage_ids, strict=True)):
        rouge[row] = rouge_l_by_number(question.question, queries[passage_id], most)
        context.events.progress(row + 1, len(questions), "questions")
    bleus = {passage_id: self_bleu(queries[passage_id]) for passage_id in dict.fromkeys(passage_ids)}
    known = {passage_id: bleu for passage_id, bleu in bleus.items() if bleu is not None}
    best: dict[str, list[float]] = {}
    for passage_id, value in zip(passage_ids, rouge[:, -1], strict=True):
        best.setdefault(passage_id, []).append(float(value))
    quality = [float(np.mean(best[passage_id])) for passage_id in known]
    levels = diversity_levels(list(known.values()), {metric_names.ROUGE_L: quality})
    rouge_by_k = {k: float(rouge[:, k - 1].mean()) for k in range(1, most + 1) if questions}
    metrics = {metric_names.rouge_l_at(k): value for k, value in rouge_by_k.items()}
    if known:
        metrics[metric_names.SELF_BLEU] = float(np.mean(list(known.values())))
    columns = {
        "qid": pa.array([question.qid for question in questions], pa.string()),
        "passage_id": pa.array(passage_ids, pa.string()),
        metric_names.ROUGE_L: pa.array(list(rouge), pa.list_(pa.float64())),
        metric_names.SELF_BLEU: pa.array([bleus[id_] for id_ in passage_ids], pa.float64()),
    }
    folder = context.output("query_evaluation")
    for name, value in ((METRICS_FILE, metrics), (LEVELS_FILE, levels)):
        (folder / name).write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
    (folder / TABLE_FILE).write_text(queries_table(rouge_by_k, levels))
    pq.write_table(pa.table(columns), folder / QUESTIONS_FILE)
    for name, value in metrics.items():
        context.events.metric(name, value)
    context.events.fact("questions", len(questions))
    context.events.fact("questions_without_queries", len(with_gold) - len(questions))
