"""The step `refresh-report`: makes the page about a refresh."""

from __future__ import annotations

import json

from multiview import metric_names, names
from multiview.artifacts.record import Record, load_record
from multiview.config import JsonObject
from multiview.errors import counted
from multiview.evaluation.significance import CONFIDENCE
from multiview.evaluation.tables import metric_columns
from multiview.refresh.gate import TITLES, read_verdict
from multiview.refresh.gate_rules import Verdict
from multiview.report.page import environment_of_pages, write_page
from multiview.report.summary import size
from multiview.steps.context import StepContext

COUNTS = {
    "kept": "kept",
    "added": "new",
    "changed": "changed",
    "removed": "removed",
    "to_encode": "encoded",
    "passages": "passages now",
}
"""Facts about the changes of a corpus, and their names on the page."""


def refresh_report(context: StepContext) -> None:
    """Step: one self-contained HTML page about a refresh: the changes, the making of the index, and the verdict.

    Inputs: `promotion`, `verdict`, `changes` and `index`; output `report`: `report.html`.
    """
    promotion = json.loads((context.input("promotion").path / names.PROMOTION_FILE).read_text())
    changes, index = (load_record(context.recorded_input(name).address)[1] for name in ("changes", "index"))
    write_page(context, render(promotion, read_verdict(context.input("verdict").path), changes, index))


def render(promotion: JsonObject, verdict: Verdict, changes: Record, index: Record) -> str:
    """Returns the page as HTML. Facts that a record lacks are left out."""
    metrics = {"challenger": {name: metric.challenger for name, metric in verdict.metrics.items()}}
    return (
        environment_of_pages()
        .get_template("refresh.html")
        .render(
            outcome=TITLES[verdict.decision],
            verdict=verdict,
            promotion=promotion,
            metrics={name: verdict.metrics[name] for name in metric_columns(metrics)},
            confidence=CONFIDENCE,
            counts={called: changes.facts[name] for name, called in COUNTS.items() if name in changes.facts},
            whole=changes.facts.get("full"),
            rebuilt=index.facts.get("rebuilt"),
            drift={
                name: index.facts[name]
                for name in (metric_names.DRIFT_ADDED, metric_names.DRIFT_ERROR)
                if name in index.facts
            },
            index=f"{counted(index.facts['passages'], 'passage')}, {counted(index.facts['views'], 'view')}, "
            f"{size(sum(file.bytes for file in index.files))}",
        )
    )
