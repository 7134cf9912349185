"""Names of metrics, and the metrics of an evaluation. One with several values is named METRIC/GROUP: see `of_group`."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

Value = TypeVar("Value")

RANKING_CUT = 10
"""k of MRR and nDCG (MS MARCO and TREC DL; Dual Cross Encoder 4)."""

DEEP_RECALL_CUT = 1000
"""k of the recall that is measured if the depth allows it (Dual Cross Encoder 4)."""

ACCURACY_PREFIX = "accuracy_at_"

MRR = f"mrr_at_{RANKING_CUT}"
"""Reciprocal rank of the first gold passage, 0 beyond rank 10."""

NDCG = f"ndcg_at_{RANKING_CUT}"
"""trec_eval's nDCG of the top 10 by the gold passages' grades."""

DRIFT_ADDED = "drift_added"
"""Share of a trained index's views that were added after its training."""

DRIFT_ERROR = "drift_error"
"""Mean squared error of the added views in the index, as a multiple of the other views' error."""

AVERAGE_RANK = "average_rank"
"""Mean rank of the first gold passage, in a validation (DPR)."""

SHARE_OF_PASSAGES = "share_of_passages"
"""Share of the index's passages that have a view, padding views among them where the index holds these."""

SHARE_OF_TOP_1 = "share_of_top_1"
SHARE_OF_GOLD = "share_of_gold"
VIEW_COSINE = "view_cosine"

ROUGE_L = "rouge_l"
"""Best ROUGE-L between a question and all queries generated for its gold passage (Dual Cross Encoder 5.1)."""

SELF_BLEU = "self_bleu_4"
"""Similarity of the queries of a passage, as drawn, to each other (Zhu et al. 2018; Dual Cross Encoder 5.2); a high
value means little diversity."""

SHORT = {"accuracy": "acc", "recall": "gold", "mrr": "MRR", "ndcg": "nDCG"}
"""Stems of retrieval metrics, the part before `_at_`, with their short forms."""


def accuracy_at(k: int) -> str:
    """Share of questions with an answer-holding passage among the top k (DPR; R@k in the papers)."""
    return f"{ACCURACY_PREFIX}{k}"


def recall_at(k: int) -> str:
    """Share of a question's gold passages among the top k."""
    return f"recall_at_{k}"


def of_view(view: int, metric: str) -> str:
    """`metric` of one view, which is counted from 0 and named from 1: `accuracy_at_5/view_1` (CAMVR Tables 2, 7)."""
    return of_group(f"view_{view + 1}", metric)


def of_validation(metric: str) -> str:
    """`metric` of a training's held-out questions, by training step: `validation_mrr_at_10`."""
    return f"validation_{metric}"


def view_wins(view: int) -> str:
    """Share of questions whose positive passage scores by this view in training; counted from 0, named from 1."""
    return f"view_{view + 1}_wins"


def of_group(group: str, metric: str) -> str:
    """`metric` of one group: a system (`accuracy_at_5/camvr`), a subset of the questions or another ranking
    (`accuracy_at_5/answer_view`). MLflow draws the groups of one metric side by side."""
    return f"{metric}/{group}"


def short(metric: str) -> str:
    """Returns a metric's name for a narrow table: `accuracy_at_5` is `acc@5`, `recall_at_5` `gold@5`, `mrr_at_10` `MRR@10`."""
    stem, at, k = metric.rpartition("_at_")
    return f"{SHORT.get(stem, stem)}@{k}" if at else metric


def accuracy_cuts(cuts: Iterable[int], depth: int) -> list[int]:
    """Returns the k of top-k accuracy: the `cuts` that the retrieved depth allows, in ascending order."""
    return sorted({k for k in cuts if k <= depth})


def recall_cuts(cuts: Iterable[int], depth: int) -> list[int]:
    """Returns the k of gold recall: the k of top-k accuracy, and `DEEP_RECALL_CUT` if the depth allows it."""
    return accuracy_cuts({*cuts, DEEP_RECALL_CUT}, depth)


def evaluation_metrics(cuts: Iterable[int], depth: int) -> list[str]:
    """Returns every metric that an evaluation of these cuts and this depth can have; needs no measurement."""
    cuts = list(cuts)
    return [
        *map(accuracy_at, accuracy_cuts(cuts, depth)),
        *map(recall_at, recall_cuts(cuts, depth)),
        *((MRR, NDCG) if depth >= RANKING_CUT else ()),
    ]


def figures(metrics: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the main metrics of a ranking, as far as they are given: accuracy at 1, 5, 20 and 100, and MRR."""
    return {name: metrics[name] for name in (*map(accuracy_at, (1, 5, 20, 100)), MRR) if name in metrics}
