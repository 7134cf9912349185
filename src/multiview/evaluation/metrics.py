"""Figures of merit of ranked passages: DPR's top-k accuracy, and trec_eval's of the gold passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ir_measures
import numpy as np
from ir_measures import RR, R

from multiview.names import accuracy_at, mrr_at, recall_at

MRR_DEPTH = 10


def first_rank(hits: np.ndarray) -> np.ndarray:
    """Rank, from 1, of each question's first hit [q] int64, 0 where there is none; `hits` [q, k] bool."""
    if not hits.shape[1]:
        return np.zeros(len(hits), np.int64)
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def top_k_accuracy(first_answer: np.ndarray, at: Sequence[int]) -> dict[str, float]:
    """DPR's rule: the share of questions whose first answer-holding passage has rank k or better.

    `first_answer` [q] are ranks from 1, 0 for none. Empty without questions.
    """
    if not len(first_answer):
        return {}
    found = first_answer > 0
    return {accuracy_at(k): float((found & (first_answer <= k)).mean()) for k in at}


def gold_metrics(
    rankings: Mapping[str, Sequence[str]], gold: Mapping[str, Sequence[str]], at: Sequence[int], depth: int
) -> dict[str, float]:
    """Recall at each k and, where `depth` allows it, MRR@10 of the gold passages, by trec_eval.

    `rankings` gives each question's passage ids, best first; `gold` its positives. Means are over the
    questions that have a gold passage; one without any result counts as 0. Empty when none has gold.

    trec_eval sorts by score and breaks ties by document id, whatever rank a run states: it is given
    depth − rank, so that our order counts.
    """
    qrels = {qid: dict.fromkeys(ids, 1) for qid, ids in gold.items() if ids}
    if not qrels:
        return {}
    run = {
        qid: {name: float(depth - rank) for rank, name in enumerate(rankings.get(qid, ()))} for qid in qrels
    }
    recalls = {R @ k: recall_at(k) for k in at}
    values = _means(list(recalls), qrels, run)
    metrics = {name: values[measure] for measure, name in recalls.items()}
    if depth >= MRR_DEPTH:
        # pytrec_eval knows no cut-off for the reciprocal rank: cut the run instead.
        cut = {qid: dict(list(scores.items())[:MRR_DEPTH]) for qid, scores in run.items()}
        metrics[mrr_at(MRR_DEPTH)] = _means([RR], qrels, cut)[RR]
    return metrics


def _means(measures: list, qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> dict:
    """Means over the questions of `qrels`; a question without results counts as 0."""
    totals = dict.fromkeys(measures, 0.0)
    for metric in ir_measures.pytrec_eval.iter_calc(measures, qrels, run):
        totals[metric.measure] += metric.value
    return {measure: total / len(qrels) for measure, total in totals.items()}
