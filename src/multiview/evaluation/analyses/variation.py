"""Local variation and perplexity of the views of a passage (MVR 5.2, Eq. 9-10, Table 6)."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from scipy.special import entr, softmax

from multiview.data.questions import seeded_hash
from multiview.evaluation.analyses.analysis_input import SEED, AnalysisInput, Findings, NotApplicable, Table
from multiview.model.layouts.base import TokenSequence


def local_variation(scores: np.ndarray) -> float:
    """LV of one question and passage: the best of two or more `scores` [views] minus the mean of the others (Eq. 9)."""
    scores = np.asarray(scores, np.float64)
    best = scores.max()
    return float(best - (scores.sum() - best) / (len(scores) - 1))


def cosines(query: np.ndarray, views: np.ndarray) -> np.ndarray:
    """Cosine of a question [dim] with each view [views, dim], in float64; 0 for a vector of zeros."""
    query, views = np.asarray(query, np.float64), np.asarray(views, np.float64)
    lengths = np.linalg.norm(query) * np.linalg.norm(views, axis=1)
    return np.divide(views @ query, lengths, out=np.zeros(len(views)), where=lengths > 0)


def perplexity(winners: Iterable[int]) -> float:
    """PPL of one passage: exp of the entropy of which view wins, over its questions (Eq. 10)."""
    _, counts = np.unique(np.fromiter(winners, np.int64), return_counts=True)
    return float(np.exp(entr(counts / counts.sum()).sum()))


PAIRS = 1500
"""Approximate number of random (question, gold passage) pairs, as passages are taken whole (MVR 5.2)."""


def variation(given: AnalysisInput) -> Findings:
    """Table `variation`, with one row per pair, and the means of LV and PPL as metrics.

    Scores come from fresh float32 encodings. Padding views are left out throughout (ours for PPL). LV also leaves out
    passages with fewer than two real views; the PPL of a passage with one real view is 1. The paper's "normalised
    scores" is ambiguous: `lv_cosine` uses cosines, `lv_softmax` the softmax over the views at temperature 1. PPL rises
    with the number of questions per passage: compare it only where `view_ppl_questions_per_passage` is the same.
    """
    given.check_several_views()
    pairs = sampled_pairs(given.gold, PAIRS, SEED)
    if not len(pairs):
        raise NotApplicable("no question has a gold passage in the index")
    encoded = given.queries[pairs]
    if given.encode.compute != "float32":
        encoded = given.encoder.question_vectors([given.questions[row].question for row in pairs.tolist()])
    views_of = _real_views(given, given.gold[pairs])
    rows = []
    winners: dict[str, list[int]] = {}
    for question, vector in zip(pairs.tolist(), encoded, strict=True):
        numbers, views = views_of[int(given.gold[question])]
        if not numbers:
            continue
        passage = given.index.passage_id(int(given.gold[question]))
        scores = views.astype(np.float64) @ vector
        view = numbers[scores.argmax()] + 1
        winners.setdefault(passage, []).append(view)
        if len(views) > 1:
            rows.append(
                {
                    "qid": given.questions[question].qid,
                    "passage_id": passage,
                    "views": len(views),
                    "view": view,
                    "lv_cosine": local_variation(cosines(vector, views)),
                    "lv_softmax": local_variation(softmax(scores)),
                }
            )
    if not rows:
        raise NotApplicable("no gold passage has two views besides padding")
    rows.sort(key=lambda row: (row["passage_id"], row["qid"]))
    metrics = {name: float(np.mean([row[name] for row in rows])) for name in ("lv_cosine", "lv_softmax")}
    if several := [views for _, views in sorted(winners.items()) if len(views) > 1]:
        metrics["view_ppl"] = float(np.mean([perplexity(views) for views in several]))
        metrics["view_ppl_questions_per_passage"] = float(np.mean([len(views) for views in several]))
    caption = "LV of (question, gold passage) pairs, and PPL over the passages with two questions or more."
    return Findings(metrics, {"variation": Table(caption, pa.Table.from_pylist(rows))})


def sampled_pairs(gold: np.ndarray, limit: int, seed: int) -> np.ndarray:
    """Rows of questions with a gold passage, in rising order: a random sample by `seed` of about `limit` questions, of
    whole passages, since PPL needs all their questions. `gold` [q] are the rows of the gold passages, -1 for none."""
    rows = np.flatnonzero(gold >= 0)
    passages, counts = np.unique(gold[rows], return_counts=True)
    order = sorted(range(len(passages)), key=lambda i: seeded_hash(seed, str(passages[i])))
    before = np.cumsum(counts[order]) - counts[order]
    chosen = passages[order][before < limit]
    return rows[np.isin(gold[rows], chosen)]


def _real_views(given: AnalysisInput, passage_rows: np.ndarray) -> dict[int, tuple[list[int], np.ndarray]]:
    """Encodes passages; returns, by row, the numbers from 0 of a passage's real views, and these views [views, dim]."""
    found: dict[int, dict[int, np.ndarray]] = {}

    def sequences() -> Iterator[tuple[TokenSequence, tuple[int, int]]]:
        for indexed in given.indexed_passages.read(passage_rows):
            first, found[indexed.row] = 0, {}
            for sequence in indexed.sequences:
                yield sequence, (indexed.row, first)
                first += len(sequence.views)

    for sequence, (row, first), vectors in given.encoder.passages(sequences()):
        found[row] |= {first + i: vectors[i] for i, view in enumerate(sequence.views) if not view.padding}
    return {row: (sorted(views), np.array([views[i] for i in sorted(views)])) for row, views in found.items()}
