"""The few figures of an evaluation and of a comparison that Kubeflow's pages show."""

from __future__ import annotations

import json

from multiview import metric_names
from multiview.artifacts.record import Record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.config import JsonObject
from multiview.evaluation.files import METRICS_FILE


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
