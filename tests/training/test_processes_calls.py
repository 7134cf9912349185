"""What a training process calls of the process that started it."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from multiview.errors import InputError
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.events import EventLog, Events
from multiview.training.processes import RemoteCheckpoints, RemoteEvents, answering
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.events import RecordedEvents


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_events_and_checkpoints_reach_the_starting_process(tmp_path: Path) -> None:
    events, kept = RecordedEvents(), KeptCheckpoints(tmp_path / "kept")
    (tmp_path / "checkpoint-4").mkdir()
    with answering({"events": events, "checkpoints": kept}) as (line, raised):
        remote = RemoteEvents(line)
        remote.metric("loss", 0.5, step=3)
        remote.metric("avq", 1.5)
        remote.warning("slow")
        remote.fact("steps", {"all": 3})
        remote.progress(1, 4, "steps")
        checkpoints = RemoteCheckpoints(line, tmp_path / "found")
        assert checkpoints.latest() == tmp_path / "found"
        checkpoints.publish(4, tmp_path / "checkpoint-4")
    assert raised == [] and kept.latest() == tmp_path / "kept" / "4"
    assert events.metrics == [("loss", 0.5, 3), ("avq", 1.5, None)]
    assert (events.warnings, events.facts, events.steps) == (
        ["slow"],
        {"steps": {"all": 3}},
        [(1, 4, "steps")],
    )


def test_what_a_call_raises_is_raised_on_both_sides(tmp_path: Path) -> None:
    class Full(RecordedEvents):
        def fact(self, name: str, value: Any) -> None:
            raise InputError("the bucket is full")

    with (
        answering({"events": Full()}) as (line, raised),
        pytest.raises(RuntimeError, match=r"^the bucket is full$"),
    ):
        RemoteEvents(line).fact("steps", 3)
    assert [str(error) for error in raised] == ["the bucket is full"]


def test_remote_methods_are_those_of_what_they_reach() -> None:
    assert public(RemoteEvents) == public(Events)
    for remote, local, named in (
        (RemoteEvents, EventLog, public(RemoteEvents)),
        (RemoteCheckpoints, StoredCheckpoints, {"latest", "publish"}),
    ):
        for name in named:
            reached, called = (inspect.signature(getattr(kind, name)) for kind in (local, remote))
            assert list(called.parameters) == list(reached.parameters), name
