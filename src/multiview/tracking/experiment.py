"""Tags of MLflow's experiment: its description, and a prepared view of its systems with charts.

MLflow's button *Share* stores a view of an experiment as a tag, and an address with the view's name opens it. We write
the tag ourselves; a server that knows no such views shows the experiment without it.
"""

import base64
import json
import zlib

from multiview import metric_names, names
from multiview.config import JsonObject
from multiview.tracking.tags import SYSTEM

VIEW = "systems"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"

COLUMNS = (
    "tags.`architecture`",
    "tags.`corpus`",
    "params.`model.pooling`",
    "params.`model.views`",
    "params.`train.positive`",
    "params.`train.learning_rate`",
    "params.`train.rounds`",
    *(f"metrics.`{metric}`" for metric in (*map(metric_names.accuracy_at, (1, 5, 20)), metric_names.MRR)),
)
"""Columns of the table of runs, beside MLflow's own."""

FIGURES = (
    *map(metric_names.accuracy_at, (1, 5, 20, 100)),
    metric_names.MRR,
    metric_names.recall_at(5),
    "index_bytes",
    "compute_seconds",
)
"""Metrics with a bar chart each; MLflow hides a chart that no system fills."""

VALIDATIONS = (
    metric_names.recall_at(1),
    metric_names.MRR,
    metric_names.AVERAGE_RANK,
    metric_names.VIEW_COSINE,
)
ROUNDS = ("round-1", "round-2", "round-3")
"""Rounds of training whose curves are charted: `snippet-means` and the papers have two."""
CURVES = [
    name
    for metric in map(metric_names.of_validation, VALIDATIONS)
    for name in (metric, *(metric_names.of_group(number, metric) for number in ROUNDS))
]
"""Metrics with a chart of curves each, under their names in runs of one round and of several."""

SECTIONS = (
    ("Figures", "BAR", FIGURES, {"columns": 3, "cardHeight": 300}),
    ("Held-out questions while training", "LINE", CURVES, {"columns": 2, "cardHeight": 300}),
    ("What differs", "DIFFERENCE", ("table",), {"columns": 1, "cardHeight": 600}),
)
"""Sections of the page: title, kind of chart, metrics and layout."""
CHARTS: dict[str, JsonObject] = {
    "BAR": {},
    "LINE": {
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
"""What MLflow's view holds of each kind of chart, beside the chart's metric."""


def experiment_tags(experiment: str) -> dict[str, str]:
    """Returns the tags of the MLflow experiment with an id."""
    return {
        # Lists of experiments show it as model training; on first opening it, a person still has to choose that.
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
        VIEW_TAG: _view_tag(),
    }


def charts_address(experiment: str) -> str:
    """Returns the address, within MLflow, of the charts of all systems of an experiment."""
    return f"#/experiments/{experiment}/runs?viewStateShareKey={VIEW}&compareRunsMode=CHART&workflowType=machine_learning"


def _view_tag() -> str:
    """The view as MLflow's pages write it, packed, since earlier versions of MLflow take 5,000 characters per tag."""
    sections, charts = [], []
    for number, (title, kind, metrics, layout) in enumerate(SECTIONS):
        section = f"{VIEW}-{number}"
        sections.append({"uuid": section, "name": title, "display": True, "isReordered": False, **layout})
        common = {"type": kind, "metricSectionId": section, "deleted": False, "isGenerated": False}
        charts += [
            {"uuid": f"{section}-{metric}", "metricKey": metric, **common, **CHARTS[kind]}
            for metric in metrics
        ]
    view = {
        "searchFilter": f"tags.`{names.TAG_LEVEL}` = '{SYSTEM}' and tags.`multiview.pipeline` != 'refresh'",
        # Not by start: MLflow would nest the runs, and draw nested runs only when they are unfolded.
        "orderByKey": "attributes.end_time",
        "orderByAsc": False,
        "selectedColumns": list(COLUMNS),
        "compareRunCharts": charts,
        "compareRunSections": sections,
    }
    packed = zlib.compress(json.dumps(view, separators=(",", ":")).encode(), 9)
    return "deflate;" + base64.b64encode(packed).decode()
