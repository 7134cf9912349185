"""The events of an attempt: written while it works, read by others, and never in its way."""

import json
from pathlib import Path

import pytest

from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.steps import events
from multiview.steps.events import (
    EventLog,
    MetricEvent,
    WarningEvent,
    events_path,
    progress_path,
    read_events,
    read_metrics,
)

ATTEMPT = "model/key/attempts/a"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def test_events_are_read_as_they_were_reported_while_the_step_works(store: LocalStore) -> None:
    log = EventLog(store, ATTEMPT)
    log.metric("loss", 2, 10)
    log.metric("accuracy", 0.5)
    log.warning("3 questions have\nno answer")
    log.fact("lengths", {"längste": 7})
    metric, accuracy, warning = read_events(store, ATTEMPT)
    assert metric == MetricEvent(metric.time, "loss", 2.0, 10)
    assert accuracy == MetricEvent(accuracy.time, "accuracy", 0.5, None)
    assert warning == WarningEvent(warning.time, "3 questions have\nno answer")
    assert metric.time <= accuracy.time <= warning.time
    assert log.facts == {"lengths": {"längste": 7}}
    assert list(read_metrics(store, ATTEMPT)) == [metric, accuracy]


def test_an_attempt_without_events_has_none(store: LocalStore) -> None:
    assert list(read_events(store, ATTEMPT)) == []


def test_a_line_that_a_kill_cut_short_is_left_out(store: LocalStore) -> None:
    log = EventLog(store, ATTEMPT)
    log.metric("loss", 2.0, 1)
    log.metric("loss", 1.0, 2)
    file = store.root / events_path(ATTEMPT)
    file.write_bytes(file.read_bytes()[:-5])
    assert [event.value for event in read_metrics(store, ATTEMPT)] == [2.0]


@pytest.mark.parametrize(
    "line", ["null", "[1, 2]", "5", "{}", '{"event": 5}', '{"event": "metric", "nam": 1}']
)
def test_a_line_that_is_no_event_is_named(store: LocalStore, line: str) -> None:
    log = EventLog(store, ATTEMPT)
    log.metric("loss", 2, 10)
    with (store.root / events_path(ATTEMPT)).open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(InputError, match=rf"{events_path(ATTEMPT)} line 2 is no event: remove"):
        list(read_events(store, ATTEMPT))


def test_a_resumed_log_begins_with_the_interrupted_one_once(store: LocalStore) -> None:
    interrupted = EventLog(store, "model/key/attempts/interrupted")
    interrupted.metric("loss", 2.0, 1)
    log = EventLog(store, ATTEMPT)
    log.warning("begun")
    log.resume(interrupted.text())
    log.metric("loss", 1.0, 2)
    log.close()
    assert [getattr(event, "value", None) for event in read_events(store, ATTEMPT)] == [2.0, None, 1.0]
    assert log.text() == (store.root / events_path(ATTEMPT)).read_text()


def test_events_that_cannot_be_written_stop_nothing_and_come_with_the_next_one(store: LocalStore) -> None:
    log = EventLog(store, ATTEMPT)
    obstacle = store.root / events_path(ATTEMPT)
    obstacle.mkdir(parents=True)
    log.metric("loss", 2.0, 1)
    with pytest.raises(OSError):
        log.close()
    obstacle.rmdir()
    log.metric("loss", 1.0, 2)
    assert [event.value for event in read_metrics(store, ATTEMPT)] == [2.0, 1.0]


def test_progress_is_the_latest_and_written_now_and_then(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = store.root / progress_path(ATTEMPT)
    monkeypatch.setattr(events, "PROGRESS_SECONDS", float("inf"))
    log = EventLog(store, ATTEMPT)
    log.progress(100, 2000, "passages")
    assert not file.exists()
    monkeypatch.setattr(events, "PROGRESS_SECONDS", 0)
    log.progress(200, 2000, "passages")
    log.progress(300, 2000, "passages")
    assert json.loads(file.read_text()) == {"done": 300, "total": 2000, "unit": "passages"}
    assert log.text() == "", "it is no event"
