"""One step: its outputs are found or made."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from multiview.artifacts.record import Reference, read_record
from multiview.artifacts.store import LocalStore
from multiview.config import Config
from multiview.errors import InputError
from multiview.lineage import garbage
from multiview.lineage.garbage import Garbage
from multiview.steps.context import StepContext
from multiview.steps.events import read_metrics
from multiview.steps.execution import find_outputs, run_step
from multiview.steps.runs import Status, read_state
from multiview.steps.step import FORWARDED_FILE
from multiview.steps.work import StepReporter, Work
from tests.fixtures.counting_step import CALLS, COUNT, count, passages, read, run, settings
from tests.fixtures.published import publish


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    CALLS.clear()
    yield LocalStore(tmp_path / "store")


def test_outputs_are_made_once_and_found_afterwards(store: LocalStore) -> None:
    made, reporter = run(COUNT, store, "the old king won")
    assert {kind: record.kind for kind, record in made.items()} == {"counts": "counts", "words": "words"}
    assert read(store, made["counts"], "count.txt") == "4"
    assert made["counts"].facts == {"longest": "king"}
    assert [(event.name, event.value) for event in read_metrics(store, made["counts"].data)] == [("words", 4)]
    state = read_state(store, "run", "count")
    assert state is not None and state == reporter.state
    assert state.status == "done" and state.attempt == made["counts"].data and state.key == made["words"].key
    assert state.outputs == {kind: Reference.to(store, record) for kind, record in made.items()}

    found, reporter = run(COUNT, store, "the old king won", "again")
    assert found == made and CALLS == ["the old king won"]
    assert (reporter.state.status, reporter.state.attempt) == ("found", made["counts"].data)


def test_a_step_of_which_one_output_is_missing_makes_it_again(store: LocalStore) -> None:
    made, _ = run(COUNT, store, "one two")
    store.remove(made["words"].folder)
    again, reporter = run(COUNT, store, "one two")
    assert reporter.state.status == "done" and len(CALLS) == 2
    assert again["counts"] == made["counts"], "the first attempt counts"
    assert again["words"].digest == made["words"].digest


def test_a_step_whose_effect_was_removed_is_done_again(store: LocalStore) -> None:
    marked = replace(COUNT, still_holds="tests.fixtures.counting_step:holds")
    made, _ = run(marked, store, "one two")
    assert run(marked, store, "one two")[1].state.status == "done"
    again, _ = run(marked, store, "one two")
    assert again["counts"].data != made["counts"].data, "what was done last counts"
    store.create(f"marks/{made['counts'].key}", b"")
    assert run(marked, store, "one two")[1].state.status == "found"
    assert len(CALLS) == 3


def test_a_failing_step_leaves_its_line_and_no_artifact(store: LocalStore) -> None:
    with pytest.raises(InputError, match="row 1 has no words"):
        run(COUNT, store, "")
    state = read_state(store, "run", "count")
    assert state is not None and state.bad_input
    assert (state.status, state.error) == ("failed", "passages: row 1 has no words")
    assert read_record(store, "counts", state.key) is None
    assert not [file for file in store.files("counts") if not file.endswith(".events.jsonl")]


def test_checkpoints_go_once_the_outputs_are_there(store: LocalStore) -> None:
    checkpointed = replace(COUNT, checkpoints=True)
    made, _ = run(checkpointed, store, "one two")
    assert made["words"].file("so-far.txt") and store.folders("checkpoint") == []


def test_forwarded_artifacts_are_outputs_of_the_step(store: LocalStore) -> None:
    forwarding = replace(COUNT, function_path="tests.fixtures.counting_step:forward", forwards=("corpus",))
    made, reporter = run(forwarding, store, "one two")
    (passages,) = made["counts"].inputs["passages"]
    assert reporter.state.outputs["corpus"] == passages
    assert run(forwarding, store, "one two")[1].state.outputs["corpus"] == passages
    file = Path(store.root) / made["counts"].data / FORWARDED_FILE
    file.write_text(file.read_text() + " ")
    with pytest.raises(InputError, match=rf"{FORWARDED_FILE} has .* bytes .*: remove the folder .*/counts/"):
        run(forwarding, store, "one two")
    file.unlink()
    with pytest.raises(InputError, match=rf"{FORWARDED_FILE} is missing: remove the folder .*/counts/"):
        run(forwarding, store, "one two")


def test_a_step_whose_forwarded_artifact_was_collected_is_done_again(store: LocalStore) -> None:
    forwarding = replace(COUNT, function_path="tests.fixtures.counting_step:forward", forwards=("corpus",))
    first, _ = run(forwarding, store, "one two")
    (read,) = first["counts"].inputs["passages"]
    work = Work.resolve(forwarding, settings(), {"passages": read}, store)
    assert find_outputs(work, store) == first
    list(garbage.remove_all(store, [Garbage("passages", read.address.removeprefix(f"{store.url}/"), 0)], set))
    assert find_outputs(work, store) == {}


def test_outputs_of_altered_inputs_are_never_published(store: LocalStore) -> None:
    """An input of the same size with other bytes is found before the step begins."""
    reference = passages(store, "some words")
    file = next(Path(store.root).glob("passages/k/attempts/*/a.txt"))
    file.write_text("nice birds")
    reporter = StepReporter(store, "run", "count", COUNT.name)
    with pytest.raises(InputError, match=r"a\.txt was altered"):
        run_step(COUNT, reporter, settings(), {"passages": reference})
    assert not list(Path(store.root).glob("counts/*/artifact.json"))
    file.write_text("some words")
    outputs = run_step(COUNT, reporter, settings(), {"passages": reference})
    assert read(store, outputs["words"], "words.txt").split() == ["some", "words"]


def alter(context: StepContext) -> None:
    """The step `count`, while somebody writes to its input."""
    file = context.input("passages").path / "a.txt"
    text = file.read_text()
    file.write_text(text.upper())
    try:
        count(context)
    finally:
        if RESTORED:
            file.write_text(text)


RESTORED: list[bool] = []


@pytest.mark.parametrize(
    ("restored", "said"),
    [
        (False, r"a\.txt was altered .*remove the folder"),
        (True, r"a\.txt was written to while step count read it, .*: run again"),
    ],
)
def test_outputs_of_inputs_that_are_altered_meanwhile_are_never_published(
    store: LocalStore, restored: bool, said: str, monkeypatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "RESTORED", [True] * restored)
    step = replace(COUNT, function_path="tests.steps.test_execution:alter")
    reporter = StepReporter(store, "run", "count", step.name)
    with pytest.raises(InputError, match=said):
        run_step(step, reporter, settings(), {"passages": passages(store, "some words")})
    assert not list(Path(store.root).glob("*/*/attempts/*/words.txt"))


def replace_source(context: StepContext) -> None:
    """The step `count`, while somebody replaces its source."""
    count(context)
    SOURCE.write_text("Tuesday")


def source(_: Config) -> dict[str, object]:
    return {"corpus": SOURCE.read_text()}


SOURCE = Path()


def test_outputs_of_a_source_that_is_replaced_meanwhile_are_never_published(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path / "source.txt")
    SOURCE.write_text("Monday")
    here = "tests.steps.test_execution"
    step = replace(COUNT, function_path=f"{here}:replace_source", fingerprint_path=f"{here}:source")
    with pytest.raises(InputError, match="step count: corpus changed while the step read it, .*: run again"):
        run(step, store, "some words")
    assert not list(Path(store.root).glob("*/*/attempts/*/words.txt"))
    assert run(step, store, "some words")[1].state.status == "done", "the same command goes on"


def test_outputs_that_garbage_collection_takes_as_they_are_found_are_made_again(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _ = run(COUNT, store, "the old king won")
    finish = StepReporter.finish

    def taken(reporter: StepReporter, status: Status, attempt: str, outputs: Mapping[str, Reference]) -> None:
        finish(reporter, status, attempt, outputs)
        if status == "found":
            list(garbage.remove_all(store, [Garbage("counts", before["counts"].folder, 0)], set))

    monkeypatch.setattr(StepReporter, "finish", taken)
    after, reporter = run(COUNT, store, "the old king won", "again")
    assert CALLS == 2 * ["the old king won"]
    assert (
        after["counts"].digest == before["counts"].digest and read(store, after["counts"], "count.txt") == "4"
    )
    assert read_state(store, "run", "again") == reporter.state
    assert reporter.state.status == "done" and reporter.state.attempt == after["counts"].data


FORWARDS_OWN = replace(
    COUNT, function_path="tests.fixtures.counting_step:forward_own", forwards=("corpus",), reads_store=True
)


def collect_forwarded(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Lets what `FORWARDS_OWN` forwards be collected when it has written so, the first `times` times."""
    finish, left = StepReporter.finish, iter(range(times))

    def collected(
        reporter: StepReporter, status: Status, attempt: str, outputs: Mapping[str, Reference]
    ) -> None:
        finish(reporter, status, attempt, outputs)
        if next(left, None) is not None:
            list(garbage.remove_all(reporter.store, [Garbage("passages", "passages/own", 0)], set))

    monkeypatch.setattr(StepReporter, "finish", collected)


def test_a_step_whose_forwarded_artifact_is_collected_while_it_works_is_done_once_more(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect_forwarded(monkeypatch, times=1)
    _, reporter = run(FORWARDS_OWN, store, "one two")
    own = read_record(store, "passages", "own")
    assert own is not None and reporter.state.outputs["corpus"] == Reference.to(store, own)
    assert (reporter.state.status, CALLS) == ("done", 2 * ["one two"])
    store.remove("passages/k")
    collect_forwarded(monkeypatch, times=2)
    with pytest.raises(
        InputError, match="^step count: multiview gc collected what it forwards: run it again"
    ):
        run(FORWARDS_OWN, store, "three four")
    assert CALLS[2:] == 2 * ["three four"]
    state = read_state(store, "run", "count")
    assert state and state.status == "failed"


def test_a_step_whose_forwarded_artifact_was_made_again_with_other_bytes_forwards_the_new_one(
    store: LocalStore,
) -> None:
    first, _ = run(FORWARDS_OWN, store, "one two")
    store.remove("passages/own")
    anew, _ = publish(store, "own", "other words")
    step = replace(FORWARDS_OWN, function_path=f"{__name__}:forward_what_is_there")
    second, reporter = run(step, store, "one two")
    assert second["counts"].key == first["counts"].key
    assert reporter.state.outputs["corpus"] == Reference.to(store, anew)
    work = Work.resolve(FORWARDS_OWN, settings(), {"passages": passages(store, "one two")}, store)
    assert find_outputs(work, store)


def forward_what_is_there(context: StepContext) -> None:
    count(context)
    own = read_record(context.store, "passages", "own")
    assert own is not None
    reference = Reference.to(context.store, own).model_dump()
    (context.output("counts") / FORWARDED_FILE).write_text(json.dumps({"corpus": reference}))
