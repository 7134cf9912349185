"""Metrics of ranked passages: DPR's top-k accuracy, trec_eval's metrics of the gold passages, and the run and qrels
files with which any other tool can check them.

A metric has one value per question, which the paired tests need; its figure is the mean of these values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from multiview import metric_names
from multiview.index.ranking import ALL_VIEWS
from multiview.index.stored_views import sampled_rows
from multiview.index.view_index import ViewIndex
from multiview.steps.events import Events

if TYPE_CHECKING:
    import ir_measures

Values = dict[str, np.ndarray]
"""Metric to its values per question [q] float64, NaN for questions that it does not judge."""

RECALL_CUTS = (10, 100)
"""The cut-offs k of an approximate index's recall."""

MEASURED = 200
"""The most questions whose recall is measured."""


def first_rank(hits: np.ndarray) -> np.ndarray:
    """Rank of each question's first hit [q] int64, from 1, 0 where there is no hit; `hits` [q, k] bool."""
    if not hits.shape[1]:
        return np.zeros(len(hits), np.int64)
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def top_k_accuracy(first_answer: np.ndarray, answered: np.ndarray, cuts: Sequence[int]) -> Values:
    """DPR's top-k accuracy at each k of `cuts`: 1 where the first passage that holds an answer has rank k or better,
    else 0. `first_answer` [q] has the ranks of these passages from 1, 0 for none; only `answered` [q] is judged."""
    retrieved = first_answer > 0
    return {
        metric_names.accuracy_at(k): np.where(answered, retrieved & (first_answer <= k), np.nan) for k in cuts
    }


def gold_metrics(
    rankings: Mapping[str, Sequence[str]],
    gold: Mapping[str, Mapping[str, int]],
    cuts: Sequence[int],
    depth: int,
) -> Values:
    """Recall of the gold passages at each k of `cuts` and, where `depth` allows them, Recall@1000, MRR@10 and nDCG@10.

    Computed by trec_eval. `rankings` gives each question's passage ids, best first; `gold` the grades (above 0) of its
    positives, and the order of the values. nDCG's gain is the grade, its discount log2(rank + 1). A question with gold
    passages but without results has 0, one without gold passages NaN. trec_eval ignores the ranks in a run: it is
    given depth − rank as scores, so that our order counts.
    """
    from ir_measures import RR, R, nDCG

    qrels = {qid: dict(grades) for qid, grades in gold.items() if grades}
    run = {
        qid: {name: float(depth - rank) for rank, name in enumerate(rankings.get(qid, ()))} for qid in qrels
    }
    recalls = {R @ k: metric_names.recall_at(k) for k in metric_names.recall_cuts(cuts, depth)}
    values = _by_question(recalls, qrels, run, list(gold))
    if depth >= metric_names.RANKING_CUT:
        # pytrec_eval has no cut-off for the reciprocal rank: the run is cut instead.
        cut = {qid: dict(list(scores.items())[: metric_names.RANKING_CUT]) for qid, scores in run.items()}
        measures = {RR: metric_names.MRR, nDCG @ metric_names.RANKING_CUT: metric_names.NDCG}
        values |= _by_question(measures, qrels, cut, list(gold))
    return values


def means(values: Values) -> dict[str, float]:
    """Mean of each metric over the questions that it judges; a metric that judges none is left out."""
    judged = {name: column[~np.isnan(column)] for name, column in values.items()}
    return {name: float(column.mean()) for name, column in judged.items() if len(column)}


def _by_question(
    measures: Mapping[ir_measures.Measure, str],
    qrels: dict[str, dict[str, int]],
    run: dict[str, dict[str, float]],
    qids: Sequence[str],
) -> Values:
    """Values per question of `measures`, metric to our name; a question of `qrels` without results has 0."""
    from ir_measures import pytrec_eval

    row_of = {qid: row for row, qid in enumerate(qids)}
    start = np.array([0.0 if qid in qrels else np.nan for qid in qids])
    values = {name: start.copy() for name in measures.values()}
    if qrels:
        for metric in pytrec_eval.iter_calc(list(measures), qrels, run):
            values[measures[metric.measure]][row_of[metric.query_id]] = metric.value
    return values


# --- TREC's files ---------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def quoted(name: str) -> str:
    """Returns an id as one word: percent-encoded if it contains white space or a percent sign; no id is empty."""
    return quote(name, safe="") if "%" in name or name.split() != [name] else name


def write_trec_run(
    path: Path, rankings: Mapping[str, Sequence[tuple[str, float]]], tag: str = "multiview"
) -> None:
    """Writes `qid Q0 passage rank score tag` lines; `rankings` holds (passage id, score) per question id, best first.
    Where scores tie, trec_eval's figures may differ from ours: it orders ties by id."""
    end = f" {quoted(tag)}\n"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for qid, ranking in rankings.items():
            start = f"{quoted(qid)} Q0 "
            scores = np.array([score for _, score in ranking], np.float32).tolist()
            file.writelines(
                f"{start}{quoted(name)} {rank} {score:.9g}{end}"
                for rank, ((name, _), score) in enumerate(zip(ranking, scores, strict=True), start=1)
            )


def write_qrels(path: Path, gold: Mapping[str, Mapping[str, int]]) -> None:
    """Writes `qid 0 passage grade` lines, one per gold passage."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for qid, grades in gold.items():
            file.writelines(f"{quoted(qid)} 0 {quoted(name)} {grade}\n" for name, grade in grades.items())


# --- recall of an approximate index, against a search that reads every stored view -----------------


def measure(index: ViewIndex, queries: np.ndarray, found: np.ndarray, events: Events) -> None:
    """Reports the recall of an approximate index on a sample of the questions: `found` [q, depth] are the passages that
    it found for `queries` [q, dim]."""
    sampled = sampled_rows(len(queries), MEASURED, index.header["seed"])
    if not len(sampled):
        return
    exact = index.search_views([ALL_VIEWS], queries[sampled], found.shape[1])[0].passages
    for k in RECALL_CUTS:
        if k <= found.shape[1]:
            events.metric(f"index_recall_at_{k}", passage_recall(found[sampled], exact, k))


def passage_recall(found: np.ndarray, exact: np.ndarray, k: int) -> float:
    """Mean share of the k passages of `exact` [q, ≥k] that are among the first k of `found`; -1 is padding."""
    found, exact = found[:, :k], exact[:, :k]
    real = exact >= 0
    hits = (exact[:, :, None] == found[:, None, :]).any(axis=2) & real
    return float((hits.sum(axis=1) / np.maximum(1, real.sum(axis=1))).mean())
