"""Headlines: the metrics of steps that the parent MLflow run shows as well, for MLflow's table of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from multiview import metric_names
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState

if TYPE_CHECKING:
    from mlflow.entities import Metric

HEADLINES = (*metric_names.SHORT, metric_names.ROUGE_L, metric_names.SELF_BLEU)
"""Prefixes of the evaluation metrics that are headlines; metrics of analyses would drown them."""

BY_ROUND = ("loss", "in_batch_accuracy", "fallback_share", "temperature")
"""Metrics of a training of which the last value of each round is a headline."""

CURVES = tuple(map(metric_names.of_validation, (metric_names.MRR, metric_names.VIEW_COSINE)))
"""Metrics of a training of which all values so far are headlines, by training step."""


def headlines_of(run: Run, state: StepState, metrics: Sequence[Metric]) -> list[Metric]:
    """Returns the metrics of a step for its parent run, by round; none before the step has ended, but for `CURVES`.

    An evaluation gives all of its metrics except those of its analyses, and a training its last values. A comparison
    gives its costs, or all of its metrics where it compares evaluations of other runs. Names end with the system's
    name where the run has several systems, those of `CURVES` with the round too where there are several. `metrics` are MLflow's, in order.
    """
    from mlflow.entities import Metric

    path, steps = StepPath.parse(state.path), [StepPath.parse(step) for step in run.steps]
    system, number = path.row if len(run.architectures) != 1 else "", round_of(path, steps)
    curves = []
    if state.step == "train":
        group = "-".join([system] * bool(system) + [f"round-{number}"] * bool(number))
        curves = [
            Metric(_named(m.key, group), m.value, m.timestamp, m.step) for m in metrics if m.key in CURVES
        ]
    if state.status not in ("done", "found"):
        return curves
    if state.step.startswith("evaluate"):
        found = [metric for metric in metrics if metric.key.startswith(HEADLINES) and "/" not in metric.key]
    elif state.step == "train":
        found = list({metric.key: metric for metric in metrics if metric.key in BY_ROUND}.values())
    elif state.step == "compare":
        alone = not any(step.system and step.step == "evaluate" for step in steps)
        found, system = [m for m in metrics if alone or not m.key.startswith(HEADLINES)], ""
    else:
        return []
    return curves + [Metric(_named(m.key, system), m.value, m.timestamp, number) for m in found]


def _named(metric: str, group: str) -> str:
    return metric_names.of_group(group, metric) if group else metric


def round_of(path: StepPath, steps: Iterable[StepPath]) -> int:
    """Returns the round of a step that its system does in several rounds: 2 for `camvr/round-2/train` where `steps` has a
    `camvr/round-1/train`. Else 0, for which MLflow draws a bar instead of a chart with one point."""
    rounds = sum(path.same_in_other_round(step) for step in steps)
    return path.round or 0 if rounds > 1 else 0
