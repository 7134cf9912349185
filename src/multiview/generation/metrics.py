"""How good and how different generated queries are (Dual Cross Encoder, section 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import regex
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_score.rouge_scorer import RougeScorer

from multiview.names import short

LEVELS = 5
"""Levels of diversity (Figure 4)."""

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_SMOOTHING = SmoothingFunction().method1


class Words:
    """rouge-score's own words (runs of letters and digits, lower-cased), in every alphabet and not in ASCII alone."""

    def tokenize(self, text: str) -> list[str]:
        return _WORD.findall(text.lower())


_ROUGE = RougeScorer(["rougeL"], tokenizer=Words())


def rouge_l_by_number(question: str, queries: Sequence[str], most: int) -> np.ndarray:
    """The best ROUGE-L F1 of the first k queries against the gold question, float64 [most], k = 1 … `most`.

    Where there are fewer than k queries it is the best of all; 0 when there are none.
    """
    best = np.zeros(most)
    for number, query in enumerate(queries[:most]):
        best[number:] = np.maximum(best[number:], _ROUGE.score(question, query)["rougeL"].fmeasure)
    return best


def self_bleu(queries: Sequence[str]) -> float | None:
    """Self-BLEU-4 (Zhu et al., SIGIR 2018): the mean BLEU-4 of each query against the others; none below two queries.

    Texygen's smoothing: a count of zero is taken for 0.1, so equal queries of three words do not reach 1.
    """
    if len(queries) < 2:
        return None
    words = [Words().tokenize(query) for query in queries]
    scores = [
        sentence_bleu([*words[:number], *words[number + 1 :]], own, smoothing_function=_SMOOTHING)
        for number, own in enumerate(words)
    ]
    return float(np.mean(scores))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Level:
    """The passages whose self-BLEU-4 lies in [start, stop), the last level's in [start, stop]."""

    start: float
    stop: float
    passages: int
    self_bleu_4: float | None
    """Their mean, none where there is no passage."""
    rouge_l: float | None
    """Mean over them of the best ROUGE-L of their queries (Figure 4c)."""


def diversity_levels(self_bleus: Sequence[float], rouge_l: Sequence[float]) -> list[Level]:
    """Passages by their self-BLEU-4, in five levels of equal width over [0, 1] (Figure 4).

    Width and not number is equal: Figure 4a shows how many passages each level has. `rouge_l` goes with them.
    """
    scores, quality = np.asarray(self_bleus, float), np.asarray(rouge_l, float)
    edges = np.linspace(0, 1, LEVELS + 1)
    of_level = np.digitize(scores, edges[1:-1])
    return [
        Level(
            round(float(edges[level]), 1),
            round(float(edges[level + 1]), 1),
            int((of_level == level).sum()),
            _mean(scores[of_level == level]),
            _mean(quality[of_level == level]),
        )
        for level in range(LEVELS)
    ]


def queries_table(
    rouge_by_k: Mapping[int, float], mrr_by_k: Mapping[int, float], levels: Sequence[Level]
) -> str:
    """Markdown, in per cent: quality by number of queries (Figure 2, Table 6), then by diversity (Figure 4).

    `mrr_by_k` is MRR@10 with that many queries a passage; a number that it lacks stays empty.
    """
    lines = [f"| queries | ROUGE-L | {short('mrr_at_10')} |", "|--------:|--------:|-------:|"]
    for k in sorted({*rouge_by_k, *mrr_by_k}):
        lines.append(f"| {k:>7} | {_cell(rouge_by_k.get(k)):>7} | {_cell(mrr_by_k.get(k)):>6} |")
    both = sorted({*rouge_by_k} & {*mrr_by_k})
    if len(both) > 2:
        correlation = np.corrcoef([rouge_by_k[k] for k in both], [mrr_by_k[k] for k in both])[0, 1]
        lines += ["", f"Pearson correlation of the two: {correlation:.4f}"]
    lines += [
        "",
        "| self-BLEU-4 | passages |  mean | ROUGE-L |",
        "|-------------|---------:|------:|--------:|",
    ]
    for level in levels:
        span = f"{level.start:.1f} to {level.stop:.1f}"
        mean, quality = _cell(level.self_bleu_4), _cell(level.rouge_l)
        lines.append(f"| {span:<11} | {level.passages:>8} | {mean:>5} | {quality:>7} |")
    return "\n".join(lines) + "\n"


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _cell(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"
