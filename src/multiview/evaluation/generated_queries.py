"""Metrics of the quality and diversity of generated queries (Dual Cross Encoder, section 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import regex

from multiview import metric_names

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

LEVELS = 5
"""Number of levels of diversity (Figure 4)."""

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")


class WordTokenizer:
    """Tokenizer into rouge-score's words (runs of letters and digits, lower-cased) for every alphabet, not only ASCII."""

    def tokenize(self, text: str) -> list[str]:
        return _WORD.findall(text.lower())


@cache
def _rouge() -> RougeScorer:
    from rouge_score.rouge_scorer import RougeScorer  # late: it takes seconds to import, as nltk does

    return RougeScorer(["rougeL"], tokenizer=WordTokenizer())


def rouge_l_by_number(question: str, queries: Sequence[str], max_queries: int) -> np.ndarray:
    """Returns the best ROUGE-L F1 of the first k queries, or of all where there are fewer, against the gold question, for
    k = 1 … `max_queries`, float64 [max_queries]; 0 without queries."""
    best = np.zeros(max_queries)
    for index, query in enumerate(queries[:max_queries]):
        best[index:] = np.maximum(best[index:], _rouge().score(question, query)["rougeL"].fmeasure)
    return best


def self_bleu(queries: Sequence[str]) -> float | None:
    """Returns self-BLEU-4 (Zhu et al., SIGIR 2018): the mean BLEU-4 of each query against the others; None below two queries.
    The smoothing is Texygen's: a count of zero counts as 0.1, so equal queries of three words do not reach 1."""
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
