"""What a training process may call of the process that started it: what is declared, and nothing else."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from multiview.errors import InputError
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.events import EventLog, Events
from multiview.training.remote import RemoteCheckpoints, RemoteEvents, answering, declared_calls
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.events import RecordedEvents


class Clearable(RecordedEvents):
    """Events that have more methods than training processes may call."""

    cleared = False

    def clear(self) -> None:
        self.cleared = True


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_events_and_checkpoints_reach_the_starting_process(tmp_path: Path) -> None:
    events, kept = RecordedEvents(), KeptCheckpoints(tmp_path / "kept")
    (tmp_path / "checkpoint-4").mkdir()
    with answering(declared_calls(events, kept)) as (line, raised):
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


@pytest.mark.parametrize(
    "remote", [lambda line: RemoteEvents(line), lambda line: RemoteCheckpoints(line, None)]
)
def test_what_is_not_declared_raises_at_once_on_the_calling_side(remote: Any) -> None:
    events = Clearable()
    with answering(declared_calls(events, None)) as (line, raised):
        for name in ("clear", "metrci"):
            with pytest.raises(AttributeError, match=name):
                getattr(remote(line), name)()
    assert raised == [] and not events.cleared, "nothing was sent"


@pytest.mark.parametrize("call", [("clear", ()), ("__init__", ()), ("publish", (4, Path("folder")))])
def test_what_is_not_declared_is_refused_by_the_answering_side(call: tuple[str, Any]) -> None:
    """`publish` cannot be called either if no checkpoints are kept."""
    events = Clearable()
    with answering(declared_calls(events, None)) as (line, raised):
        line.send(call)
        assert f"{call[0]} is not for training processes to call" in line.recv()
    assert [type(error) for error in raised] == [RuntimeError] and not events.cleared


def test_what_a_call_raises_is_raised_on_both_sides(tmp_path: Path) -> None:
    class Full(RecordedEvents):
        def fact(self, name: str, value: Any) -> None:
            raise InputError("the bucket is full")

    with (
        answering(declared_calls(Full(), None)) as (line, raised),
        pytest.raises(RuntimeError, match=r"^the bucket is full$"),
    ):
        RemoteEvents(line).fact("steps", 3)
    assert [str(error) for error in raised] == ["the bucket is full"]


def test_remote_methods_are_those_of_what_they_reach() -> None:
    assert public(RemoteEvents) == public(Events)
    assert public(RemoteEvents) | {"publish"} == set(
        declared_calls(RecordedEvents(), KeptCheckpoints(Path("kept")))
    )
    for remote, local in ((RemoteEvents, EventLog), (RemoteCheckpoints, StoredCheckpoints)):
        for name in public(remote):
            reached, called = (inspect.signature(getattr(kind, name)) for kind in (local, remote))
            assert list(called.parameters) == list(reached.parameters), name
