"""The files of an evaluation, of its analyses and of a comparison, and the figures that Kubeflow's pages show of them."""

import json
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq

from multiview import metric_names
from multiview.artifacts.record import Record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.config import JsonObject

METRICS_FILE = "metrics.json"
"""Metrics of an evaluation or of its analyses by name; those of a comparison by system and name."""

# Of an evaluation.
RUN_FILE = "run.trec"
QRELS_FILE = "qrels.trec"
QUESTIONS_FILE = "questions.parquet"

# Of a comparison.
TABLE_FILE = "table.md"
SIGNIFICANCE_FILE = "significance.json"
"""How the systems were tested against the baseline; the marks of the table come from it."""
SEEDS_FILE = "seeds.json"
SEEDS_TABLE_FILE = "seeds.md"
ANALYSES_FILE = "analyses.json"
ANALYSES_TABLE_FILE = "analyses.md"
PAPER_FILE = "paper.json"
"""Row to a `PaperFigures`, of a study whose rows a paper has; in per cent, as printed."""
SETTINGS_FILE = "settings.json"
WON_FILE = "won.json"

# In the folder of an evaluation's analyses.
ANALYSES_PAGE_FILE = "tables.md"


def write_json(file: Path, value: object) -> None:
    """Writes a value as JSON in UTF-8; dataclasses become objects."""
    content = json.dumps(value, indent=1, ensure_ascii=False, default=asdict)
    file.write_text(f"{content}\n", encoding="utf-8")


def question_ids(evaluation: Path) -> list[str]:
    """Returns the ids of the questions of an evaluation, in order."""
    return pq.read_table(evaluation / QUESTIONS_FILE, columns=["qid"])["qid"].to_pylist()


def of_evaluation(store: Store, record: Record) -> dict[str, float]:
    """Returns top-k accuracy and MRR, as far as they were measured."""
    return metric_names.figures(metrics_of(store, record))


def of_comparison(store: Store, record: Record) -> dict[str, float]:
    """Returns the figures of each row, as in `accuracy_at_20/camvr`."""
    return {
        metric_names.of_group(row, name): value
        for row, metrics in metrics_of(store, record).items()
        for name, value in metric_names.figures(metrics).items()
    }


def metrics_of(store: Store, record: Record) -> JsonObject:
    """Returns all metrics of an evaluation by name, or those of a comparison by row and name."""
    return json.loads((stage(store, record, METRICS_FILE).path / METRICS_FILE).read_bytes())
