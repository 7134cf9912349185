"""The state file of a step follows it while it runs."""

from pathlib import Path

import pytest

from multiview import environment
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.steps.runs import StepState, read_state
from multiview.steps.work import StepReporter, Work
from tests.fixtures.counting_step import COUNT, passages, settings

PATH = "camvr/round-2/count"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def written(store: LocalStore) -> StepState:
    state = read_state(store, "run", PATH)
    assert state is not None
    return state


def test_the_state_is_written_as_the_step_goes_on(store: LocalStore) -> None:
    reporter = StepReporter(store, "run", PATH, "count")
    given = passages(store, "one")
    work = Work.resolve(COUNT, settings(7), {"passages": given}, store)
    reporter.describe(work)
    assert read_state(store, "run", PATH) is None, "it comes with the next write"
    reporter.begin_attempt("counts/key/attempts/a")
    running = written(store)
    assert (running.status, running.attempt, running.key) == ("running", "counts/key/attempts/a", work.key)
    assert running.config == {"bm25": {"depth": 7}} and running.inputs == {"passages": [given]}
    assert running.ended is None and not running.finished
    reporter.finish("found", "counts/key/attempts/b", {"counts": given})
    found = written(store)
    assert found.finished and found.ended is not None and found.ended >= found.started == running.started
    assert (found.attempt, found.outputs) == ("counts/key/attempts/b", {"counts": given})


def test_bad_input_is_reported_in_its_own_words(store: LocalStore) -> None:
    reporter = StepReporter(store, "run", PATH, "count")
    with pytest.raises(InputError), reporter.failures():
        raise InputError("passages: row 3 has no text")
    state = written(store)
    assert (state.status, state.error, state.bad_input) == ("failed", "passages: row 3 has no text", True)


@pytest.mark.parametrize("error", [ZeroDivisionError("by\nnone"), KeyboardInterrupt("by none")])
def test_any_other_failure_is_one_line_with_its_place(store: LocalStore, error: BaseException) -> None:
    reporter = StepReporter(store, "run", PATH, "count")
    with pytest.raises(type(error)), reporter.failures():
        raise error
    state = written(store)
    assert state.error is not None and not state.bad_input and state.status == "failed"
    assert state.error.startswith(f"{type(error).__name__}: by none (test_work_reporter.py:")


@pytest.mark.parametrize("began_first", [True, False])
def test_an_attempt_that_fails_late_leaves_anothers_success(store: LocalStore, began_first: bool) -> None:
    """As a node that was cut off, or the same command a second time that is interrupted."""
    reporters = [StepReporter(store, "run", PATH, "count") for _ in range(2)]
    late, other = reporters if began_first else reversed(reporters)
    for reporter in reporters:
        reporter.begin_attempt(f"counts/key/attempts/{id(reporter)}")
    other.finish("done", other.state.attempt, {})
    late.fail(RuntimeError("its node was gone"))
    assert written(store).status == "done"
    again = StepReporter(store, "run", PATH, "count")
    again.fail(InputError("another start cannot read its inputs"))
    assert written(store).status == "failed"


def test_the_code_of_the_step_is_that_of_the_environment(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(environment.GIT_SHA, "abc-dirty")
    monkeypatch.setenv(environment.IMAGE, "registry.example/cpu@sha256:1")
    StepReporter(store, "run", PATH, "count").write()
    assert (written(store).git_sha, written(store).image) == ("abc-dirty", "registry.example/cpu@sha256:1")
