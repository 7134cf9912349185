"""The metrics of its steps that the MLflow run of a whole run has."""

import pytest
from mlflow.entities import Metric

from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState
from multiview.tracking.headlines import headlines_of, round_of

ROUNDS = ["camvr/round-1/train", "camvr/round-1/evaluate", "camvr/round-2/train", "camvr/round-2/evaluate"]


def test_a_parent_s_metrics_are_by_round_where_there_are_several():
    texts = ["camvr/round-1/train", "camvr/round-2/train", "camvr/round-2/evaluate", "mvr/round-1/train"]
    steps = [StepPath.parse(text) for text in texts]
    assert [round_of(step, steps) for step in steps] == [1, 2, 0, 0]
    assert round_of(StepPath.parse("bm25/evaluate"), steps) == 0


@pytest.mark.parametrize(
    ("steps", "systems", "path", "name"),
    [
        (ROUNDS, ["camvr", "mvr"], "camvr/round-2/train", "validation_mrr_at_10/camvr-round-2"),
        (ROUNDS, ["camvr"], "camvr/round-1/train", "validation_mrr_at_10/round-1"),
        (["mvr/round-1/train"], ["camvr", "mvr"], "mvr/round-1/train", "validation_mrr_at_10/mvr"),
        (["mvr/round-1/train"], ["mvr"], "mvr/round-1/train", "validation_mrr_at_10"),
    ],
)
@pytest.mark.parametrize("status", ["running", "done"])
def test_the_curve_of_a_validation_grows_while_its_training_runs(steps, systems, path, name, status):
    run = Run(id="r", pipeline="p", config={}, steps=steps, architectures=dict.fromkeys(systems, "a"))
    state = StepState(path=path, step="train", status=status, started=1.0)
    others = ["recall_at_1", "average_rank", "view_cosine"]
    reported = [Metric("validation_mrr_at_10", 0.1 * step, 7, step) for step in (0, 5, 10)]
    reported += [Metric(f"validation_{other}", 0.5, 7, 5) for other in others]
    found = headlines_of(run, state, [*reported, Metric("validation_view_1_wins", 0.5, 7, 5)])
    assert [(metric.key, metric.step) for metric in found] == [
        *((name, step) for step in (0, 5, 10)),
        *((name.replace("mrr_at_10", other), 5) for other in others),
    ]


@pytest.mark.parametrize(
    ("steps", "systems", "path", "reported", "seen"),
    [
        (
            ROUNDS,
            ["camvr"],
            "camvr/round-1/evaluate",
            [("accuracy_at_5", 0.5), ("accuracy_at_5/view_1", 0.4), ("view_cosine", 0.9)],
            [("accuracy_at_5", 0.5, 1)],
        ),
        (
            ROUNDS,
            ["camvr", "mvr"],
            "camvr/round-2/train",
            [("loss", 3.0), ("grad_norm", 1.0), ("loss", 2.0), ("in_batch_accuracy", 0.7)],
            [("loss/camvr", 2.0, 2), ("in_batch_accuracy/camvr", 0.7, 2)],
        ),
        (["compare", "report"], [], "compare", [("mrr_at_10/mvr", 0.3)], [("mrr_at_10/mvr", 0.3, 0)]),
        (["mvr/round-1/evaluate", "compare"], ["mvr"], "compare", [("mrr_at_10/mvr", 0.3)], []),
        (
            ["mvr/round-1/evaluate", "compare"],
            ["mvr"],
            "compare",
            [("mrr_at_10/mvr", 0.3), ("index_bytes/mvr", 9.0)],
            [("index_bytes/mvr", 9.0, 0)],
        ),
    ],
)
def test_headlines_are_what_a_table_of_runs_is_read_for(steps, systems, path, reported, seen):
    run = Run(id="r", pipeline="p", config={}, steps=steps, architectures=dict.fromkeys(systems, "a"))
    state = StepState(path=path, step=StepPath.parse(path).step, status="done", started=1.0)
    found = headlines_of(run, state, [Metric(name, value, 7, 0) for name, value in reported])
    assert [(metric.key, metric.value, metric.step) for metric in found] == seen
    running = state.model_copy(update={"status": "running"})
    assert headlines_of(run, running, [Metric(name, value, 7, 0) for name, value in reported]) == []
