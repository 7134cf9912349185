"""`schedule`: Kubeflow's recurring runs become those of the file, whatever was there."""

import copy
from pathlib import Path

import pytest

from multiview.steps.runs import Run
from pipelines.kubeflow.schedules import check_cron
from tests.fixtures.kubeflow_server import Fault
from tests.fixtures.project import ROOT
from tests.fixtures.schedules import NIGHTLY, WEEKLY, run_of, write


@pytest.fixture
def apply(kubeflow, command):
    """Applies a file of these schedules; the lines printed."""

    def call(*schedules: dict, options: str = "", status: int = 0, file: str = "refresh.yaml") -> list[str]:
        write(*schedules, file=file)
        kubeflow.requests.clear()
        return command(f"schedule apply {file} --host {kubeflow.url} {options}", status).splitlines()

    return call


def names(kubeflow) -> list[str]:
    return sorted(recurring.display_name for recurring in kubeflow.recurring.values())


def test_a_schedule_becomes_one_recurring_run(kubeflow, apply):
    assert apply(NIGHTLY, options="--pipeline-root gs://bucket/kfp") == ["nightly: created"]
    (recurring,) = kubeflow.recurring.values()
    assert recurring.trigger.cron_schedule.cron == "0 0 3 * * *"
    assert (int(recurring.max_concurrency), recurring.no_catchup, recurring.mode) == (1, True, "ENABLE")
    assert recurring.runtime_config.pipeline_root == "gs://bucket/kfp"
    assert recurring.pipeline_version_reference.pipeline_version_id in kubeflow.versions
    run = Run.model_validate_json(recurring.runtime_config.parameters["described"])
    assert run.each_time, "each of its starts is a run of its own"
    assert recurring.runtime_config.parameters["store"] == "gs://bucket/store"


def test_applying_again_changes_nothing(kubeflow, apply):
    apply(NIGHTLY, WEEKLY)
    before = dict(kubeflow.recurring)
    assert apply(WEEKLY, NIGHTLY) == ["weekly: unchanged", "nightly: unchanged"]
    assert kubeflow.recurring == before and not kubeflow.changes()


def test_notices_of_scheduled_runs_link_to_the_pages_that_apply_knows(kubeflow, apply):
    """As those of other runs (test_start.py)."""
    assert apply(NIGHTLY, options="--ui-host https://pages.example.org") == ["nightly: created"]
    (recurring,) = kubeflow.recurring.values()
    run = Run.model_validate_json(recurring.runtime_config.parameters["described"])
    assert run.config["notify"]["kubeflow"] == "https://pages.example.org"
    assert apply(NIGHTLY, options="--ui-host https://elsewhere.example.org") == ["nightly: unchanged"]


def test_an_empty_file_says_so(kubeflow, apply):
    assert apply() == ["no schedules"]
    apply(NIGHTLY)
    assert apply() == ["nightly: deleted"]
    assert apply() == ["no schedules"]


def test_what_differs_is_replaced_and_what_is_gone_deleted(kubeflow, apply):
    apply(NIGHTLY, WEEKLY)
    assert apply({**NIGHTLY, "cron": "0 30 3 * * *"}) == ["nightly: replaced", "weekly: deleted"]
    (recurring,) = kubeflow.recurring.values()
    assert recurring.trigger.cron_schedule.cron == "0 30 3 * * *"
    assert apply({**NIGHTLY, "settings": {"train": {"max_steps": 3}}}) == ["nightly: replaced"]
    assert apply({**NIGHTLY, "enabled": False}) == ["nightly: replaced"]
    (recurring,) = kubeflow.recurring.values()
    assert recurring.mode == "DISABLE"
    recurring.mode = "ENABLE"  # by hand, in Kubeflow's pages
    assert apply({**NIGHTLY, "enabled": False}) == ["nightly: replaced"]
    assert apply() == ["nightly: deleted"]
    assert not kubeflow.recurring


def test_another_place_to_run_in_is_another_recurring_run(kubeflow, apply):
    schedule = {name: value for name, value in NIGHTLY.items() if name != "store"}
    options = "--store gs://bucket/store"
    assert apply(schedule, options=options) == ["nightly: created"]
    for more in (
        "--store gs://bucket/other",
        f"{options} --experiment other",
        f"{options} --pipeline-root gs://bucket/kfp",
    ):
        assert apply(schedule, options=more) == ["nightly: replaced"], more
        assert apply(schedule, options=more) == ["nightly: unchanged"], more


def test_a_run_in_progress_goes_on_without_its_schedule(kubeflow, apply, command):
    """Kubernetes would delete its workflow with the recurring run (kubeflow/pipelines#12573)."""
    apply(NIGHTLY)
    for change in ({"cron": "0 30 3 * * *"}, {"enabled": False}, None):
        (recurring,) = kubeflow.recurring.values()
        started = run_of(recurring, f"run-{len(kubeflow.runs)}", state="RUNNING")
        kubeflow.runs[started.run_id] = started
        if change:
            assert apply({**NIGHTLY, **change}) == ["nightly: replaced"]
        else:
            command(f"schedule delete nightly --host {kubeflow.url}")
    assert not kubeflow.recurring and len(kubeflow.runs) == 3 and not kubeflow.cascaded


def test_there_are_never_two_of_one_name(kubeflow, apply):
    apply(NIGHTLY)
    (run,) = kubeflow.recurring.values()
    double = copy.copy(run)
    double.recurring_run_id = "double"
    kubeflow.recurring["double"] = double
    kubeflow.page_size = 1
    assert apply(NIGHTLY) == ["nightly: unchanged, and 1 double deleted"]
    assert list(kubeflow.recurring.values()) == [run]
    kubeflow.recurring["double"] = double
    assert apply({**NIGHTLY, "cron": "0 0 5 * * *"}) == ["nightly: replaced"]
    assert names(kubeflow) == ["nightly"]


def test_others_recurring_runs_are_left_alone(kubeflow, apply, command):
    apply(NIGHTLY)
    (recurring,) = kubeflow.recurring.values()
    foreign = copy.copy(recurring)
    foreign.recurring_run_id, foreign.display_name, foreign.description = "foreign", "weekly", "someone's"
    kubeflow.recurring["foreign"] = foreign
    assert apply(WEEKLY, file="other.yaml", status=2)[0].endswith(
        "of no file of schedules: delete it, or choose another name"
    )
    assert "the file of schedules refresh" in apply(NIGHTLY, file="other.yaml", status=2)[0]
    assert not kubeflow.changes()
    assert apply({**NIGHTLY, "name": "third"}, file="other.yaml") == ["third: created"]
    assert names(kubeflow) == ["nightly", "third", "weekly"]
    printed = command(f"schedule status --host {kubeflow.url}").splitlines()
    shown = ["nightly  0 0 3 * * *  of owner refresh", "third  0 0 3 * * *  of owner other"]
    assert [line.partition(":")[0] for line in printed] == shown
    assert "did you mean nightly?" in command(f"schedule delete nihgtly --host {kubeflow.url}", status=2)
    assert "is of no file of schedules" in command(f"schedule delete weekly --host {kubeflow.url}", status=2)
    assert command(f"schedule delete nightly --host {kubeflow.url}") == "nightly: deleted\n"
    assert names(kubeflow) == ["third", "weekly"]


def test_a_dry_run_changes_nothing(kubeflow, apply):
    apply(NIGHTLY, WEEKLY)
    before = dict(kubeflow.recurring)
    changed = {**NIGHTLY, "cron": "0 0 5 * * *"}
    assert apply(changed, {**WEEKLY, "name": "new"}, options="--dry-run") == [
        "nightly: replace",
        "new: create",
        "weekly: delete",
    ]
    assert kubeflow.recurring == before and not kubeflow.changes()


def test_what_was_cut_short_is_mended_by_the_next_apply(kubeflow, apply):
    apply(NIGHTLY)
    kubeflow.faults.append(Fault("upload_version", 504))
    apply({**NIGHTLY, "pipeline": "comparison"}, status=2)
    assert names(kubeflow) == ["nightly"], "the old one goes only when the new one can come"
    kubeflow.faults.append(Fault("create_recurring_run", 504, done=True))
    apply({**NIGHTLY, "cron": "0 0 5 * * *"}, status=2)
    assert apply({**NIGHTLY, "cron": "0 0 5 * * *"}) == ["nightly: unchanged, and 1 double deleted"]
    kubeflow.faults.append(Fault("delete_recurring_run", 503, done=True))
    assert apply({**NIGHTLY, "cron": "0 0 6 * * *"}) == ["nightly: replaced"], "gone is what was wanted"
    kubeflow.faults.append(Fault("delete_recurring_run", 403))
    apply({**NIGHTLY, "cron": "0 0 7 * * *"}, status=2)
    assert apply({**NIGHTLY, "cron": "0 0 7 * * *"}) == ["nightly: unchanged, and 1 double deleted"]
    assert names(kubeflow) == ["nightly"]


@pytest.mark.parametrize("code", [400, 403, 500])
def test_a_schedule_stays_where_the_one_in_its_place_is_refused(kubeflow, apply, code):
    apply(NIGHTLY)
    before = dict(kubeflow.recurring)
    kubeflow.faults.append(Fault("create_recurring_run", code))
    apply({**NIGHTLY, "cron": "0 0 5 * * *"}, status=2)
    assert kubeflow.recurring == before and [run.mode for run in before.values()] == ["ENABLE"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"cron": "0 3 * * 1"}, "Kubeflow's first is the second: write '0 0 3 * * 1'"),
        ({"cron": "0 0 24 * * *"}, "'0 0 24 * * *': bad hour: "),
        ({"cron": "@daily"}, "has 1 field; there are six"),
        ({"time_zone": "Europe/Berlni"}, "there is no time zone 'Europe/Berlni'"),
        ({"time_zone": "Europe/Berlin"}, "this Kubeflow reads every cron in UTC"),
        (
            {"pipeline": "trainign"},
            "schedule nightly: there is no pipeline 'trainign'; did you mean training",
        ),
        ({"settings": {"train": {"epoch": 1}}}, "schedule nightly: there is no setting train.epoch"),
        ({"store": "here"}, "schedule nightly: store here is a folder of this machine"),
        ({"crno": "0"}, "there is no setting schedules.0.crno; did you mean cron?"),
        ({"name": "Nightly run"}, "schedules.0.name"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_sent(change, line, kubeflow, apply):
    (printed,) = apply({**NIGHTLY, **change}, status=2)
    assert line in printed, printed
    assert not kubeflow.requests


def test_a_schedule_that_argo_has_no_room_for_is_named(kubeflow, command, monkeypatch):
    """It has no `--part`."""
    systems = {f"seed-{seed}": {"train": {"seed": seed}} for seed in range(4)}
    write({**NIGHTLY, "pipeline": "comparison", "settings": {"comparison": {"systems": systems}}})
    monkeypatch.setenv("MAX_WORKFLOW_SIZE", "300000")
    told = command(f"schedule apply refresh.yaml --host {kubeflow.url}", status=2)
    assert told.startswith("error: schedule nightly: this run would be a workflow of about 0.")
    assert told.endswith(": set a smaller corpus.shards, or compare fewer systems at a time\n")
    assert not kubeflow.changes()


def test_files_that_are_none_are_refused(kubeflow, apply, command):
    (printed,) = apply(NIGHTLY, {**WEEKLY, "name": "nightly"}, status=2)
    assert "nightly is there twice" in printed
    assert "No such file" in command(f"schedule apply none.yaml --host {kubeflow.url}", status=2)
    Path("empty.yaml").write_text("{}")
    told = command(f"schedule apply empty.yaml --host {kubeflow.url}", status=2)
    assert "schedules empty.yaml: schedules is missing" in told
    assert not kubeflow.requests


def test_the_cluster_s_time_zone_may_be_another(kubeflow, apply):
    berlin = {**NIGHTLY, "time_zone": "Europe/Berlin"}
    assert apply(berlin, options="--time-zone Europe/Berlin") == ["nightly: created"]


@pytest.mark.parametrize(
    "cron",
    ["0 0 3 * * *", "0 */15 8-18 ? * MON-FRI", "5,35 0 0 1 jan,7 0", "0 0 0 1-31/2 * ?", "59 59 23 31 12 6"],
)
def test_crons_that_kubeflow_takes(cron):
    assert check_cron(cron) == cron


@pytest.mark.parametrize(
    "cron",
    ["60 0 3 * * *", "0 0 3 0 * *", "0 0 3 * 13 *", "0 0 3 * * 7", "0 0 3 * * FRI-MON", "0 0 3-1 * * *", "0 0 3 L * *"],
)  # fmt: skip
def test_crons_that_kubeflow_does_not_take(cron):
    with pytest.raises(ValueError, match="bad .*: seconds and minutes are 0 to 59"):
        check_cron(cron)


def test_the_example_s_schedules_can_be_applied(kubeflow, command):
    file = ROOT / "manifests" / "schedules" / "refresh.yaml"
    assert ": created" in command(f"schedule apply {file} --host {kubeflow.url} --store gs://bucket/store")
