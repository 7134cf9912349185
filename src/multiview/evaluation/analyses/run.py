"""All analyses of a model by name, and the files that they write into the evaluation artifact."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from multiview import names
from multiview.config import Analysis
from multiview.evaluation.analyses.analysis_input import (
    AnalysisInput,
    CaptionedTable,
    Findings,
    NotApplicable,
)
from multiview.evaluation.analyses.answer_view import answer_view
from multiview.evaluation.analyses.attention import attention
from multiview.evaluation.analyses.speed import speed
from multiview.evaluation.analyses.training_answers import training_answers
from multiview.evaluation.analyses.usage import cosine, usage
from multiview.evaluation.analyses.variation import variation
from multiview.evaluation.analyses.view_ranges import each_view, first_views
from multiview.evaluation.files import ANALYSES_PAGE_FILE, METRICS_FILE, analysis_table_file
from multiview.evaluation.tables import arrow_markdown

SHOWN_ROWS = 64
"""Tables with more rows, such as one row per question, are for programs only."""

ANALYSES: dict[Analysis, Callable[[AnalysisInput], Findings]] = {
    "each_view": each_view,
    "first_views": first_views,
    "answer_view": answer_view,
    "attention": attention,
    "variation": variation,
    "usage": usage,
    "cosine": cosine,
    "training_answers": training_answers,
    "speed": speed,
}


def analyse(folder: Path, given: AnalysisInput) -> None:
    """Runs `settings.analyses` and writes `analyses/metrics.json`, `tables.md` and `<table>.parquet` into `folder`.

    Reports the metrics of the whole model, and as facts the times and `analyses_left_out`, name to reason. Writes no folder
    where no analysis is set.
    """
    if not given.settings.analyses:
        return
    metrics: dict[str, float] = {}
    tables: dict[str, CaptionedTable] = {}
    left_out: dict[str, str] = {}
    analyses_folder = folder / names.ANALYSES
    analyses_folder.mkdir()
    for name, run in ANALYSES.items():
        if name not in given.settings.analyses:
            continue
        try:
            if not len(given.index):
                raise NotApplicable("the index has no passages")
            findings = run(given)
        except NotApplicable as reason:
            left_out[name] = str(reason)
            continue
        metrics |= findings.metrics
        tables |= findings.tables
    for name, table in tables.items():
        pq.write_table(table.rows, analyses_folder / analysis_table_file(name))
    (analyses_folder / METRICS_FILE).write_text(json.dumps(metrics, indent=1, sort_keys=True) + "\n")
    (analyses_folder / ANALYSES_PAGE_FILE).write_text(page(tables))
    for name, value in metrics.items():
        # In MLflow, hundreds of charts of views and groups would hide the few of the whole model.
        if "/" not in name:
            given.events.metric(name, value)
    if left_out:
        given.events.fact("analyses_left_out", left_out)


def page(tables: Mapping[str, CaptionedTable]) -> str:
    """Returns Markdown: each table under its name and its caption; of a long table, only its length and file."""
    parts = ["# Analyses\n"]
    for name, table in tables.items():
        file = f"{table.rows.num_rows} rows: `{analysis_table_file(name)}`\n"
        rows = file if table.rows.num_rows > SHOWN_ROWS else arrow_markdown(table.rows)
        parts.append(f"## {name}\n\n{table.caption}\n\n{rows}")
    return "\n".join(parts)
