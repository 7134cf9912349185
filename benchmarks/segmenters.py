"""BM25 over Chinese and Japanese: our pairs of letters beside segmenters' words (docs/data.md).

    pip install jieba fugashi unidic-lite
    python -m benchmarks.segmenters chinese DRCD_dev.json

Reads files in SQuAD's format: each paragraph is a passage without a title, with its questions. Everything but the
terms is the same; the segmenter cuts runs of letters (jieba for Chinese, MeCab with UniDic for Japanese).
"""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal
from unittest.mock import patch

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.squad import split_into
from multiview import metric_names
from multiview.config import Bm25, Config
from multiview.data import cjk
from multiview.data.passages import read_passages
from multiview.data.questions import read_questions
from multiview.evaluation.metrics import gold_metrics, means
from multiview.index.bm25 import Bm25Index

Language = Literal["chinese", "japanese"]
DEPTH = 20
METRICS = (*map(metric_names.recall_at, (1, 5, 20)), metric_names.MRR)


def segmenter(language: Language) -> Callable[[str], Sequence[str]]:
    """Returns the function that cuts a run of letters into words."""
    if language == "chinese":
        return import_module("jieba").lcut
    tagger = import_module("fugashi").Tagger()
    return lambda run: [word.surface for word in tagger(run)]


def figures(
    passages: Path, questions: Path, language: Language, cut: Callable[[str], Sequence[str]]
) -> dict[str, float]:
    """BM25's figures if `cut` makes the terms of runs of letters."""

    def terms(text: str, word: re.Pattern[str]) -> list[str]:
        runs = cjk.RUN.findall(unicodedata.normalize("NFKC", text).lower())
        return [term for run in runs for term in (cut if cjk.LETTER.match(run) else word.findall)(run)]

    asked = read_questions(questions)
    with patch.object(cjk, "terms", terms):
        index = Bm25Index.of(read_passages(passages), Bm25(), language)
        found = index.search([question.question for question in asked], DEPTH).passages
    ids = np.array([*index.ids.to_pylist(), ""])
    rankings = {
        question.qid: [id_ for id_ in ids[rows] if id_] for question, rows in zip(asked, found, strict=True)
    }
    gold = {question.qid: dict.fromkeys(question.positive_ids, 1) for question in asked}
    return means(gold_metrics(rankings, gold, (1, 5, 20), DEPTH))


def main(
    language: Annotated[Language, typer.Argument(help="Language of the files.")],
    files: Annotated[list[str], typer.Argument(help="Files of SQuAD's form.")],
) -> None:
    """Prints a table, per cent."""
    overrides = {
        "corpus": {"language": language, "source": files},
        "questions": {"source": files, "dev_source": files},
    }
    table = Table("terms", *METRICS)
    with tempfile.TemporaryDirectory() as folder:
        outputs = split_into(Path(folder), Config.partial(overrides))
        for name, cut in (("pairs of letters", cjk.bigrams), ("segmenter", segmenter(language))):
            found = figures(outputs["passages"], outputs["dev_questions"], language, cut)
            table.add_row(name, *(f"{100 * found[metric]:.1f}" for metric in METRICS))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
