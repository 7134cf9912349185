"""`schedule status`: a schedule that missed its time is reported as overdue."""

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import kfp_server_api as api
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiview.artifacts.champions import crown
from multiview.artifacts.store import LocalStore
from multiview.steps.runs import Start, StepState, write_start, write_state
from pipelines.kubeflow.schedules import Entry, cron_times, status
from tests.fixtures.champions import champion, read_again
from tests.fixtures.schedules import NIGHTLY, WEEKLY, run_of, write

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
"""Its first instant."""
NOW = MONDAY + timedelta(days=1, hours=12)
ENTRY = Entry("1", "nightly", "0 0 3 * * *", True, "refresh", "d", created=MONDAY)


def run(hours: float, state: str | None = "SUCCEEDED") -> api.V2beta1Run:
    """A run that began so many hours after Monday began."""
    return api.V2beta1Run(run_id="r", state=state, created_at=MONDAY + timedelta(hours=hours))


@pytest.mark.parametrize(
    ("last", "text"),
    [
        (run(27), "succeeded, began 2026-11-17 03:00 UTC; next 2026-11-18 03:00 UTC"),
        (run(27, "FAILED"), "failed, began 2026-11-17 03:00 UTC; next 2026-11-18 03:00 UTC"),
        (run(27, None), "pending, began 2026-11-17 03:00 UTC; next 2026-11-18 03:00 UTC"),
        (
            run(3, "RUNNING"),
            "running, began 2026-11-16 03:00 UTC; holds back the next, of 2026-11-17 03:00 UTC",
        ),
    ],
)
def test_a_schedule_that_runs_is_shown_with_its_next_time(last, text):
    found = status(ENTRY, last, NOW)
    assert (found.text, found.alarm) == (text, False)


@pytest.mark.parametrize(
    ("last", "since"),
    [(run(3), "2026-11-17 03:00 UTC; succeeded"), (None, "2026-11-16 03:00 UTC; has not run yet")],
)
def test_one_that_did_not_run_is_overdue_since_then(last, since):
    found = status(ENTRY, last, NOW)
    assert found.alarm and found.text.startswith(f"overdue since {since}")


@pytest.mark.parametrize(("days", "alarm"), [(2, False), (3, True), (30, True)])
def test_a_run_that_holds_back_a_second_start_is_an_alarm(days, alarm):
    found = status(ENTRY, run(3, "RUNNING"), MONDAY + timedelta(days=days))
    assert "; holds back the next, of 2026-11-17 03:00 UTC" in found.text and found.alarm == alarm


def test_kubeflow_may_take_some_minutes_and_a_new_schedule_waits():
    assert not status(ENTRY, run(3), MONDAY + timedelta(hours=27, minutes=5)).alarm
    assert status(ENTRY, run(3), MONDAY + timedelta(hours=27, minutes=15)).alarm
    assert (
        status(ENTRY, None, MONDAY + timedelta(hours=1)).text == "has not run yet; next 2026-11-16 03:00 UTC"
    )


def test_a_disabled_schedule_is_never_overdue():
    disabled = Entry("1", "nightly", "0 0 3 * * *", False, "refresh", "d", created=MONDAY)
    assert status(disabled, None, NOW).text == "disabled"


@pytest.mark.parametrize(
    ("cron", "following"),
    [
        ("0 30 2 * * MON-FRI", "2026-11-16 02:30:00"),
        ("0 0 3 ? * sun", "2026-11-22 03:00:00"),
        ("30 */15 * * * ?", "2026-11-16 00:00:30"),
        ("0 0 5 1-7/2 JAN,jul *", "2027-01-01 05:00:00"),
        ("0 0 5 * * 5/2", "2026-11-20 05:00:00"),
        ("0 0 5 * * 6/2", "2026-11-21 05:00:00"),
        ("0 0 5 * * 0", "2026-11-22 05:00:00"),
    ],
)
def test_crons_are_read_as_kubeflow_reads_them(cron, following):
    assert f"{next(cron_times(cron, MONDAY)):%Y-%m-%d %H:%M:%S}" == following


def test_days_of_the_week_end_with_saturday():
    times = [next(cron_times("0 0 5 * * 1/2", MONDAY + timedelta(days=days))) for days in (0, 1, 3, 5)]
    assert [time.isoweekday() for time in times] == [1, 3, 5, 1], "and not with Sunday as the seventh"
    assert next(cron_times("0 0 5 * * 1-3,5/2", MONDAY + timedelta(days=5))).isoweekday() == 1


def test_times_are_those_of_the_zone_that_crons_are_read_in():
    """Kubeflow tells its own in UTC: its 3 o'clock is 2 o'clock there."""
    berlin = ZoneInfo("Europe/Berlin")
    found = status(ENTRY, None, (MONDAY + timedelta(hours=1)).astimezone(berlin))
    assert found.text == "has not run yet; next 2026-11-16 03:00 CET"
    found = status(ENTRY, run(2), (MONDAY + timedelta(hours=3)).astimezone(berlin))
    assert found.text == "succeeded, began 2026-11-16 03:00 CET; next 2026-11-17 03:00 CET"


@given(st.integers(0, 300), st.integers(1, 300))
def test_no_clock_that_goes_back_makes_a_schedule_late_or_hides_that_it_is(began, passed):
    """In the night in which Berlin's summer time ends, minute by minute, against the same times in UTC."""
    night = datetime(2026, 10, 24, 22, tzinfo=UTC)
    last, now = night + timedelta(minutes=began), night + timedelta(minutes=began + passed)
    latest = api.V2beta1Run(run_id="r", state="SUCCEEDED", created_at=last)
    hourly = Entry("1", "hourly", "0 0 * * * *", True, "refresh", "d", created=night)
    said = [status(hourly, latest, now.astimezone(ZoneInfo(zone))).alarm for zone in ("UTC", "Europe/Berlin")]
    assert said[0] == said[1]


def test_a_cron_is_read_in_its_zone():
    berlin = ZoneInfo("Europe/Berlin")
    assert next(cron_times("0 0 3 * * *", MONDAY.astimezone(berlin))).astimezone(UTC).hour == 2


def test_the_command_shows_each_schedule_and_ends_with_status_1_if_one_is_overdue(kubeflow, command):
    write(NIGHTLY, WEEKLY)
    server = f"--host {kubeflow.url}"
    assert command(f"schedule status {server}") == "no schedules\n"
    command(f"schedule apply refresh.yaml {server}")
    lines = command(f"schedule status {server}").splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        f"nightly  {NIGHTLY['cron']}  of owner refresh: has not run yet",
        f"weekly  {WEEKLY['cron']}  of owner refresh: has not run yet",
    ]
    nightly, weekly = kubeflow.recurring.values()
    for recurring in (nightly, weekly):
        recurring.created_at = datetime.now(UTC) - timedelta(days=30)
    other = SimpleNamespace(recurring_run_id="another", experiment_id=nightly.experiment_id)
    kubeflow.runs = {
        "old": run_of(nightly, "old", timedelta(days=9)),
        "new": run_of(nightly, "new", timedelta(minutes=1)),
        "other": run_of(other, "other"),
    }
    lines = command(f"schedule status {server}", status=1).splitlines()
    assert "of owner refresh: succeeded, began " in lines[0]
    assert "of owner refresh: overdue since " in lines[1] and "has not run yet" in lines[1]


def test_why_the_latest_run_failed_is_said_and_is_status_1(kubeflow, command, tmp_path):
    write(NIGHTLY)
    command(f"schedule apply refresh.yaml --host {kubeflow.url}")
    (nightly,) = kubeflow.recurring.values()
    store = LocalStore(tmp_path / "store")
    parameters = api.V2beta1RuntimeConfig(parameters={"store": store.url})
    run = run_of(
        nightly, "cccc1111", timedelta(minutes=1), state="FAILED", runtime_config=parameters, state_history=[]
    )
    kubeflow.runs["cccc1111"] = run
    write_start(store, "cccc1111", Start(error="store has no champion: run a refresh first"))
    printed = command(f"schedule status --host {kubeflow.url}", status=1)
    assert "failed, began " in printed
    assert "(open-run: store has no champion: run a refresh first); next" in printed
    write_start(store, "cccc1111", Start(run="refresh-1-cccc1111"))
    failed = StepState(path="gate", step="gate", status="failed", started=time.time(), error="no questions")
    write_state(store, "refresh-1-cccc1111", failed)
    assert "(gate: no questions); next" in command(f"schedule status --host {kubeflow.url}", status=1)

    run.state_history = [api.V2beta1RuntimeStatus(update_time=datetime.now(UTC), state="CANCELING")]
    assert "of owner refresh: cancelled, began " in command(f"schedule status --host {kubeflow.url}")


def test_a_champion_whose_corpus_is_too_old_is_said_and_is_status_1(kubeflow, command, tmp_path):
    store = LocalStore(tmp_path / "store")
    now = crown(store, champion(store, 1))
    write(NIGHTLY, WEEKLY)
    command(f"schedule apply refresh.yaml --host {kubeflow.url}")
    parameters = api.V2beta1RuntimeConfig(parameters={"store": store.url})
    for recurring in kubeflow.recurring.values():
        made = run_of(recurring, recurring.display_name, runtime_config=parameters)
        kubeflow.runs[made.run_id] = made
    read_again(store, now, hours=5)
    lines = command(f"schedule status --host {kubeflow.url}").splitlines()
    assert len(lines) == 3 and lines[2].startswith(f"{store.url}: champion 1, corpus read ")
    assert "; refresh failed " in lines[2]
    read_again(store, now, hours=4, oldest=1e-6)
    lines = command(f"schedule status --host {kubeflow.url}", status=1).splitlines()
    line = f"{store.url}: champion 1, the corpus is older than refresh.oldest=1e-06 hours: "
    assert lines[2].startswith(line)
    parameters.parameters = {"store": "hdfs://nobody-reads/this"}
    lines = command(f"schedule status --host {kubeflow.url}", status=1).splitlines()
    assert (
        "hdfs://nobody-reads/this: cannot be read from here, so the age of its corpus is not known" in lines
    )
