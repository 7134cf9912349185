"""Which views find the passages: each view alone, as if it were the passage's only vector (CAMVR Tables 2, 7); the
first k for every k, which for the Dual Cross Encoder is the number of queries; and the one that wins among all."""

import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import regex

from multiview import metric_names
from multiview.data.queries import distinct
from multiview.evaluation.analyses.analysis_input import (
    AnalysisInput,
    Findings,
    Table,
    leading_views,
    single_views,
)
from multiview.evaluation.metrics import first_rank
from multiview.index.ranking import ALL_VIEWS

LEVELS = 5
"""Number of levels of diversity (Dual Cross Encoder, Figure 4)."""

_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"
_WORD = regex.compile(rf"(?=[{_SPACELESS}])\X|[[\p{{L}}\p{{N}}\p{{M}}]--[{_SPACELESS}]]+", regex.VERSION1)


def each_view(given: AnalysisInput) -> Findings:
    """Table `each_view`: view (from 1), the number and the share of passages that have it, whether padding views are
    among them, and accuracy and gold recall; the last row, with view null, is the whole index. Metrics as
    `recall_at_5/view_1`.
    """
    most = given.ordered_views()
    padding = any(view.padding for views in given.sampled_views for view in views)
    rankings = [given.rankings[each] for each in (*single_views(most), ALL_VIEWS)]
    rows: list[dict[str, float | None]] = []
    metrics: dict[str, float] = {}
    for view, ranking in enumerate(rankings):
        figures = given.accuracy(ranking.holds) | gold_recall(ranking.gold, given)
        alone = view < most
        has = given.index.view_counts > (view if alone else 0)
        about = {"view": view + 1 if alone else None, "passages": int(has.sum())}
        share = {metric_names.SHARE_OF_PASSAGES: given.shares_with_view[view if alone else 0]}
        rows.append({**about, **share, "padding_views": padding, **figures})
        if alone:
            figures |= share
            metrics |= {metric_names.of_view(view, name): value for name, value in figures.items()}
    caption = (
        "Accuracy of each view alone, and recall of the gold passages. Passages without such a view are not retrieved: "
        "share_of_passages have it."
    )
    return Findings(metrics, {"each_view": Table(caption, pa.Table.from_pylist(rows))})


def gold_recall(hits: np.ndarray, given: AnalysisInput) -> dict[str, float]:
    """Mean recall of the gold passages in the top k, over the questions with any; `hits` [q, depth] bool: is gold."""
    gold = np.array([len(set(question.positive_ids)) for question in given.questions])
    judged = gold > 0
    if not judged.any():
        return {}
    recall = hits[judged].cumsum(axis=1) / gold[judged, None]
    last = recall.shape[1]  # a small corpus has fewer passages than are asked for
    return {metric_names.recall_at(k): float(recall[:, min(k, last) - 1].mean()) for k in given.cuts}


def first_views(given: AnalysisInput) -> Findings:
    """Table `first_views`: views (k), accuracy, gold recall and MRR@10; with metrics such as `mrr_at_10/first_3_views`.

    Where passages were read with generated queries, each distinct query has a view, and the table also has the best
    ROUGE-L of the first k views' queries (Dual Cross Encoder 5.1, Figure 2). The Pearson correlation of ROUGE-L and
    MRR@10 over k is a metric (Figure 3), and table `query_diversity` has both by the self-BLEU-4 of the queries as
    drawn (section 5.2, Figure 4). Metrics `rouge_l`, of all queries, and `self_bleu_4`, the mean over these passages.
    """
    most = given.ordered_views()
    queries = given.index.queries(np.unique(given.gold[given.gold >= 0]).tolist())
    asked = np.array([row for row, gold in enumerate(given.gold.tolist()) if queries.get(gold)], np.int64)
    rouge = best_rouge(given, asked, queries, most)
    rows: list[dict[str, float]] = []
    metrics: dict[str, float] = {}
    for each in (*leading_views(most), ALL_VIEWS):
        k, ranking = each[1] or most, given.rankings[each]
        figures = given.accuracy(ranking.holds)
        figures |= gold_recall(ranking.gold, given) | mean_reciprocal_rank(ranking.gold, given)
        if rouge is not None:
            figures[metric_names.ROUGE_L] = float(rouge[:, k - 1].mean())
        rows.append({"views": k, **figures})
        metrics |= {metric_names.of_group(f"first_{k}_views", name): value for name, value in figures.items()}
    caption = "Accuracy, gold recall and MRR@10 by the first k views of each passage, for every k up to 16, and by all."
    tables = {"first_views": Table(caption, pa.Table.from_pylist(rows))}
    if rouge is not None:
        bleus = {row: bleu for row, drawn in queries.items() if (bleu := self_bleu(drawn)) is not None}
        metrics |= correlation(rows) | {metric_names.ROUGE_L: rows[-1][metric_names.ROUGE_L]}
        if bleus:
            metrics[metric_names.SELF_BLEU] = float(np.mean(list(bleus.values())))
        tables["query_diversity"] = by_diversity(given, asked, bleus, rouge[:, -1])
    return Findings(metrics, tables)


def reciprocal_ranks(hits: np.ndarray) -> np.ndarray:
    """Reciprocal rank of each question's first gold passage [q], 0 beyond rank 10; `hits` [q, depth] bool: is gold."""
    ranks = first_rank(hits[:, : metric_names.RANKING_CUT])
    return np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0.0)


def mean_reciprocal_rank(hits: np.ndarray, given: AnalysisInput) -> dict[str, float]:
    """MRR@10 over the questions that have gold passages; empty without such questions, or with a depth below 10."""
    judged = np.array([bool(question.positive_ids) for question in given.questions])
    if not judged.any() or given.settings.depth < metric_names.RANKING_CUT:
        return {}
    return {metric_names.MRR: float(reciprocal_ranks(hits[judged]).mean())}


def best_rouge(
    given: AnalysisInput, asked: np.ndarray, queries: dict[int, tuple[str, ...]], most: int
) -> np.ndarray | None:
    """Best ROUGE-L of the first k distinct queries of the gold passages of the questions `asked`, for k up to `most`
    [asked, most]; None if `asked` is empty."""
    if not len(asked):
        return None
    pairs = ((given.questions[row].question, queries[int(given.gold[row])]) for row in asked)
    return np.stack([rouge_l_by_number(question, distinct(generated), most) for question, generated in pairs])


def correlation(rows: list[dict[str, float]]) -> dict[str, float]:
    """Pearson correlation of ROUGE-L and MRR@10 over the numbers of queries; empty where either does not vary."""
    if len(rows) < 3 or metric_names.MRR not in rows[0]:
        return {}
    both = np.array([[row[name] for row in rows] for name in (metric_names.ROUGE_L, metric_names.MRR)])
    if not np.ptp(both, axis=1).all():
        return {}
    return {"rouge_l_mrr_correlation": float(np.corrcoef(both)[0, 1])}


def by_diversity(
    given: AnalysisInput, asked: np.ndarray, bleus: dict[int, float], rouge: np.ndarray
) -> Table:
    """Gold passages by the self-BLEU-4 of their queries, `bleus`; a passage with one query has none, and no level.
    ROUGE-L and the whole index's MRR@10 of a passage are means over its questions."""
    mrr = reciprocal_ranks(given.ranking.gold)[asked]
    members = [given.gold[asked] == row for row in bleus]
    figures = {
        metric_names.ROUGE_L: [rouge[questions].mean() for questions in members],
        metric_names.MRR: [mrr[questions].mean() for questions in members],
    }
    levels = pa.Table.from_pylist(diversity_levels(list(bleus.values()), figures))
    caption = (
        "Gold passages in five levels of their queries' self-BLEU-4: ROUGE-L, and the whole index's MRR@10."
    )
    return Table(caption, levels)


def usage(given: AnalysisInput) -> Findings:
    """Table `usage`: view (from 1); share_of_passages that have it; top_1 and gold, the numbers of questions;
    share_of_top_1 and share_of_gold. The shares are metrics.
    """
    views = given.ordered_views()
    first = given.top.winning_views[:, 0]
    top_1 = np.bincount(first[first >= 0], minlength=views)
    gold = np.bincount(gold_winners(given), minlength=views)
    columns: dict[str, np.ndarray] = {
        "view": np.arange(1, views + 1),
        metric_names.SHARE_OF_PASSAGES: np.array(given.shares_with_view),
        "top_1": top_1,
        "gold": gold,
    }
    metrics: dict[str, float] = {}
    for name, count in ((metric_names.SHARE_OF_TOP_1, top_1), (metric_names.SHARE_OF_GOLD, gold)):
        if count.sum():
            columns[name] = count / count.sum()
            for view, share in enumerate(columns[name]):
                metrics[metric_names.of_view(view, name)] = float(share)
    caption = (
        "The view-usage histogram: which view wins in the first passage retrieved, and in the gold passage."
    )
    return Findings(metrics, {"usage": Table(caption, pa.table(columns))})


def gold_winners(given: AnalysisInput) -> np.ndarray:
    """The view, from 0, that scores best in the gold passage of each question that has one with views in the index."""
    _, winners = given.index.pair_scores(given.queries, np.arange(len(given.gold)), given.gold)
    return winners[winners >= 0]


# --- the quality and diversity of generated queries (Dual Cross Encoder, section 5) -------------------


class WordTokenizer:
    """Tokenizer into lower-cased runs of letters and digits: rouge-score's, for every alphabet and not only ASCII. Each
    letter of a script without spaces, such as Chinese or Thai, counts as a word."""

    def tokenize(self, text: str) -> list[str]:
        return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def rouge_l_by_number(question: str, queries: Sequence[str], max_queries: int) -> np.ndarray:
    """Returns the best ROUGE-L F1 of the first k queries, or of all where there are fewer, against the gold question,
    for k = 1 … `max_queries`, float64 [max_queries]; 0 without queries."""
    from rouge_score.rouge_scorer import RougeScorer  # late: it takes seconds to import, as nltk does

    best, scorer = np.zeros(max_queries), RougeScorer(["rougeL"], tokenizer=WordTokenizer())
    for index, query in enumerate(queries[:max_queries]):
        best[index:] = np.maximum(best[index:], scorer.score(question, query)["rougeL"].fmeasure)
    return best


def self_bleu(queries: Sequence[str]) -> float | None:
    """Returns self-BLEU-4 (Zhu et al., SIGIR 2018): the mean BLEU-4 of each query against the others; None below two
    queries. The smoothing is Texygen's: a count of zero counts as 0.1, so equal queries of three words stay below 1."""
    if len(queries) < 2:
        return None
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method1
    words = [WordTokenizer().tokenize(query) for query in queries]
    scores = [
        sentence_bleu(words[:i] + words[i + 1 :], query, smoothing_function=smoothing)
        for i, query in enumerate(words)
    ]
    return float(np.mean(scores))


def diversity_levels(
    self_bleus: Sequence[float], figures: Mapping[str, Sequence[float]]
) -> list[dict[str, float | None]]:
    """Returns the passages grouped by self-BLEU-4, in five levels of equal width over [0, 1] (Figure 4).

    `figures` are further values per passage, by name, in the order of `self_bleus`. A level covers [start, stop), the
    last one [start, stop]. It has `start`, `stop`, `passages`, and means over its passages of `self_bleu_4` and the
    figures, None without passages.
    """
    columns = {metric_names.SELF_BLEU: self_bleus, **figures}
    arrays = {name: np.asarray(values, float) for name, values in columns.items()}
    edges = np.linspace(0, 1, LEVELS + 1)
    passage_levels = np.digitize(arrays[metric_names.SELF_BLEU], edges[1:-1])
    levels = []
    for level in range(LEVELS):
        inside = passage_levels == level
        means = {
            name: float(values[inside].mean()) if inside.any() else None for name, values in arrays.items()
        }
        start, stop = round(float(edges[level]), 1), round(float(edges[level + 1]), 1)
        levels.append({"start": start, "stop": stop, "passages": int(inside.sum()), **means})
    return levels
