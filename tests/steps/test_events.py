"""The events of an attempt: written while it works, read by others, and never in its way."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    read_progress,
)

ATTEMPT = "model/key/attempts/a"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def test_events_are_read_as_they_were_reported_while_the_step_works(store: LocalStore) -> None:
    log = EventLog(store, ATTEMPT, (lines := []).append)
    assert list(read_events(store, ATTEMPT)) == []
    log.metric("loss", 2, 10)
    log.metric("accuracy", 0.5)
    log.warning("3 questions have\nno answer")
    log.fact(lengths={"längste": 7})
    metric, accuracy, warning = read_events(store, ATTEMPT)
    assert metric == MetricEvent(metric.time, "loss", 2.0, 10)
    assert accuracy == MetricEvent(accuracy.time, "accuracy", 0.5, None)
    assert warning == WarningEvent(warning.time, "3 questions have\nno answer")
    assert metric.time <= accuracy.time <= warning.time
    assert log.facts == {"lengths": {"längste": 7}}
    assert lines == ["warning: 3 questions have\nno answer"], "of which its log has a line at once"
    assert list(read_metrics(store, ATTEMPT)) == [metric, accuracy]


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


def test_facts_that_an_older_version_wrote_are_no_damage(store: LocalStore) -> None:
    log = EventLog(store, ATTEMPT)
    log.metric("loss", 2, 10)
    file = store.root / events_path(ATTEMPT)
    file.write_text('{"event": "fact", "name": "passages", "value": 7}\n' + file.read_text())
    assert [event.value for event in read_metrics(store, ATTEMPT)] == [2.0]
    assert len(list(read_events(store, ATTEMPT))) == 2, "as many as were shipped then"


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


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PROGRESS_SECONDS", 0.01)
    monkeypatch.setattr(events, "LINE_SECONDS", 0.05)


def wait_until(true: Callable[[], object]) -> None:
    ends = time.monotonic() + 30
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_progress_is_the_latest_and_written_now_and_then(store: LocalStore, often: None) -> None:
    log = EventLog(store, ATTEMPT)
    log.progress(100, 2000, "passages")
    assert read_progress(store, ATTEMPT) is None, "a step never waits for it"
    with log.lines():
        log.progress(200, 2000, "passages")
        log.progress(300, 2000, "passages")
        wait_until(lambda: (now := read_progress(store, ATTEMPT)) and now.done == 300)
    assert log.text() == "", "it is no event"


def test_a_line_now_and_then_says_what_a_step_does_how_far_it_is_and_how_its_training_goes(
    store: LocalStore, often: None
) -> None:
    lines: list[str] = []
    log = EventLog(store, ATTEMPT, lines.append)
    log.begin("fetching its inputs")
    with log.lines():
        wait_until(lambda: lines)
        assert re.fullmatch(r"fetching its inputs for 0:00:0\d", lines[0])
        began = time.time()
        log.progress(1000, 4000, "steps")  # a training that goes on from a checkpoint
        log.metric("loss", 0.41234, step=1000)
        log.metric("learning_rate", 1.8e-05, step=1000)
        log.metric("gradient_norm", 3.0, step=1000)
        log.metric("validation_mrr_at_10", 0.5, step=1000)
        time.sleep(0.2)
        log.progress(1010, 4000, "steps")
        seen = len(lines)
        wait_until(lambda: len(lines) > seen + 1)
        line = lines[-1]
        took = time.time() - began
        log.begin("writing its outputs")
        wait_until(lambda: lines[-1].startswith("writing its outputs for "))
    found = re.fullmatch(
        r"1,010/4,000 steps, ([\d.]+)/s, (0:\d\d:\d\d) left, loss 0.4123, learning rate 1.8e-05, validation mrr at 10 0.5",
        line,
    )
    assert found and 10 / (took + 0.1) <= float(found[1]) <= 10 / 0.2 + 0.1, (
        "what this attempt has done per second"
    )
    told = read_progress(store, ATTEMPT)
    assert told and told.line == lines[-1] and began < told.time <= time.time()


def test_what_a_step_says_while_a_line_is_written_is_kept(
    store: LocalStore, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, pace = EventLog(store, ATTEMPT), events.pace

    def meanwhile(*given: Any) -> str:
        monkeypatch.setattr(events, "pace", pace)
        log.progress(20, 20, "steps")
        return pace(*given)

    monkeypatch.setattr(events, "pace", meanwhile)
    log.progress(10, 20, "steps")
    with log.lines():
        wait_until(lambda: (now := read_progress(store, ATTEMPT)) and now.line.startswith("20/20"))


def test_a_second_pass_over_the_same_has_its_own_rate(store: LocalStore, often: None) -> None:
    lines: list[str] = []
    log = EventLog(store, ATTEMPT, lines.append)
    with log.lines():
        for unit, done in (("questions", 20), ("questions", 3), ("searches", 5)):
            log.progress(done, 20, unit)
            seen = len(lines)
            wait_until(lambda: len(lines) > seen + 1)  # noqa: B023
            assert lines[-1] == f"{done}/20 {unit}"


def test_a_log_that_fails_and_a_store_that_fails_end_no_step(store: LocalStore, often: None) -> None:
    def full(text: str) -> None:
        raise OSError("No space left on device")

    with EventLog(store, ATTEMPT, full).lines():
        time.sleep(0.2)
    (store.root / progress_path("model/key/attempts/b")).mkdir(parents=True)
    with (log := EventLog(store, "model/key/attempts/b")).lines():
        log.progress(1, 2, "passages")
        time.sleep(0.2)
