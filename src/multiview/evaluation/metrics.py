"""Figures of merit of ranked passages: DPR's top-k accuracy, and trec_eval's of the gold passages.

Each is a value a question first, which the paired tests need, and then the mean of those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ir_measures
import numpy as np
from ir_measures import RR, R, nDCG

from multiview import metric_names

Values = dict[str, np.ndarray]
"""Metric to the value of each question [q] float64, nan of those that it does not judge."""


def first_rank(hits: np.ndarray) -> np.ndarray:
    """Rank, from 1, of each question's first hit [q] int64, 0 where there is none; `hits` [q, k] bool."""
    if not hits.shape[1]:
        return np.zeros(len(hits), np.int64)
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def top_k_accuracy(first_answer: np.ndarray, answered: np.ndarray, at: Sequence[int]) -> Values:
    """DPR's rule: 1 where the first answer-holding passage has rank k or better, else 0.

    `first_answer` [q] are ranks from 1, 0 for none; `answered` [q] says which questions have answers.
    """
    found = first_answer > 0
    return {metric_names.accuracy_at(k): np.where(answered, found & (first_answer <= k), np.nan) for k in at}


def accuracy(first_answer: np.ndarray, at: Sequence[int]) -> dict[str, float]:
    """Top-k accuracy of some questions, all of which have answers, by the ranks `first_answer` [q]."""
    return means(top_k_accuracy(first_answer, np.ones(len(first_answer), bool), at))


def gold_metrics(
    rankings: Mapping[str, Sequence[str]],
    gold: Mapping[str, Mapping[str, int]],
    at: Sequence[int],
    depth: int,
) -> Values:
    """Recall of the gold passages at each k and, where `depth` allows them, Recall@1000, MRR@10 and nDCG@10,
    by trec_eval.

    `rankings` gives each question's passage ids, best first; `gold` the grades (above 0) of its positives,
    and the order of the values. Only nDCG looks at grades: a passage's gain is its grade, its discount
    log2(rank + 1). A question with gold and without any result counts as 0, one without gold is nan.

    trec_eval sorts by score and breaks ties by document id, whatever rank a run states: it is given
    depth − rank, so that our order counts.
    """
    qrels = {qid: dict(grades) for qid, grades in gold.items() if grades}
    run = {
        qid: {name: float(depth - rank) for rank, name in enumerate(rankings.get(qid, ()))} for qid in qrels
    }
    recalls = {R @ k: metric_names.recall_at(k) for k in metric_names.recall_cuts(at, depth)}
    values = _by_question(recalls, qrels, run, list(gold))
    if depth >= metric_names.RANKING_CUT:
        # pytrec_eval knows no cut-off for the reciprocal rank: cut the run instead.
        cut = {qid: dict(list(scores.items())[: metric_names.RANKING_CUT]) for qid, scores in run.items()}
        measures = {RR: metric_names.MRR, nDCG @ metric_names.RANKING_CUT: metric_names.NDCG}
        values |= _by_question(measures, qrels, cut, list(gold))
    return values


def means(values: Values) -> dict[str, float]:
    """Each metric's mean over the questions that it judges; left out where there are none."""
    judged = {name: of[~np.isnan(of)] for name, of in values.items()}
    return {name: float(of.mean()) for name, of in judged.items() if len(of)}


def _by_question(
    measures: Mapping[ir_measures.Measure, str],
    qrels: dict[str, dict[str, int]],
    run: dict[str, dict[str, float]],
    qids: Sequence[str],
) -> Values:
    """`measures` are the metrics with our names for them; a question of `qrels` without results has 0."""
    number = {qid: row for row, qid in enumerate(qids)}
    start = np.array([0.0 if qid in qrels else np.nan for qid in qids])
    values = {name: start.copy() for name in measures.values()}
    if qrels:
        for metric in ir_measures.pytrec_eval.iter_calc(list(measures), qrels, run):
            values[measures[metric.measure]][number[metric.query_id]] = metric.value
    return values
