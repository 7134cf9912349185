"""MLflow runs of systems: what they hold, how they end, and how they are found."""

from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun

from multiview import names, tracking
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.cli.lookup import Lookup, run_index
from multiview.config import Config
from multiview.errors import InputError
from multiview.steps.events import EventLog
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, read_state, read_states, write_run, write_state
from multiview.tracking import system_runs
from multiview.tracking.mlflow_runs import PARENT_RUN
from multiview.tracking.shipment import description
from pipelines.runs.study import evaluations_of_run
from tests.fixtures.reported_run import ReportedRun
from tests.fixtures.servers import new_database
from tests.tracking.views import view_of

SYSTEMS = {
    "mvr": {"model": {"architecture": "mvr"}},
    "camvr": {
        "model": {"architecture": "camvr"},
        "train": {"learning_rate": 3e-5, "round_two": {"epochs": 20}},
    },
}


def test_a_system_that_was_warmed_up_has_the_settings_of_its_generated_queries() -> None:
    for warm_up in ({}, {"epochs": 1}):
        config = {"model": {"architecture": "dpr"}, "train": {"warm_up": warm_up}}
        found = system_runs.settings_of(Run(id="r", pipeline="training", config=config, steps=[]), "dpr", [])
        assert ("generation" in found) == bool(warm_up)


def test_a_system_fused_with_bm25_has_the_system_s_settings_with_a_hybrid_search() -> None:
    run = Run(id="r", pipeline="comparison", config={"comparison": {"systems": SYSTEMS, "fusion": ["mvr"]}})
    mvr, fused = (system_runs.settings_of(run, system, []) for system in ("mvr", "mvr-bm25"))
    assert (mvr["search"].pop("mode"), fused["search"].pop("mode")) == ("dense", "hybrid")
    assert mvr["evaluation"].pop("analyses") and not fused["evaluation"].pop("analyses")
    assert fused == mvr


class Compared(ReportedRun):
    """A reported comparison of two systems and BM25."""

    def __init__(self, folder: Path, uri: str, run: str) -> None:
        self.store, self.uri = LocalStore(folder), uri
        steps = [
            f"{system}/round-{n}/{step}" for system in SYSTEMS for n in (1, 2) for step in ("train", "index")
        ]
        evaluations = [f"{system}/round-{n}/evaluate" for system in SYSTEMS for n in (1, 2)]
        self.run = Run(
            id=run,
            pipeline="comparison",
            config={"train": {"batch_size": 16}, "comparison": {"systems": SYSTEMS}},
            steps=["split", *steps, *evaluations, "bm25/evaluate", "compare"],
            architectures={system: system for system in SYSTEMS},
        )
        write_run(self.store, self.run)

    def report_systems(self) -> None:
        self.events("split", "s")
        for path in self.run.steps[1:-1]:
            self.events(
                path, "a", step="evaluate-bm25" if path == "bm25/evaluate" else StepPath.parse(path).step
            )

    def compare(self) -> None:
        log = EventLog(self.store, "evaluation/compare/attempts/c")
        for name, value in {
            "accuracy_at_5/mvr": 0.75,
            "index_bytes/mvr": 9.0,
            "index_bytes/camvr": 8.0,
        }.items():
            log.metric(name, value)
        log.close()
        self.events("compare", "c", outputs={"comparison": self.reference("comparison", "compare")})

    def systems(self) -> dict[str, MlflowRun]:
        """The MLflow runs of the systems, by name."""
        runs = self.runs(f"tags.`{names.TAG_LEVEL}` = 'system'")
        by_name = {run.data.tags["system"]: run for run in runs}
        assert len(by_name) == len(runs), "one of them is there twice"
        return by_name

    def runs(self, condition: str) -> list[MlflowRun]:
        return MlflowClient(self.uri).search_runs(
            ["1"], f"tags.`multiview.run` = '{self.run.id}' and {condition}"
        )

    def ship(self, **more: Any) -> bool:
        return tracking.ship(self.store, self.run.id, self.uri, **more)


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> str:
    return new_database(tmp_path_factory.mktemp("systems"))


@pytest.fixture(scope="module")
def compared(tmp_path_factory, database) -> Compared:
    """A finished comparison in MLflow."""
    compared = Compared(tmp_path_factory.mktemp("compared"), database, "compared")
    compared.report_systems()
    compared.compare()
    compared.ship()
    return compared


def test_a_run_lies_above_its_systems_and_a_system_above_its_steps(compared):
    (parent,) = compared.runs(f"tags.`{names.TAG_LEVEL}` = 'pipeline'")
    found = compared.systems()
    assert {name: run.info.run_name for name, run in found.items()} == {
        "mvr": "mvr",
        "camvr": "camvr",
        "bm25": "bm25",
    }
    assert {run.data.tags[PARENT_RUN] for run in found.values()} == {parent.info.run_id}
    steps = compared.runs(f"tags.`{names.TAG_LEVEL}` = 'step'")
    above = {run.data.tags[names.TAG_PATH]: run.data.tags[PARENT_RUN] for run in steps}
    assert above["split"] == above["compare"] == parent.info.run_id
    assert above["mvr/round-1/train"] == above["mvr/round-2/evaluate"] == found["mvr"].info.run_id
    assert above["bm25/evaluate"] == found["bm25"].info.run_id


def test_a_system_has_all_of_its_settings_whether_given_or_not(compared):
    params = {name: run.data.params for name, run in compared.systems().items()}
    differ = {name for name in params["camvr"] if params["mvr"].get(name) != params["camvr"][name]}
    assert differ >= {"model.architecture", "train.learning_rate", "train.round_two.epochs", "train.positive"}
    assert not any(name.startswith(("encode.", "index.", "mining.", "model.seed")) for name in differ)
    assert (params["mvr"]["train.batch_size"], params["mvr"]["train.learning_rate"]) == ("16", "2e-05")
    for section in ("model", "train", "mining", "encode", "index"):
        for name in type(getattr(Config(), section)).model_fields:
            full = f"{section}.{name}"
            assert any(given == full or given.startswith(f"{full}.") for given in params["camvr"]), full
    assert params["bm25"] == {"encode.compute": "float32"}, "what its step has read"


def test_a_system_has_the_curves_of_its_validations(tmp_path, database):
    validated = Compared(tmp_path, database, "validated")
    log = EventLog(validated.store, "model/mvr-round-2-train/attempts/a")
    for step in (0, 5):
        log.metric("validation_mrr_at_10", 0.5 + step / 100, step)
    log.close()
    for path in ("split", "mvr/round-1/train", "mvr/round-2/train"):
        validated.events(path, "a")
    validated.ship()
    run, client = validated.systems()["mvr"].info.run_id, MlflowClient(validated.uri)
    curve = client.get_metric_history(run, "validation_mrr_at_10/round-2")
    assert sorted((metric.step, metric.value) for metric in curve) == [(0, 0.5), (5, 0.55)]
    (experiment,) = client.search_experiments(filter_string="name = 'multiview'")
    drawn = {
        chart["metricKey"] for chart in view_of(experiment)["compareRunCharts"] if chart["type"] == "LINE"
    }
    assert "validation_mrr_at_10/round-2" in drawn


def test_a_system_has_its_figures_by_round_and_its_costs(compared):
    found, client = compared.systems(), MlflowClient(compared.uri)
    assert found["mvr"].data.metrics == {"accuracy_at_5": 0.75, "index_bytes": 9.0}
    assert found["bm25"].data.metrics == {"accuracy_at_5": 0.75}
    rounds = [metric.step for metric in client.get_metric_history(found["mvr"].info.run_id, "accuracy_at_5")]
    assert sorted(rounds) == [1, 2]
    assert {run.info.status for run in found.values()} == {"FINISHED"}


def test_a_pipeline_s_run_has_the_final_figures_of_each_system(compared, tmp_path, database):
    (parent,) = compared.runs(f"tags.`{names.TAG_LEVEL}` = 'pipeline'")
    costs = {"index_bytes/mvr": 9.0, "index_bytes/camvr": 8.0}
    assert parent.data.metrics == {f"accuracy_at_5/{name}": 0.75 for name in (*SYSTEMS, "bm25")} | costs
    others = Compared(tmp_path, database, "others")  # which compares evaluations of other runs
    others.run.steps[:] = ["compare"]
    write_run(others.store, others.run)
    others.compare()
    others.ship()
    (parent,) = others.runs(f"tags.`{names.TAG_LEVEL}` = 'pipeline'")
    assert parent.data.metrics == {"accuracy_at_5/mvr": 0.75} | costs


def test_a_system_s_mlflow_id_means_that_system(compared, database):
    camvr = tracking.find_run(database, compared.systems()["camvr"].info.run_id)
    assert (camvr.run.id, camvr.system, camvr.step) == ("compared", "camvr", None)
    assert set(camvr.steps) == set(compared.run.steps), "a rerun needs those that are shared"
    assert set(evaluations_of_run(camvr)) == {"camvr"}
    assert set(evaluations_of_run(tracking.find_run(database, "compared"))) == {"mvr", "camvr", "bm25"}


def test_a_system_s_mlflow_id_leads_to_its_index_and_its_artifacts(tmp_path, database):
    compared = Compared(tmp_path, database, "indexed")
    for system in SYSTEMS:
        path = f"{system}/round-2/index"
        compared.events(path, "i", outputs={"index": compared.reference("index", path.replace("/", "-"))})
    compared.ship()
    for system in SYSTEMS:
        name = compared.systems()[system].info.run_id
        address = compared.reference("index", f"{system}-round-2-index").address
        assert run_index(name, tracking.find_run(database, name), compared.store) == address
        assert [made.address for made in Lookup(str(tmp_path / "none"), database).artifacts(name)] == [
            address
        ]
    with pytest.raises(InputError, match="several systems"):
        run_index("indexed", tracking.find_run(database, "indexed"), compared.store)


def test_a_description_names_every_row_and_the_system_of_each_index(tmp_path, database):
    compared = Compared(tmp_path, database, "described")
    addresses = {}
    for system in SYSTEMS:
        made = compared.reference("index", f"{system}-round-2-index")
        compared.events(f"{system}/round-2/index", "i", outputs={"index": made})
        addresses[system] = made.address
    states = [*read_states(compared.store, compared.run.id)]
    note = description(compared.store, compared.run, states, None)
    assert note.startswith("comparison of mvr, camvr, bm25\n")
    for system, address in addresses.items():
        assert f"multiview search QUESTION --index {address}  # {system}\n" in note


def test_a_description_holds_the_first_rows_of_a_long_table(tmp_path, database):
    compared = Compared(tmp_path, database, "long")
    rows = [f"| system-{number:03} | 0.5 |" for number in range(1000)]
    attempt = Attempt(compared.store, "comparison", "long-comparison")
    (attempt.path / "table.md").write_text("\n".join(rows))
    record, _ = attempt.publish(step="compare", step_version=1, config={}, inputs={})
    made = Reference(address=f"{compared.store.url}/{record.folder}", digest=record.digest)
    compared.events("compare", "c", outputs={"comparison": made})
    note = description(compared.store, compared.run, [*read_states(compared.store, compared.run.id)], None)
    shown = [line for line in note.splitlines() if line.startswith("| system")]
    assert len(shown) > 100 and shown == rows[: len(shown)]


def test_a_system_that_failed_is_failed_until_it_is_mended_and_the_last_attempt_has_the_last_word(
    tmp_path, database
):
    compared = Compared(tmp_path, database, "failing")
    compared.events("split", "s")
    compared.events("mvr/round-1/train", "first", status="failed", error="no memory")
    compared.events("camvr/round-1/train", "a")
    compared.ship()
    before = compared.systems()
    assert {name: run.info.status for name, run in before.items()} == {"mvr": "FAILED", "camvr": "RUNNING"}
    assert before["mvr"].data.tags["error"] == "mvr/round-1/train: no memory"
    compared.ship(ended="FAILED")
    assert {run.info.status for run in compared.systems().values()} == {"FAILED"}
    compared.report_systems()
    compared.ship()
    mended = compared.systems()
    assert {run.info.status for run in mended.values()} == {"FINISHED"}
    assert "error" not in mended["mvr"].data.tags
    state = read_state(compared.store, "failing", "mvr/round-2/evaluate")
    assert state is not None
    again = "evaluation/mvr-round-2-evaluate/attempts/again"
    log = EventLog(compared.store, again)
    log.metric("accuracy_at_5", 0.875)
    log.close()
    write_state(compared.store, "failing", state.model_copy(update={"attempt": again}))
    assert compared.ship()
    found = compared.systems()
    assert {name: run.info.run_id for name, run in found.items()} == {
        name: run.info.run_id for name, run in mended.items()
    }
    figures = {name: run.data.metrics["accuracy_at_5"] for name, run in found.items()}
    assert figures == {"mvr": 0.875, "camvr": 0.75, "bm25": 0.75}


def test_found_steps_give_a_new_mlflow_the_same_systems(tmp_path, compared):
    new = new_database(tmp_path)
    assert tracking.sync(compared.store, new) == (["compared"], {})
    found = MlflowClient(new).search_runs(["1"], f"tags.`{names.TAG_LEVEL}` = 'system'")
    before = compared.systems()
    assert {run.data.tags["system"]: (run.data.params, run.data.metrics) for run in found} == {
        name: (run.data.params, run.data.metrics) for name, run in before.items()
    }
    assert tracking.sync(compared.store, new) == ([], {})


def test_settings_that_this_version_does_not_know_are_those_that_the_steps_have_read(compared):
    old = compared.run.model_copy(update={"config": {"train": {"gone": 1}}})
    states = [state for state in read_states(compared.store, "compared") if state.path.startswith("mvr")]
    assert system_runs.settings_of(old, "mvr", states) == {"encode": {"compute": "float32"}}


def test_a_run_of_one_system_names_it_with_the_run(expected):
    status, tags, params, metrics, *_ = expected["camvr"]
    assert (status, tags["architecture"], metrics) == ("FINISHED", "camvr", {"accuracy_at_5": [(0, 0.75)]})
    assert (params["model.architecture"], params["train.epochs"]) == ("camvr", "2.0")


@pytest.mark.parametrize("same", [True, False])
def test_a_rerun_has_no_results_of_what_it_replaced(tmp_path, same):
    database = new_database(tmp_path)
    first = ReportedRun(tmp_path / "store", database)
    first.report_all()
    tracking.ship(first.store, first.run.id, database)
    described = {"id": "training-2", "rerun_of": first.run.id, "steps": ["camvr/round-2/train"]}
    write_run(first.store, first.run.model_copy(update=described))
    again = ReportedRun(tmp_path / "store", database, "training-2")
    trained = again.reference("model", "camvr-round-2-train" if same else "anew")
    again.events("camvr/round-2/train", "again", outputs={"model": trained})
    tracking.ship(again.store, again.run.id, database)
    found = tracking.find_run(database, again.run.id)
    assert set(found.steps) == {"split", "camvr/round-2/train"} | (
        {"camvr/round-2/evaluate"} if same else set()
    )
    assert found.steps["camvr/round-2/train"].outputs == {"model": trained}
    assert bool(evaluations_of_run(found)) == same
