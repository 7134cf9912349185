"""How good and how different generated queries are (Dual Cross Encoder, section 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import regex

from multiview import metric_names

LEVELS = 5
"""Levels of diversity (Figure 4)."""

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")


class Words:
    """rouge-score's own words (runs of letters and digits, lower-cased), in every alphabet and not in ASCII alone."""

    def tokenize(self, text: str) -> list[str]:
        return _WORD.findall(text.lower())


@cache
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # which takes seconds, as nltk does

    return RougeScorer(["rougeL"], tokenizer=Words())


def rouge_l_by_number(question: str, queries: Sequence[str], most: int) -> np.ndarray:
    """The best ROUGE-L F1 of the first k queries against the gold question, float64 [most], k = 1 … `most`.

    Where there are fewer than k queries it is the best of all; 0 when there are none.
    """
    best = np.zeros(most)
    for number, query in enumerate(queries[:most]):
        best[number:] = np.maximum(best[number:], _rouge().score(question, query)["rougeL"].fmeasure)
    return best


def self_bleu(queries: Sequence[str]) -> float | None:
    """Self-BLEU-4 (Zhu et al., SIGIR 2018): the mean BLEU-4 of each query against the others; none below two queries.

    Texygen's smoothing: a count of zero is taken for 0.1, so equal queries of three words do not reach 1.
    """
    if len(queries) < 2:
        return None
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method1
    words = [Words().tokenize(query) for query in queries]
    scores = [
        sentence_bleu([*words[:number], *words[number + 1 :]], own, smoothing_function=smoothing)
        for number, own in enumerate(words)
    ]
    return float(np.mean(scores))  # type: ignore[arg-type]


def diversity_levels(
    self_bleus: Sequence[float], figures: Mapping[str, Sequence[float]]
) -> list[dict[str, Any]]:
    """Passages by their self-BLEU-4, in five levels of equal width over [0, 1] (Figure 4).

    Width and not number is equal: Figure 4a shows how many passages each level has. `figures` are by name what else
    is known of the passages, in the same order. A level, [start, stop) and the last one [start, stop], has `start`,
    `stop`, `passages`, `self_bleu_4` and the figures: means over its passages, none where it has none.
    """
    columns = {metric_names.SELF_BLEU: self_bleus, **figures}
    known = {name: np.asarray(values, float) for name, values in columns.items()}
    edges = np.linspace(0, 1, LEVELS + 1)
    of_level = np.digitize(known[metric_names.SELF_BLEU], edges[1:-1])
    levels = []
    for level in range(LEVELS):
        inside = of_level == level
        means = {
            name: float(values[inside].mean()) if inside.any() else None for name, values in known.items()
        }
        start, stop = round(float(edges[level]), 1), round(float(edges[level + 1]), 1)
        levels.append({"start": start, "stop": stop, "passages": int(inside.sum()), **means})
    return levels


def queries_table(rouge_by_k: Mapping[int, float], levels: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, in per cent: quality by number of queries (Table 6), then by diversity (Figure 4)."""
    lines = ["| queries | ROUGE-L |", "|--------:|--------:|"]
    lines += [f"| {k:>7} | {_cell(rouge_by_k[k]):>7} |" for k in sorted(rouge_by_k)]
    lines += [
        "",
        "| self-BLEU-4 | passages |  mean | ROUGE-L |",
        "|-------------|---------:|------:|--------:|",
    ]
    for level in levels:
        span = f"{level['start']:.1f} to {level['stop']:.1f}"
        mean, quality = _cell(level[metric_names.SELF_BLEU]), _cell(level[metric_names.ROUGE_L])
        lines.append(f"| {span:<11} | {level['passages']:>8} | {mean:>5} | {quality:>7} |")
    return "\n".join(lines) + "\n"


def _cell(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"
