"""Headlines: the metrics of steps that the MLflow runs above them show as well, for MLflow's table of runs."""

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
"""Metrics of a training whose last value in each round is a headline."""

VALIDATION = metric_names.of_validation("")
"""How metrics of a training's held-out questions begin."""

CURVES = tuple(
    map(
        metric_names.of_validation,
        (metric_names.recall_at(1), metric_names.MRR, metric_names.AVERAGE_RANK, metric_names.VIEW_COSINE),
    )
)
"""Metrics of a training whose values are all headlines, by training step. The share of each view is shown for its
system alone."""


def headlines_of(run: Run, state: StepState, metrics: Sequence[Metric]) -> list[Metric]:
    """Returns the metrics of a step for its pipeline's MLflow run, by round; none before the step has ended, but for `CURVES`.

    An evaluation and a training give their figures. A comparison gives its costs, or all of its metrics where it
    compares evaluations of other runs. Names end with the system's name where the run has several systems; names of
    `CURVES` also end with the round where there are several. `metrics` are MLflow's, in order.
    """
    steps = [StepPath.parse(step) for step in run.steps]
    if state.step == "compare" and state.finished:
        alone = not any(step.system and step.step == "evaluate" for step in steps)
        found = [m for m in metrics if alone or not m.key.startswith(HEADLINES)]
        return [_renamed(metric, metric.key, 0) for metric in found]
    row = StepPath.parse(state.path).row if len(run.architectures) != 1 else ""
    figures = figures_of(run, state, metrics)
    return [
        *curves_of(run, state, [metric for metric in metrics if metric.key in CURVES], row),
        *(_renamed(metric, _of_group(row, metric.key), metric.step) for metric in figures),
    ]


def figures_of(run: Run, state: StepState, metrics: Sequence[Metric]) -> list[Metric]:
    """Returns the figures of a step, by round; none before the step has ended.

    An evaluation gives all of its metrics except those of its analyses, and a training its last values.
    """
    if not state.finished:
        return []
    if state.step.startswith("evaluate"):
        found = [metric for metric in metrics if metric.key.startswith(HEADLINES) and "/" not in metric.key]
    elif state.step == "train":
        found = list({metric.key: metric for metric in metrics if metric.key in BY_ROUND}.values())
    else:
        return []
    step = round_of(StepPath.parse(state.path), map(StepPath.parse, run.steps))
    return [_renamed(metric, metric.key, step) for metric in found]


def curves_of(run: Run, state: StepState, metrics: Sequence[Metric], row: str = "") -> list[Metric]:
    """Returns all values so far of a training's validations. Names end with `row`, and with the round where there are several."""
    if state.step != "train":
        return []
    number = round_of(StepPath.parse(state.path), map(StepPath.parse, run.steps))
    group = "-".join([row] * bool(row) + [f"round-{number}"] * bool(number))
    return [_renamed(m, _of_group(group, m.key), m.step) for m in metrics if m.key.startswith(VALIDATION)]


def costs_of(system: str, state: StepState, metrics: Sequence[Metric]) -> list[Metric]:
    """Returns the costs of one system among a comparison's metrics, such as `index_bytes`, named without the system;
    none before the comparison has ended."""
    if not state.finished:
        return []
    group = metric_names.of_group(system, "")
    return [
        _renamed(metric, metric.key.removesuffix(group), 0)
        for metric in metrics
        if metric.key.endswith(group) and not metric.key.startswith(HEADLINES)
    ]


def _of_group(group: str, metric: str) -> str:
    return metric_names.of_group(group, metric) if group else metric


def _renamed(metric: Metric, name: str, step: int) -> Metric:
    from mlflow.entities import Metric

    return Metric(name, metric.value, metric.timestamp, step)


def round_of(path: StepPath, steps: Iterable[StepPath]) -> int:
    """Returns the round of a step that its system does in several rounds: 2 for `camvr/round-2/train` where `steps` has
    a `camvr/round-1/train`. Else 0, for which MLflow draws a bar instead of a chart with one point."""
    rounds = sum(path.same_in_other_round(step) for step in steps)
    return path.round or 0 if rounds > 1 else 0
