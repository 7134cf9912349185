"""A damaged artifact leaves its store, and a whole one does not."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from multiview.artifacts.champions import champion_of, read_champion
from multiview.artifacts.record import Record, Reference, load_record, read_whole
from multiview.artifacts.staging import verify
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import merge
from multiview.errors import InputError
from multiview.lineage.repair import repair
from multiview.names import ASIDE_FILE, RECORD_FILE
from multiview.steps.runs import StepState, write_state
from tests.fixtures.champions import artifact
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.documented import words
from tests.fixtures.evaluated_run import RUN, EvaluatedRun
from tests.fixtures.inprocess import command, multiview_command


def address(run: EvaluatedRun, record: Record) -> str:
    return f"{run.store.url}/{record.folder}"


def one_file(run: EvaluatedRun, record: Record) -> Path:
    return run.store.root / record.data / record.files[0].path


def test_a_whole_artifact_stays(copied_run: EvaluatedRun) -> None:
    record = copied_run.records["split"]["passages"]
    before = copied_run.store.files("")
    assert list(repair(address(copied_run, record))) == [
        f"{address(copied_run, record)} is whole: nothing to repair"
    ]
    assert copied_run.store.files("") == before


def flip(run: EvaluatedRun, record: Record) -> None:
    content = bytearray(one_file(run, record).read_bytes())
    content[len(content) // 2] ^= 4
    one_file(run, record).write_bytes(content)


def edit(run: EvaluatedRun, record: Record) -> None:
    file = run.store.root / record.folder / "artifact.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"step_version": 99}))


def exchange(run: EvaluatedRun, record: Record) -> None:
    other = run.records["split"]["dev_questions"]
    record_file = run.store.root / record.folder / "artifact.json"
    record_file.write_bytes((run.store.root / other.folder / "artifact.json").read_bytes())


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (flip, "was altered (its sha256 differs)"),
        (lambda run, record: one_file(run, record).unlink(), "is missing"),
        (edit, "artifact.json is damaged"),
        (exchange, "holds the record of dev_questions/"),
    ],
    ids=["flipped", "missing", "edited-record", "another-s-record"],
)
def test_a_damaged_artifact_leaves_and_its_siblings_stay(
    copied_run: EvaluatedRun, damage: Callable[[EvaluatedRun, Record], object], says: str
) -> None:
    records = copied_run.records["split"]
    record = records["passages"]
    aside = copied_run.store.root / record.folder / ASIDE_FILE
    aside.write_bytes((copied_run.store.root / record.folder / RECORD_FILE).read_bytes())
    damage(copied_run, record)
    flaw, outcome = repair(address(copied_run, record))
    assert says in flaw
    assert outcome.startswith(
        f"removed {address(copied_run, record)}: the command of run {RUN} makes it again"
    )
    assert read_whole(copied_run.store, record.kind, record.key) is None
    for kind in records.keys() - {"passages"}:
        verify(copied_run.store, records[kind])
    with pytest.raises(InputError, match="there is no artifact at"):
        list(repair(address(copied_run, record)))


@pytest.mark.documented("multiview repair")
def test_the_command_repairs_and_names_the_step_to_run_again(
    documented: str,
    copied_run: EvaluatedRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = copied_run.records["one/evaluate"]["evaluation"]
    flip(copied_run, record)
    command = [
        address(copied_run, record) if word.startswith("store/") else word for word in words(documented)
    ]
    printed = multiview_command(monkeypatch, capsys, *command)
    assert "was altered" in printed
    assert printed.endswith(
        f"python -m pipelines rerun one/evaluate --from {RUN} --store {copied_run.store.url}\n"
    )


def test_a_superfluous_file_goes_alone(copied_run: EvaluatedRun) -> None:
    record = copied_run.records["split"]["passages"]
    more = copied_run.store.root / record.data / "shard-99.parquet"
    more.write_bytes(b"more")
    flaw, outcome = repair(address(copied_run, record))
    assert "shard-99.parquet is no file of the artifact" in flaw and outcome.endswith("is whole again")
    assert not more.exists()
    verify(copied_run.store, record)


@pytest.mark.parametrize("written", ["passages/{key}/../{key}", "passages/./{key}", "passages/{key}/."])
def test_an_address_with_dots_is_none_and_removes_nothing(copied_run: EvaluatedRun, written: str) -> None:
    record = copied_run.records["split"]["passages"]
    with pytest.raises(InputError, match="is no artifact address"):
        list(repair(f"{copied_run.store.url}/{written.format(key=record.key)}"))
    verify(copied_run.store, record)
    assert (copied_run.store.root / record.folder / "artifact.json").is_file()


def test_a_record_of_a_later_version_stays(copied_run: EvaluatedRun) -> None:
    record = copied_run.records["split"]["passages"]
    file = copied_run.store.root / record.folder / "artifact.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema_version": 99}))
    with pytest.raises(InputError, match="upgrade multiview"):
        list(repair(address(copied_run, record)))
    assert file.exists()


def test_a_champion_s_index_is_made_again_after_a_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one's, which goes back to the empty index, and the next one's, which goes back to the first one's. The
    runs' own commands would read the champion."""
    corpus = ChangingCorpus.make(tmp_path)
    preset = tmp_path / "tiny.yaml"
    preset.write_text(json.dumps(merge(corpus.settings, {"refresh": {"model": corpus.with_model()}})))
    where = ["--store", corpus.store.url, "--tracking-uri", corpus.tracking_uri]
    for number in (1, 2):
        corpus.plan()  # writes the passages
        command(monkeypatch, capsys, "run", "refresh", "--preset", str(preset), *where)
        corpus.add("new-1")
        champion = champion_of(corpus.store)
        assert champion.number == number
        multiview_command(monkeypatch, capsys, "gc", "--delete", "--days", "0", "--champions", "1", *where)
        if number == 2:  # which MLflow's alias `previous` kept
            corpus.store.remove(f"index/{read_champion(corpus.store, 1).index.key}")
        record = load_record(champion.index.address).record
        (Path(corpus.store.url) / record.data / record.files[0].path).write_bytes(b"damaged")
        *_, outcome = repair(champion.index.address)
        with pytest.raises(InputError, match="there is no artifact"):
            champion.load(corpus.store)
        again = outcome.split("python -m pipelines ")[1:]
        assert len(again) == number
        for given in (shlex.split(each.removesuffix(" && ")) for each in again):
            assert given[:2] == ["rerun", "challenger/changes"] and given[-1] == "--downstream"
            command(monkeypatch, capsys, *given, *where[2:])
        assert champion.load(corpus.store)["index"].reference == champion.index
        assert champion_of(corpus.store) == champion


def test_what_several_runs_found_is_made_again_by_each_for_itself(tmp_path: Path) -> None:
    """Such as the embeddings of an empty shard, which are the same in every refresh."""
    store = LocalStore(tmp_path)

    def reference(kind: str, key: str) -> Reference:
        return Reference(address=f"{store.url}/{kind}/{key}", digest=key)

    for run, old in (("a", "none"), ("b", "of-a")):
        changes, embeddings = reference("changes", f"of-{run}"), reference("embeddings", "empty")
        for step, made, read in (
            ("changes", changes, [reference("index", old)]),
            ("encode", embeddings, [changes]),
            ("index", reference("index", f"of-{run}"), [changes, embeddings, reference("index", old)]),
        ):
            about = {"path": f"challenger/{step}", "step": step, "status": "found", "key": made.key}
            state = {**about, "inputs": {"read": read}, "outputs": {made.kind: made}}
            write_state(store, run, StepState.model_validate(state))
    record = artifact(store, "index", "of-b").record_in(store)
    assert record is not None
    (tmp_path / record.data / "file").write_text("damaged")
    *_, outcome = repair(f"{store.url}/index/of-b")
    commands = [shlex.split(each)[:4] for each in outcome.split("python -m pipelines ")[1:]]
    assert commands == [["rerun", "challenger/changes", "--from", run] for run in "ab"]
