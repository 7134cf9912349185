from multiview.artifacts.store import LocalStore
from multiview.steps.runs import Run, StepState
from multiview.tracking import tags
from multiview.tracking.mlflow_runs import identity


def test_a_run_is_identified_by_what_its_tags_say_and_quotes_do_no_harm(tmp_path):
    run = Run(id="it's", pipeline="training", config={}, steps=["split"])
    parent = tags.parent_tags(run, LocalStore(tmp_path))
    assert identity(parent) == (
        f"tags.`multiview.run` = \"it's\" and tags.`multiview.store` = '{tmp_path}' and "
        "tags.`multiview.level` = 'pipeline'"
    )
    state = StepState(
        path="camvr/round-2/train", step="train", key="k", status="running", attempt="model/k/attempts/a1"
    )
    assert identity(tags.child_tags(run, state, "id")) == (
        "tags.`multiview.run` = \"it's\" and tags.`mlflow.parentRunId` = 'id' and "
        "tags.`multiview.path` = 'camvr/round-2/train' and tags.`mlflow.multiview.attempt` = 'a1' and "
        "tags.`multiview.level` = 'step' and tags.`system` = 'camvr'"
    )
