"""The trainings behind a model, and their curves."""

from __future__ import annotations

from multiview import metric_names
from multiview.lineage.ancestry import Ancestor
from multiview.report.contents import Training
from multiview.steps.events import read_metrics

CURVES = {"loss": "Training loss", "temperature": "Temperature", "fallback_share": "Share of fallbacks"}
"""Metrics of a training that get a chart, and its title."""
VALIDATION = {
    metric_names.of_validation(metric_names.MRR): "Validation: MRR@10",
    metric_names.of_validation(metric_names.VIEW_COSINE): "Validation: cosine between views",
}
"""Metrics of a training that get one chart of all systems, and its title."""
WINS = ("view_", "_wins")
MOST_VIEWS = 16
"""Most views to draw the wins of; a model with more shows its first ones."""

POINTS = 24
"""Most points to keep of a curve."""


def trainings(model: Ancestor) -> list[Training]:
    """Returns a model's warm-up and rounds in order; none for a model that was not trained here.

    A round reads negatives that were mined with the model of the round before, regardless of the model that
    the round started from. Raises InputError if a record on the way is gone.
    """
    rounds: list[Ancestor] = []
    ancestor: Ancestor | None = model
    while ancestor is not None and ancestor.record.step == "train":
        rounds.insert(0, ancestor)
        negatives = ancestor.input("negatives")
        if negatives is not None and negatives.record.step == "teach":
            negatives = negatives.input("hard_negatives")
        ancestor = (
            negatives.input("model") if negatives is not None and negatives.record.step == "mine" else None
        )
    start = rounds[0].input("start") if rounds else model
    warmed = [start] if start is not None and start.record.step == "warm-up" else []
    stages = [("warm-up", made) for made in warmed]
    stages += [(f"round {number}", made) for number, made in enumerate(rounds, start=1)]
    return [Training(name, curves) for name, made in stages if (curves := _curves(made))]


def _curves(made: Ancestor) -> dict[str, dict[int, float]]:
    """The curves that the attempt reported in training; for a step that was reported twice, the last value."""
    curves: dict[str, dict[int, float]] = {}
    for metric in read_metrics(made.store, made.record.data):
        if metric.step is not None and _has_chart(metric.name):
            curves.setdefault(metric.name, {})[metric.step] = metric.value
    return {name: _thinned(dict(sorted(curve.items()))) for name, curve in curves.items()}


def _has_chart(name: str) -> bool:
    if name in CURVES or name in VALIDATION:
        return True
    number = name.removeprefix(WINS[0]).removesuffix(WINS[1])
    return name == f"{WINS[0]}{number}{WINS[1]}" and number.isdigit() and int(number) <= MOST_VIEWS


def _thinned(curve: dict[int, float]) -> dict[int, float]:
    """At most `POINTS` points of a curve, the last one among them."""
    every = -(-len(curve) // POINTS)
    kept = list(curve.items())[::-1][::every][::-1]
    return dict(kept)
