"""Rankings of several retrievers fused into one, such as BM25's and a dense retriever's."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from multiview.data.questions import read_questions
from multiview.evaluation.evaluate import write_evaluation
from multiview.evaluation.files import RUN_FILE
from multiview.evaluation.metrics import read_trec_run
from multiview.index.ranking import TopPassages
from multiview.steps.context import StepContext

FUSION_CONSTANT = 60
"""k of reciprocal rank fusion: Σ 1 / (k + rank)."""

Ranking = Sequence[tuple[str, float]]
"""(passage id, score), best first."""


def reciprocal_rank_fusion(rankings: Sequence[Ranking], constant: int, depth: int) -> Ranking:
    """Returns one question's passages with their scores Σ 1 / (constant + rank) over the rankings that contain them.

    Cormack, Clarke and Büttcher, SIGIR 2009. Ranks count from 1, the retrievers' scores are ignored, and of passages
    that tie the one with the smaller id comes first. Returns at most `depth` passages, best first.
    """
    terms: dict[str, list[float]] = defaultdict(list)
    for ranking in rankings:
        for rank, (name, _) in enumerate(ranking, start=1):
            terms[name].append(1 / (constant + rank))
    # fsum: passages with the same terms in another order tie.
    scores = {name: math.fsum(parts) for name, parts in terms.items()}
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:depth]


def evaluate_fusion(context: StepContext) -> None:
    """Step: fuse the runs of several evaluations of the same questions and measure the result.

    Inputs `evaluations` (a list), `passages`, `questions`; output `evaluation` (see `write_evaluation`).
    """
    questions = read_questions(context.input("questions").path)
    runs = [read_trec_run(staged.path / RUN_FILE) for staged in context.list_input("evaluations")]
    depth = context.settings.evaluation.depth
    fused = {
        question.qid: reciprocal_rank_fusion(
            [run.get(question.qid, ()) for run in runs], FUSION_CONSTANT, depth
        )
        for question in questions
    }
    ids, top = _as_top_passages(fused)
    write_evaluation(context, top, ids, questions, tag="fusion")


def _as_top_passages(rankings: Mapping[str, Ranking]) -> tuple[pa.Array, TopPassages]:
    """Returns the ids that occur in the rankings, and the rankings as `TopPassages` with rows of these ids."""
    ids = sorted({name for ranking in rankings.values() for name, _ in ranking})
    row_of = {name: row for row, name in enumerate(ids)}
    top = TopPassages.empty(len(rankings), max(1, *map(len, rankings.values())))
    for question, ranking in enumerate(rankings.values()):
        top.passages[question, : len(ranking)] = [row_of[name] for name, _ in ranking]
        top.scores[question, : len(ranking)] = np.array([score for _, score in ranking], np.float32)
        top.winning_views[question, : len(ranking)] = 0
    return pa.array(ids, pa.string()), top
