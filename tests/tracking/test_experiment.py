"""The experiment's description, and its view of the systems."""

from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

from multiview import metric_names, names, tracking
from multiview.errors import InputError
from multiview.tracking import experiment
from tests.fixtures.reported_run import ReportedRun
from tests.fixtures.servers import new_database
from tests.tracking.views import view_of


def test_the_experiment_has_a_description_and_a_view_that_opens_by_its_address(tmp_path):
    uri = new_database(tmp_path)
    reported = ReportedRun(tmp_path / "store", uri)
    tracking.ship(reported.store, reported.run.id, uri)
    client = MlflowClient(uri)
    (made,) = client.search_experiments(filter_string="name = 'multiview'")
    view = view_of(made)
    assert "viewStateShareKey=systems" in made.tags["mlflow.note.content"]
    assert f"/experiments/{made.experiment_id}/" in experiment.charts_address(made.experiment_id)
    sections = {section["uuid"] for section in view["compareRunSections"]}
    assert {chart["metricSectionId"] for chart in view["compareRunCharts"]} == sections
    assert len({chart["uuid"] for chart in view["compareRunCharts"]}) == len(view["compareRunCharts"])
    # Its filter is one that MLflow reads, and leaves out both sides of refreshes.
    tags = {names.TAG_LEVEL: "system", "multiview.pipeline": "refresh"}
    client.create_run(made.experiment_id, tags=tags)
    reported.report_all()
    tracking.ship(reported.store, reported.run.id, uri)
    (system,) = client.search_runs(
        [made.experiment_id], view["searchFilter"], order_by=[f"{view['orderByKey']} DESC"]
    )
    assert system.data.tags[names.TAG_SYSTEM] == "camvr"
    assert metric_names.accuracy_at(5) in system.data.metrics


def test_mlflow_s_pages_read_the_tag_of_a_view_which_no_document_of_mlflow_names():
    scripts = Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js"
    pages = "".join(file.read_text(encoding="utf-8") for file in scripts.glob("*.js"))
    for word in (experiment.VIEW_TAG.removesuffix(experiment.VIEW), "deflate;", "viewStateShareKey"):
        assert word in pages, (
            f"MLflow knows no {word} any more: its pages show the experiment without the view"
        )


def test_what_was_deleted_is_called_deleted_with_the_command_that_restores_it(tmp_path):
    uri = new_database(tmp_path)
    reported = ReportedRun(tmp_path / "store", uri)
    tracking.ship(reported.store, reported.run.id, uri)
    client = MlflowClient(uri)
    run = tracking.find_run(uri, reported.run.id).mlflow_id
    (made,) = client.search_experiments(filter_string="name = 'multiview'")
    client.delete_run(run)
    for named in (reported.run.id, run):
        with pytest.raises(InputError, match=f"is deleted; restore it: mlflow runs restore --run-id {run}"):
            tracking.find_run(uri, named)
    client.restore_run(run)
    client.delete_experiment(made.experiment_id)
    line = f"is deleted; restore it: mlflow experiments restore --experiment-id {made.experiment_id}"
    with pytest.raises(InputError, match=line):
        tracking.find_run(uri, run)
    reported.report_all()
    with pytest.raises(InputError, match=line):
        tracking.ship(reported.store, reported.run.id, uri)


def test_a_run_is_found_whole_after_its_experiment_was_renamed(tmp_path):
    uri = new_database(tmp_path)
    first, second = (ReportedRun(tmp_path / name, uri, name) for name in ("first", "second"))
    first.report_all()
    tracking.ship(first.store, first.run.id, uri)
    found, client = tracking.find_run(uri, first.run.id), MlflowClient(uri)
    (made,) = client.search_experiments(filter_string="name = 'multiview'")
    client.rename_experiment(made.experiment_id, "renamed")
    tracking.ship(second.store, second.run.id, uri)
    assert tracking.find_run(uri, found.mlflow_id).steps == found.steps != {}


def test_what_a_person_wrote_about_the_experiment_stays(tmp_path):
    uri = new_database(tmp_path)
    client = MlflowClient(uri)
    made = client.create_experiment(
        "multiview", tags={"mlflow.note.content": "ours", experiment.VIEW_TAG: "{}"}
    )
    reported = ReportedRun(tmp_path / "store", uri)
    tracking.ship(reported.store, reported.run.id, uri)
    tags = client.get_experiment(made).tags
    assert tags["mlflow.note.content"] == "ours"
    assert view_of(client.get_experiment(made)), "an earlier version's view is replaced"
