"""What `multiview gc` takes and what it leaves."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from multiview import names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.champions import crown, rollback
from multiview.artifacts.record import Reference, load_record, load_reference, read_record, split_address
from multiview.artifacts.store import LocalStore, Store
from multiview.cli.commands import collect
from multiview.cli.lookup import Lookup
from multiview.errors import InputError
from multiview.lineage import garbage
from multiview.lineage.trace import trace
from multiview.steps.runs import Run, StepState, write_run, write_state
from tests.fixtures.champions import artifact, champion

DAYS = 7.0


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def aged(store: LocalStore, folder: str = "", days: float = 30) -> None:
    then = time.time() - days * garbage.DAY
    for file in (store.root / folder).rglob("*"):
        os.utime(file, (then, then))


def used(store: Store, run: str, days: float, inputs: list[Reference], outputs: list[Reference]) -> None:
    """A run that read and wrote some artifacts, and ended so many days ago, after ten days of work."""
    then = time.time() - days * garbage.DAY
    write_run(store, Run(id=run, pipeline="refresh", config={}))
    kinds = {split_address(reference.address)[1]: reference for reference in outputs}
    state = StepState(
        path="a/step",
        step="index",
        status="done",
        started=then - 10 * garbage.DAY,
        ended=then,
        inputs={"read": inputs},
        outputs=kinds,
    )
    write_state(store, run, state)


def collected(store: Store, champions: int = 3, indexes: tuple[str, ...] = ()) -> set[str]:
    keep = garbage.referenced(store, DAYS, champions, indexes)
    return {piece.path for piece in garbage.collectable(store, keep, DAYS)}


def test_what_nothing_refers_to_goes_and_all_other_kinds_stay(store: LocalStore) -> None:
    for kind in (*garbage.COLLECTABLE, names.MODEL, names.PASSAGES, names.EVALUATION, names.NEGATIVES):
        artifact(store, kind, "old")
    aged(store)
    assert collected(store) == {f"{kind}/old" for kind in garbage.COLLECTABLE}
    for piece in garbage.collectable(store, set(), DAYS):
        assert piece.bytes == sum(entry.bytes for entry in store.entries(piece.path)) > 0


def test_what_is_young_stays(store: LocalStore) -> None:
    artifact(store, names.INDEX, "young")
    Attempt(store, names.EMBEDDINGS, "growing").path.joinpath("views.f16").write_bytes(b"1")
    assert collected(store) == set()


def test_all_that_attempts_leave_which_became_nothing_goes_whatever_their_kind(store: LocalStore) -> None:
    """Files, events, progress, and files that they were killed while writing, whose names begin with a dot."""
    artifact(store, names.MODEL, "made")
    before = store.files("model")
    lost = [Attempt(store, names.MODEL, key) for key in ("made", "never")]
    for attempt in lost:
        progress = f"{attempt.id}.progress.json"
        left = (f"{attempt.id}/half", f"{attempt.id}.events.jsonl", progress, f".{progress}.{'0' * 32}")
        for file in left:
            (attempt.path.parent / file).write_text("half")
    aged(store)
    assert collected(store) == {attempt.data for attempt in lost}
    list(garbage.remove_all(store, garbage.collectable(store, set(), DAYS), set))
    assert store.files("model") == before


def test_champions_keep_what_they_answer_with(store: LocalStore) -> None:
    for number in (1, 2, 3, 4):
        crown(store, champion(store, number))
    artifact(store, names.INDEX, "refused")
    aged(store)
    assert collected(store) == {"index/of-1", "index/refused"}
    assert collected(store, champions=1) == {"index/of-1", "index/of-2", "index/of-3", "index/refused"}
    rollback(store)
    assert collected(store) == {"index/of-1", "index/refused"}, "the same indexes, named by one more"


def test_aliases_keep_their_indexes(store: LocalStore) -> None:
    kept = artifact(store, names.INDEX, "aliased")
    artifact(store, names.INDEX, "other")
    aged(store)
    assert collected(store, indexes=(kept.address,)) == {"index/other"}


@pytest.mark.parametrize(("days", "goes"), [(6.0, set()), (8.0, {"index/made", "embeddings/read"})])
def test_recent_runs_keep_what_they_read_and_wrote(store: LocalStore, days: float, goes: set[str]) -> None:
    read, made = artifact(store, names.EMBEDDINGS, "read"), artifact(store, names.INDEX, "made")
    used(store, "run", days, [read], [made])
    aged(store)
    assert collected(store) == goes


def test_removal_that_was_interrupted_goes_on(store: LocalStore) -> None:
    artifact(store, names.INDEX, "old")
    aged(store)
    (piece,) = garbage.collectable(store, set(), DAYS)
    store.remove(f"{piece.path}/{names.RECORD_FILE}")  # and then the power failed
    assert read_record(store, names.INDEX, "old") is None, "it is no artifact any more"
    (rest,) = garbage.collectable(store, set(), DAYS)
    list(garbage.remove_all(store, [rest], set))
    assert store.files(names.INDEX) == []
    list(garbage.remove_all(store, [rest], set))


def test_what_was_collected_is_still_known_and_can_be_made_again(store: LocalStore) -> None:
    before = artifact(store, names.INDEX, "old")
    record = read_record(store, names.INDEX, "old")
    aged(store)
    (piece,) = garbage.collectable(store, set(), DAYS)
    list(garbage.remove_all(store, [piece], set))
    assert read_record(store, names.INDEX, "old") is None
    assert record is not None and store.read(f"index/old/{names.COLLECTED_FILE}") == record.to_json()
    aged(store)
    assert collected(store) == set(), "nothing is left to collect"
    (found,) = Lookup(store.url, None).artifacts(before.address)
    assert trace([found]).roots[0].node and found == before
    with pytest.raises(
        InputError, match="there is no artifact at .*: multiview gc collected it; run the step"
    ):
        load_record(before.address)
    (store.root / "index/old" / names.COLLECTED_FILE).write_text("{}")
    for find in (Lookup(store.url, None).artifacts, load_record):
        with pytest.raises(InputError, match="there is no artifact at .*: run the step that makes it again"):
            find(before.address)
    assert artifact(store, names.INDEX, "old") == before


def test_a_run_whose_base_model_was_downloaded_first_has_ended(store: LocalStore) -> None:
    """A run here makes base models before the step that it lists first."""
    then = time.time()
    write_run(
        store,
        Run(id="ended", pipeline="training", config={}, steps=["split", "camvr/initial-model", "index"]),
    )
    made = {"index": artifact(store, names.INDEX, "old")}
    aged(store)
    for path, started in (("camvr/initial-model", then - 600), ("split", then - 60), ("index", then - 30)):
        outputs = made if path == "index" else {}
        state = StepState(
            path=path, step=path, status="done", started=started, ended=started + 1, outputs=outputs
        )
        write_state(store, "ended", state)
    left = garbage.collectable(store, garbage.referenced(store, 0, 3), 0)
    assert [piece.path for piece in left] == ["index/old"]


def test_a_run_with_a_damaged_description_keeps_what_it_used_however_old(store: LocalStore) -> None:
    read, other = artifact(store, names.EMBEDDINGS, "read"), artifact(store, names.INDEX, "other")
    used(store, "run", 30, [read], [])
    used(store, "whole", 30, [], [other])
    aged(store)
    assert collected(store) == {"embeddings/read", "index/other"}
    store.replace("runs/run/run.json", b'{"id": 3')
    kept: list[str] = []
    keep = garbage.referenced(store, DAYS, 3, (), kept.append)
    assert {piece.path for piece in garbage.collectable(store, keep, DAYS)} == {"index/other"}
    (line,) = kept
    assert line.startswith(f"{store.url}/runs/run/run.json is damaged: remove it")
    assert line.endswith("all that its steps used is kept")


def test_the_command_names_what_is_damaged(store: LocalStore, capsys: pytest.CaptureFixture[str]) -> None:
    artifact(store, names.INDEX, "damaged")
    artifact(store, names.INDEX, "old")
    store.replace(f"index/damaged/{names.RECORD_FILE}", b"{}")
    store.replace("runs/run/run.json", b"{")
    aged(store)
    for delete in (False, True):
        collect(store, lambda keep: garbage.referenced(store, DAYS, 3, (), keep), DAYS, delete)
        lines = capsys.readouterr().out.splitlines()
        kept = [line for line in lines if line.startswith("kept: ")]
        assert len(kept) == 2 and "index/damaged/artifact.json" in kept[1] and "runs/run/run.json" in kept[0]
    assert store.files("index/damaged") and read_record(store, names.INDEX, "old") is None


def test_what_a_run_that_is_going_uses_stays_whatever_the_days(store: LocalStore) -> None:
    found = {"index": artifact(store, names.INDEX, "found")}
    aged(store)
    write_run(store, Run(id="going", pipeline="refresh", config={}, steps=["champion", "index"]))
    now = time.time()
    growing = Attempt(store, names.INDEX, "growing")
    (growing.path / "views.f16").write_bytes(b"1")
    for path, status, started, ended, goes in (
        ("champion", "found", now, now, False),
        ("index", "done", now - 86_400, now - 86_300, False),  # of yesterday's run of the same name
        ("index", "failed", now - 86_400, now - 86_300, False),
        ("index", "done", now - 1_800, now - 1_700, False),  # of a start half an hour ago
        ("index", "failed", now - 5, now - 1, False),  # of a start that was repeated at once
        ("index", "failed", now, now, True),
        ("index", "killed", now, now, False),  # as on a spot node: the next pod waits for a place
        ("index", "failed", now, now, True),
        ("beside", "running", now, None, False),
        ("beside", "done", now, now, True),
    ):
        inputs = {"embeddings": []} if path == "index" else {}
        about = {"step": path, "status": status, "started": started, "ended": ended, "inputs": inputs}
        outputs = {} if path == "beside" else found
        write_state(store, "going", StepState.model_validate({**about, "path": path, "outputs": outputs}))
        left = garbage.collectable(store, garbage.referenced(store, 0, 3), 0)
        assert [piece.path for piece in left] == ["index/found"] * goes, (path, status)


def test_another_attempt_outlives_the_artifact(store: LocalStore) -> None:
    artifact(store, names.INDEX, "old")
    aged(store)
    (piece,) = garbage.collectable(store, set(), DAYS)
    again = Attempt(store, names.INDEX, "old")
    (again.path / "views.f16").write_bytes(b"1")
    list(garbage.remove_all(store, [piece], set))
    assert store.files("index/old/attempts") == [f"{again.data}/views.f16"]


def test_what_is_made_again_meanwhile_stays_and_the_first_goes_a_day_later(store: LocalStore) -> None:
    """A step may still be reading the first."""
    artifact(store, names.INDEX, "found")
    aged(store)
    before = read_record(store, names.INDEX, "found")
    pieces = list(garbage.collectable(store, set(), DAYS))

    def referenced() -> set[garbage.ArtifactId]:
        return {split_address(artifact(store, names.INDEX, "found").address)[1:]}

    list(garbage.remove_all(store, pieces, referenced))
    now = read_record(store, names.INDEX, "found")
    assert before is not None and now is not None and now.attempt != before.attempt
    assert {f"{now.data}/file", f"{before.data}/file"} <= set(store.files("index/found"))
    aged(store)
    (piece,) = garbage.collectable(store, {(names.INDEX, "found")}, DAYS)
    assert piece.path == before.data


def test_a_collection_that_was_killed_is_finished_by_one_of_another_day(store: LocalStore) -> None:
    reference = artifact(store, names.INDEX, "old")
    aged(store)
    pieces = list(garbage.collectable(store, set(), DAYS))

    def killed() -> set[garbage.ArtifactId]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(garbage.remove_all(store, pieces, killed))
    assert load_reference(reference, "a step")[1].digest == reference.digest
    assert list(garbage.collectable(store, set(), 0)) == [], "the other collection may be alive"
    aged(store)
    assert list(garbage.collectable(store, {(names.INDEX, "old")}, DAYS)) == []
    assert list(garbage.remove_all(store, garbage.collectable(store, set(), DAYS), set)) == pieces
    assert store.files(names.INDEX) == [f"index/old/{names.COLLECTED_FILE}"]


def test_what_a_step_has_published_but_not_written_into_its_run_stays(store: LocalStore) -> None:
    """Unless the run was last heard of more than a week ago."""
    artifact(store, names.INDEX, "made")
    write_run(store, Run(id="run", pipeline="refresh", config={}, steps=["index"]))
    for days, goes in ((0, []), (6, []), (8, ["index/made"])):
        started = time.time() - days * garbage.DAY
        working = StepState(path="index", step="index", status="running", key="made", started=started)
        write_state(store, "run", working)
        pieces = garbage.collectable(store, garbage.referenced(store, 0, 3), 0)
        assert [piece.path for piece in pieces] == goes


def test_checkpoints_of_a_training_at_work_stay_whatever_the_days(store: LocalStore) -> None:
    for key in ("mine-00000100", "mine-00000200", "other-00000100"):
        artifact(store, names.CHECKPOINT, key)
    aged(store)
    write_run(store, Run(id="run", pipeline="training", config={}, steps=["train"]))
    working = StepState(path="train", step="train", status="running", key="mine", started=time.time())
    write_state(store, "run", working)
    pieces = list(garbage.collectable(store, garbage.referenced(store, 0, 3), 0))
    assert [piece.path for piece in pieces] == ["checkpoint/other-00000100"]
    artifact(store, names.CHECKPOINT, "mine-00000300")
    late = [*pieces, garbage.Garbage(names.CHECKPOINT, "checkpoint/mine-00000300", 0)]
    removed = garbage.remove_all(store, late, lambda: garbage.referenced(store, 0, 3))
    assert [piece.path for piece in removed] == ["checkpoint/other-00000100"]
    assert len(store.folders(names.CHECKPOINT)) == 4, "a record of what was collected stays"
