"""Tags of MLflow's experiment: its description, and a view of its systems with charts that open by themselves.

MLflow's button *Share* stores a view of an experiment as a tag, which an address with the view's name opens. Here the
tag is written without the button. A server that knows no such view shows the experiment without it.
"""

from __future__ import annotations

import base64
import json
import zlib

from multiview import metric_names, names
from multiview.tracking.tags import SYSTEM

VIEW = "systems"
"""The name of the view."""

VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"

COLUMNS = (
    "tags.`architecture`",
    "tags.`corpus`",
    "params.`model.views`",
    "params.`train.positive`",
    "params.`train.learning_rate`",
    "params.`train.rounds`",
    *(f"metrics.`{metric}`" for metric in (*map(metric_names.accuracy_at, (1, 5, 20)), metric_names.MRR)),
)
"""Columns of the table beside MLflow's own."""

CHARTED = (
    *map(metric_names.accuracy_at, (1, 5, 20, 100)),
    metric_names.MRR,
    metric_names.recall_at(5),
    "index_bytes",
    "compute_seconds",
)
"""Metrics with a bar chart each, in this order; one that no system has is hidden."""

CURVES = tuple(
    map(
        metric_names.of_validation,
        (metric_names.recall_at(1), metric_names.MRR, metric_names.AVERAGE_RANK, metric_names.VIEW_COSINE),
    )
)
"""Metrics of a training with a chart of curves each."""

ROUNDS = 3
"""Rounds of training whose curves are charted: `snippet-means` and the papers have two."""

VIEWS = 12
"""Views whose shares are charted, as many as in the papers' largest models."""


def experiment_tags(experiment: str) -> dict[str, str]:
    """Returns the tags of the MLflow experiment with an id."""
    return {
        # Lists of experiments show it as one of trainings; a person who opens it still chooses "Model training".
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.note.content": f"""A run of a pipeline holds its systems, and a system its steps. [Systems side by side]\
({charts_address(experiment)}): what differs, and what came of it.

| to see | filter by |
|---|---|
| runs of a pipeline | ``tags.`multiview.pipeline` = 'comparison'`` |
| systems side by side, to compare | ``tags.`{names.TAG_LEVEL}` = '{SYSTEM}'`` |
| trainings side by side, as charts | ``tags.`multiview.step` = 'train' and tags.architecture = 'camvr'`` |
| refreshes that were refused | `tags.decision = 'refuse'` |
| everything done with a corpus | `tags.corpus = 'passages.parquet@4c1fb96f'` |
""",
        VIEW_TAG: _compressed(json.dumps(_view(), separators=(",", ":"))),
    }


def _compressed(text: str) -> str:
    """Returns a text as MLflow's pages write long ones: an earlier MLflow takes 5,000 characters per tag."""
    return "deflate;" + base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def charts_address(experiment: str) -> str:
    """Returns the address, within MLflow, of the charts of all systems of an experiment."""
    return f"#/experiments/{experiment}/runs?viewStateShareKey={VIEW}&compareRunsMode=CHART&workflowType=machine_learning"


def _view() -> dict[str, object]:
    shares = (metric_names.of_validation(metric_names.view_wins(view)) for view in range(VIEWS))
    charts = {
        "figures": [("BAR", metric) for metric in CHARTED],
        "curves": [("LINE", name) for metric in CURVES for name in _by_round(metric)],
        "shares": [("LINE", name) for metric in shares for name in _by_round(metric)],
        "differences": [("DIFFERENCE", "table")],
    }
    return {
        "searchFilter": f"tags.`{names.TAG_LEVEL}` = '{SYSTEM}'",
        # MLflow nests runs that are sorted by their start, and draws nested runs only when they are unfolded.
        "orderByKey": "attributes.end_time",
        "orderByAsc": False,
        "selectedColumns": list(COLUMNS),
        "compareRunCharts": [
            _chart(f"{VIEW}-{section}", kind, name) for section, of in charts.items() for kind, name in of
        ],
        "compareRunSections": [
            _section("figures", "Figures", columns=3),
            _section("curves", "Held-out questions while training", columns=2),
            _section("shares", "Share of each view while training", columns=3, unfolded=False),
            _section("differences", "What differs", columns=1, height=600),
        ],
    }


def _by_round(metric: str) -> list[str]:
    """A metric of a training as runs of one and of several rounds name it; a chart that no system fills is hidden."""
    return [
        metric,
        *(metric_names.of_group(f"round-{number}", metric) for number in range(1, ROUNDS + 1)),
    ]


def _chart(section: str, kind: str, name: str) -> dict[str, object]:
    """A chart, with a bar or a line per system, or a table of their differences."""
    further: dict[str, dict[str, object]] = {
        "BAR": {"metricKey": name},
        "LINE": {
            "metricKey": name,
            "xAxisKey": "step",
            "lineSmoothness": 0,
            "useGlobalXaxisKey": False,
            "useGlobalLineSmoothing": False,
        },
        "DIFFERENCE": {
            "chartName": "Settings that differ, and figures",
            "compareGroups": ["Parameters", "Model metrics"],
            "showDifferencesOnly": True,
            "showChangeFromBaseline": False,
            "baselineColumnUuid": "",
        },
    }
    common = {"uuid": f"{section}-{name}", "type": kind, "metricSectionId": section}
    return {**common, "deleted": False, "isGenerated": False, **further[kind]}


def _section(
    name: str, title: str, columns: int, height: int = 300, unfolded: bool = True
) -> dict[str, object]:
    layout = {"columns": columns, "cardHeight": height, "display": unfolded, "isReordered": False}
    return {"uuid": f"{VIEW}-{name}", "name": title, **layout}
