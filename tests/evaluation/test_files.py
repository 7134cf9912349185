"""The figures on Kubeflow's pages: the few that say how good a ranking is, whatever else was measured."""

import json

from multiview import metric_names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record
from multiview.artifacts.store import LocalStore
from multiview.evaluation.files import of_comparison, of_evaluation
from multiview.steps.table import STEPS

MEASURED = dict.fromkeys(metric_names.evaluation_metrics((1, 5, 20, 50, 100), 1000), 0.1)


def published(store: LocalStore, kind: str, metrics: dict) -> Record:
    attempt = Attempt(store, kind, f"k{len(metrics)}")
    (attempt.path / "metrics.json").write_text(json.dumps(metrics))
    (attempt.path / "run.trec").write_text("q Q0 p 1 1 x\n")
    return attempt.publish(step="evaluate", step_version=1, config={}, inputs={})[0]


def test_an_evaluation_shows_accuracy_and_mrr_where_they_were_measured(tmp_path):
    store, names = LocalStore(tmp_path), [*(f"accuracy_at_{k}" for k in (1, 5, 20, 100)), "mrr_at_10"]
    for measured, shown in (
        ({**MEASURED, "accuracy_at_1/view_1": 0.2}, dict.fromkeys(names, 0.1)),
        ({"accuracy_at_5": 0.5}, {"accuracy_at_5": 0.5}),
    ):
        assert of_evaluation(store, published(store, "evaluation", measured)) == shown
    assert len(MEASURED) > 10


def test_a_comparison_shows_them_per_row(tmp_path):
    store, values = LocalStore(tmp_path), {"mvr": 0.25, "bm25": 0.75}
    rows = {row: {"accuracy_at_20": value, "ndcg_at_10": 0.5} for row, value in values.items()}
    record = published(store, "comparison", rows)
    assert of_comparison(store, record) == {f"accuracy_at_20/{row}": value for row, value in values.items()}


def test_the_steps_that_measure_have_figures():
    measuring = {"evaluate", "evaluate-bm25", "evaluate-bm25-with-queries", "compare", "gate"}
    assert {name for name, step in STEPS.items() if step.figures_path} == measuring
