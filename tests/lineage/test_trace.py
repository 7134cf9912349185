"""What made an artifact, and that it is all still there: over a small run of steps that need no model."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record, Reference, load_record, parse_record
from multiview.artifacts.store import LocalStore
from multiview.cli.lineage import as_json
from multiview.errors import InputError
from multiview.lineage.trace import corpus_name, corpus_of, flaws, trace
from tests.fixtures.evaluated_run import EvaluatedRun, remove_record, shorten_file


def test_all_that_made_an_artifact_is_there_once(evaluated_run):
    lineage = evaluated_run.traced()
    expected = {
        evaluated_run.address("compare", "comparison"),
        evaluated_run.address("one/evaluate", "evaluation"),
        evaluated_run.address("two/evaluate", "evaluation"),
        evaluated_run.address("split", "passages"),
        evaluated_run.address("split", "dev_questions"),
    }
    assert {node.address for node in lineage.nodes} == expected and len(lineage.nodes) == 5
    (root,) = lineage.roots
    assert root.node is not None and root.node.address == evaluated_run.comparison
    one, two = (one.node for one in root.node.inputs["evaluations"])
    assert one is not None and two is not None and one is not two
    assert one.inputs["passages"][0].node is two.inputs["passages"][0].node is not None
    assert lineage.broken == []
    assert corpus_of(lineage) == evaluated_run.records["split"]["passages"]
    assert corpus_name(evaluated_run.records["split"]["passages"]) == "train.json+dev.json"


def test_a_store_that_was_moved_holds_together(copied_run):
    lineage = copied_run.traced()
    assert {node.store.url for node in lineage.nodes} == {copied_run.store.url}
    assert list(flaws(lineage)) == []


def test_every_byte_is_read(evaluated_run):
    sizes: list[int] = []
    lineage = evaluated_run.traced()
    assert list(flaws(lineage, sizes.append)) == []
    assert sum(sizes) == lineage.bytes == sum(file.bytes for n in lineage.nodes for file in n.record.files)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_in_any_file_is_found(evaluated_run, data):
    lineage = evaluated_run.traced()
    files = [(node, file) for node in lineage.nodes for file in node.record.files if file.bytes]
    node, file = data.draw(st.sampled_from(files))
    path = evaluated_run.store.root / node.record.data / file.path
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(changed)
    try:
        (flaw,) = flaws(lineage)
    finally:
        path.write_bytes(whole)
    assert f"{path} was altered" in flaw and f"remove the folder {node.address}" in flaw


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_in_any_record_is_found_or_says_the_same(evaluated_run, data):
    node = data.draw(st.sampled_from(evaluated_run.traced().nodes))
    text = (evaluated_run.store.root / node.record.folder / "artifact.json").read_bytes()
    changed = bytearray(text)
    changed[data.draw(st.integers(0, len(text) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        record = parse_record(bytes(changed), node.address)
    except InputError as error:
        assert node.address in str(error)
    else:
        assert record == node.record, "white space"


def test_a_record_without_a_seal_is_damaged(evaluated_run):
    content = json.loads(evaluated_run.file("split", "passages").read_bytes())
    del content["seal"]
    with pytest.raises(InputError, match="is damaged"):
        parse_record(json.dumps(content).encode(), "here")


def remove_file(copied_run: EvaluatedRun) -> None:
    next((copied_run.store.root / copied_run.records["split"]["passages"].data).iterdir()).unlink()


def add_file(copied_run: EvaluatedRun) -> None:
    (copied_run.store.root / copied_run.records["split"]["passages"].data / "shard-99.parquet").write_bytes(
        b"more"
    )


def replace_input(copied_run: EvaluatedRun) -> None:
    """As after a rebuild of the passages that gave other bytes; what was read is neither here nor where it was made."""
    copied_run.rewrite("split", "passages", digest="0" * 64)


def change_record(copied_run: EvaluatedRun) -> None:
    file = copied_run.file("split", "passages")
    file.write_bytes(file.read_bytes().replace(b'"multiview"', b'"multivieW"'))


def swap_records(copied_run: EvaluatedRun) -> None:
    other = copied_run.file("split", "dev_questions").read_bytes()
    copied_run.file("split", "passages").write_bytes(other)


def rewrite_sources(copied_run: EvaluatedRun) -> None:
    sources = copied_run.records["split"]["passages"].sources
    copied_run.rewrite("split", "passages", sources={**sources, "corpus": []})


def rewrite_settings(copied_run: EvaluatedRun) -> None:
    copied_run.rewrite("two/evaluate", "evaluation", config={})


def rewrite_files(copied_run: EvaluatedRun) -> None:
    record = copied_run.records["split"]["passages"]
    file = record.files[0].model_copy(update={"path": "other.parquet"})
    copied_run.rewrite("split", "passages", files=[file, *record.files[1:]])


@pytest.mark.parametrize(
    ("damage", "kind", "says"),
    [
        (remove_file, "passages", "is missing: remove the folder"),
        (add_file, "passages", "shard-99.parquet is no file of the artifact"),
        (shorten_file, "evaluation", "run.trec has"),
        (remove_record, "evaluation", "there is no artifact"),
        (replace_input, "passages", "there is no artifact"),
        (change_record, "passages", "artifact.json is damaged"),
        (swap_records, "passages", "there is no artifact"),
        (rewrite_sources, "passages", "its key is not that of"),
        (rewrite_settings, "evaluation", "its key is not that of"),
        (rewrite_files, "passages", "its digest is not that of"),
    ],
)
def test_what_is_not_as_it_was_is_named(copied_run, damage, kind, says):
    damage(copied_run)
    found = list(flaws(copied_run.traced()))
    assert found and f"/{kind}/" in found[0]
    assert any(says in flaw for flaw in found), found
    assert all("\n" not in flaw for flaw in found)


def test_another_artifact_at_an_input_s_address_is_reported(evaluated_run, tmp_path):
    """Where the reader's record and the input's disagree, in the very store that the record names."""
    file = evaluated_run.file("split", "passages")
    text = file.read_bytes()
    evaluated_run.rewrite("split", "passages", digest="0" * 64)
    try:
        lineage = evaluated_run.traced()
    finally:
        file.write_bytes(text)
    assert any("has digest 000000000000… instead of" in flaw for flaw in lineage.broken)


def test_of_two_steps_that_read_different_bytes_at_one_address_one_is_named(tmp_path):
    """Whichever of them is looked at first."""
    store = LocalStore(tmp_path)
    passages, _ = Attempt(store, "passages", "p").publish(step="split", step_version=0, config={}, inputs={})
    readers = []
    for key, digest in (("now", passages.digest), ("before", "0" * 64)):
        read = Reference(address=f"{store.url}/{passages.folder}", digest=digest)
        made = Attempt(store, "embeddings", key)
        record, _ = made.publish(step="encode", step_version=0, config={}, inputs={"passages": [read]})
        readers.append(Reference.to(store, record))
    for roots in (readers, readers[::-1]):
        (flaw,) = trace(roots).broken
        assert flaw.startswith("passages of embeddings/before: ") and "has digest " in flaw


def test_a_long_line_of_ancestors_is_walked(tmp_path):
    store = LocalStore(tmp_path)
    inputs: dict[str, list[Reference]] = {}
    for number in range(1500):
        record = Record(
            kind="index",
            key=f"k{number}",
            digest=f"{number:064d}",
            attempt="a",
            step="refresh",
            step_version=1,
            config={},
            inputs=inputs,
            files=[],
            created="2026-01-01T00:00:00+00:00",
            seconds=0.0,
        )
        (tmp_path / record.folder).mkdir(parents=True)
        (tmp_path / record.folder / "artifact.json").write_bytes(record.to_json())
        inputs = {"earlier": [Reference(address=f"{store.url}/{record.folder}", digest=record.digest)]}
    lineage = trace(inputs["earlier"])
    assert len(lineage.nodes) == 1500
    assert json.loads(as_json(lineage, []))["artifacts"][-1]["key"] == "k0"


@pytest.mark.parametrize("first", ["index", "champion_evaluation"])
def test_an_index_that_was_refreshed_ends_a_lineage_unless_something_else_reads_it(tmp_path, first):
    """A verdict reads the new index and an evaluation of the old one, in any order."""
    store = LocalStore(tmp_path)

    def made(key: str, step: str, **inputs: Reference) -> Reference:
        read = {name: [reference] for name, reference in inputs.items()}
        record, _ = Attempt(store, key, key).publish(step=step, step_version=0, config={}, inputs=read)
        return Reference.to(store, record)

    oldest = made("oldest", "refresh-index", old=made("before", "index"))
    old = made("old", "refresh-index", old=oldest)
    read = {
        "index": made("new", "refresh-index", old=old),
        "champion_evaluation": made("e", "evaluate", index=old),
    }
    verdict = made("verdict", "gate", **dict(sorted(read.items(), key=lambda pair: pair[0] != first)))
    nodes = {node.record.key: node for node in trace([verdict]).nodes}
    assert nodes.keys() == {"verdict", "new", "e", "old", "oldest"}
    assert [key for key, node in nodes.items() if node.last] == ["oldest"]
    alone = {node.record.key: node for node in trace([read["index"]]).nodes}
    assert alone.keys() == {"new", "old"} and alone["old"].last


def test_one_file_of_an_artifact_may_be_what_was_read(tmp_path):
    store = LocalStore(tmp_path)
    attempt = Attempt(store, "passages", "p")
    for shard in ("a.txt", "b.txt"):
        (attempt.path / shard).write_text(shard)
    passages, _ = attempt.publish(step="split", step_version=0, config={}, inputs={})
    address = f"{store.url}/{passages.folder}"
    for file, broken in (("a.txt", 0), ("c.txt", 1)):
        read = Reference(address=address, digest=passages.digest, file=file)
        Attempt(store, "embeddings", file).publish(
            step="encode", step_version=0, config={}, inputs={"passages": [read]}
        )
        lineage = trace([load_record(f"{store.url}/embeddings/{file}").reference])
        assert len(lineage.broken) == broken, lineage.broken
    assert "has no file c.txt" in lineage.broken[0]


# What is printed.
