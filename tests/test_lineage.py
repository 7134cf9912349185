"""What made an artifact, and that it is all still there: over a small run of steps that need no model."""

import io
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlflow import MlflowClient
from rich.console import Console

from multiview import cli, tracking
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record, Reference, parse_record
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.lineage import Lineage, corpus_name, corpus_of, flaws, reference_of, trace
from multiview.lineage_text import as_json, print_lineage
from multiview.named import artifacts_named
from multiview.overrides import resolve
from multiview.runs import Run, write_run
from pipelines.plan import Output, Plan, Source
from tests.corpus import squad_corpus
from tests.pipelines.inprocess import run_plan
from tests.servers import new_database

RUN = "bm25-1"
PATHS = ["split", "bm25-negatives", "one/evaluate", "two/evaluate", "compare"]


@dataclass
class World:
    store: LocalStore
    records: dict[str, dict[str, Record]]

    def address(self, path: str, kind: str) -> str:
        return f"{self.store.url}/{self.records[path][kind].folder}"

    @property
    def comparison(self) -> str:
        return self.address("compare", "comparison")

    def traced(self) -> Lineage:
        return trace([reference_of(self.comparison)])

    def file(self, path: str, kind: str) -> Path:
        """An artifact's record."""
        return self.store.root / self.records[path][kind].folder / "artifact.json"

    def rewrite(self, path: str, kind: str, **changes) -> None:
        """Another record in its place, with a seal of its own."""
        record = self.records[path][kind].model_copy(update=changes)
        self.file(path, kind).write_bytes(record.to_json())


def make(folder: Path) -> World:
    """Two BM25 evaluations with other settings, and their comparison, made by the real steps."""
    train, dev = squad_corpus(folder, passages=12)
    given = {
        "corpus": {"source": [str(train), str(dev)]},
        "questions": {"source": str(train), "dev_source": str(dev)},
        "evaluation": {"depth": 5},
        "bm25": {"depth": 5},
        "comparison": {"rows": ("one", "two"), "resamples": 100},
    }
    config, other = resolve(given), resolve(given | {"bm25": {"k1": 0.5}})
    plan, passages, asked = Plan("bm25"), Output("split", "passages"), Output("split", "dev_questions")
    plan.add("split", "split", config)
    questions = Output("split", "train_questions")
    plan.add("bm25-negatives", "bm25-negatives", config, passages=passages, questions=questions)
    for row, own in (("one", config), ("two", other)):
        plan.add(f"{row}/evaluate", "evaluate-bm25", own, passages=passages, questions=asked)
    rows: list[Source] = [Output(f"{row}/evaluate", "evaluation") for row in ("one", "two")]
    plan.add("compare", "compare", config, evaluations=rows)
    store = LocalStore(folder / "store")
    write_run(store, Run(id=RUN, pipeline="bm25", config=given, steps=PATHS))
    return World(store, run_plan(plan, store, RUN))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> World:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture
def world(made, tmp_path) -> Iterator[World]:
    """A copy in another place, to be damaged; where records say that inputs are, there is nothing any more."""
    shutil.copytree(made.store.root, tmp_path / "store")
    away = made.store.root.rename(made.store.root.with_name("away"))
    yield World(LocalStore(tmp_path / "store"), made.records)
    away.rename(made.store.root)


def test_all_that_made_an_artifact_is_there_once(made):
    lineage = made.traced()
    expected = {
        made.address("compare", "comparison"),
        made.address("one/evaluate", "evaluation"),
        made.address("two/evaluate", "evaluation"),
        made.address("split", "passages"),
        made.address("split", "dev_questions"),
    }
    assert {node.address for node in lineage.nodes} == expected and len(lineage.nodes) == 5
    (root,) = lineage.roots
    assert root.node is not None and root.node.address == made.comparison
    one, two = (one.node for one in root.node.inputs["evaluations"])
    assert one is not None and two is not None and one is not two
    assert one.inputs["passages"][0].node is two.inputs["passages"][0].node is not None
    assert lineage.broken == []
    assert corpus_of(lineage) == made.records["split"]["passages"]
    assert corpus_name(made.records["split"]["passages"]) == "train.json+dev.json"


def test_a_store_that_was_moved_holds_together(world):
    lineage = world.traced()
    assert {node.store.url for node in lineage.nodes} == {world.store.url}
    assert list(flaws(lineage)) == []


def test_every_byte_is_read(made):
    told: list[int] = []
    lineage = made.traced()
    assert list(flaws(lineage, told.append)) == []
    assert sum(told) == lineage.bytes == sum(file.bytes for n in lineage.nodes for file in n.record.files)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_in_any_file_is_found(made, data):
    lineage = made.traced()
    files = [(node, file) for node in lineage.nodes for file in node.record.files if file.bytes]
    node, file = data.draw(st.sampled_from(files))
    path = made.store.root / node.record.data / file.path
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(changed)
    try:
        (flaw,) = flaws(lineage)
    finally:
        path.write_bytes(whole)
    assert f"{path} was altered" in flaw and f"remove the folder {node.address}" in flaw


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_in_any_record_is_found_or_says_the_same(made, data):
    node = data.draw(st.sampled_from(made.traced().nodes))
    text = (made.store.root / node.record.folder / "artifact.json").read_bytes()
    changed = bytearray(text)
    changed[data.draw(st.integers(0, len(text) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        record = parse_record(bytes(changed), node.address)
    except InputError as error:
        assert node.address in str(error)
    else:
        assert record == node.record, "white space"


def test_a_changed_record_ends_the_tree_there(world):
    text = world.file("split", "passages").read_bytes()
    world.file("split", "passages").write_bytes(text.replace(b'"multiview"', b'"multivieW"'))
    lineage = world.traced()
    (flaw,) = flaws(lineage)
    assert "passages" in flaw and "artifact.json is damaged" in flaw
    assert len(lineage.nodes) == 4


def test_a_record_of_the_first_schema_has_no_seal(made):
    content = json.loads(made.file("split", "passages").read_bytes())
    del content["seal"]
    with pytest.raises(InputError, match="is damaged"):
        parse_record(json.dumps(content).encode(), "here")
    content["schema_version"] = 1
    record = parse_record(json.dumps(content).encode(), "here")
    assert record.digest == made.records["split"]["passages"].digest


def remove_file(world: World) -> None:
    next((world.store.root / world.records["split"]["passages"].data).iterdir()).unlink()


def add_file(world: World) -> None:
    (world.store.root / world.records["split"]["passages"].data / "shard-99.parquet").write_bytes(b"more")


def shorten_file(world: World) -> None:
    file = world.store.root / world.records["one/evaluate"]["evaluation"].data / "run.trec"
    file.write_bytes(file.read_bytes()[:-1])


def remove_record(world: World) -> None:
    world.file("two/evaluate", "evaluation").unlink()


def replace_input(world: World) -> None:
    """As after a rebuild of the passages that gave other bytes; what was read is neither here nor where it was made."""
    world.rewrite("split", "passages", digest="0" * 64)


def swap_records(world: World) -> None:
    other = world.file("split", "dev_questions").read_bytes()
    world.file("split", "passages").write_bytes(other)


def rewrite_sources(world: World) -> None:
    sources = world.records["split"]["passages"].sources
    world.rewrite("split", "passages", sources={**sources, "corpus": []})


def rewrite_settings(world: World) -> None:
    world.rewrite("two/evaluate", "evaluation", config={})


def rewrite_files(world: World) -> None:
    record = world.records["split"]["passages"]
    file = record.files[0].model_copy(update={"path": "other.parquet"})
    world.rewrite("split", "passages", files=[file, *record.files[1:]])


@pytest.mark.parametrize(
    ("damage", "kind", "says"),
    [
        (remove_file, "passages", "is missing: remove the folder"),
        (add_file, "passages", "shard-99.parquet is no file of the artifact"),
        (shorten_file, "evaluation", "run.trec has"),
        (remove_record, "evaluation", "there is no artifact"),
        (replace_input, "passages", "there is no artifact"),
        (swap_records, "passages", "there is no artifact"),
        (rewrite_sources, "passages", "its key is not that of"),
        (rewrite_settings, "evaluation", "its key is not that of"),
        (rewrite_files, "passages", "its digest is not that of"),
    ],
)
def test_what_is_not_as_it_was_is_named(world, damage, kind, says):
    damage(world)
    found = list(flaws(world.traced()))
    assert found and f"/{kind}/" in found[0]
    assert any(says in flaw for flaw in found), found
    assert all("\n" not in flaw for flaw in found)


def test_another_artifact_at_an_input_s_address_is_told(made, tmp_path):
    """Where the reader's record and the input's disagree, in the very store that the record names."""
    file = made.file("split", "passages")
    text = file.read_bytes()
    made.rewrite("split", "passages", digest="0" * 64)
    try:
        lineage = made.traced()
    finally:
        file.write_bytes(text)
    assert any("has digest 000000000000… instead of" in flaw for flaw in lineage.broken)


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
        lineage = trace([reference_of(f"{store.url}/embeddings/{file}")])
        assert len(lineage.broken) == broken, lineage.broken
    assert "has no file c.txt" in lineage.broken[0]


# What is printed.


def printed(lineage: Lineage) -> str:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    print_lineage(console, lineage)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_tree_shows_settings_sources_and_what_is_shared(made):
    text = printed(made.traced())
    lines = text.splitlines()
    for path, kind in (("compare", "comparison"), ("two/evaluate", "evaluation"), ("split", "passages")):
        record = made.records[path][kind]
        line = next(line for line in lines if f"{kind}/{record.key}" in line)
        assert record.digest[:12] in line
    assert "bm25.k1=0.5" in text and text.count("evaluation.depth=5") == 2
    train = made.records["split"]["passages"].sources["corpus"][0]["sha256"]
    assert f"corpus: train.json {train[:12]}, dev.json" in text
    passages = made.records["split"]["passages"]
    whole = [line for line in lines if f"passages: passages/{passages.key}" in line]
    assert len(whole) == 2 and "rows" in whole[0] and whole[1].endswith("(above)")
    assert text.rstrip().splitlines()[-1].startswith("5 artifacts, ")


def test_json_has_every_record_and_can_be_walked(made):
    found = json.loads(as_json(made.traced(), []))
    artifacts = {artifact["address"]: artifact for artifact in found["artifacts"]}
    (root,) = found["roots"]
    read = artifacts[root["address"]]["inputs"]["evaluations"]
    assert [artifacts[one["address"]]["config"]["bm25"] for one in read] == [{"depth": 5}, {"k1": 0.5}]
    assert found["flaws"] == []


# What is meant, on the command line.


@pytest.fixture
def lineage_command(monkeypatch, capsys):
    """Runs `multiview lineage`: (status, standard output, standard error)."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["multiview", "lineage", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        status = ended.value.code or 0
        assert isinstance(status, int)
        return status, captured.out, captured.err

    for name in ("MULTIVIEW_STORE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return run


def test_a_run_is_what_it_ends_with(made, lineage_command):
    status, out, _ = lineage_command(RUN, "--store", made.store.url)
    assert status == 0
    roots = [line for line in out.splitlines() if line.startswith(("negatives/", "comparison/"))]
    assert len(roots) == 2
    assert made.records["split"]["train_questions"].folder in out, "which made the negatives"


def test_a_verification_ends_with_one_line(world, lineage_command):
    address = world.comparison
    status, out, _ = lineage_command(address, "--verify")
    assert status == 0 and out.splitlines()[-1] == "verified: 5 artifacts, every byte as it was written"
    shorten_file(world)
    status, out, err = lineage_command(address, "--verify")
    assert status == 2 and "verified" not in out
    assert err.startswith("error: ") and "run.trec has" in err and err.count("\n") == 1
    assert lineage_command(address)[0] == 0, "records alone say nothing of files"
    remove_record(world)
    status, out, _ = lineage_command(address, "--json", "--verify")
    assert status == 2 and len(json.loads(out)["flaws"]) == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no/such/artifact", "there is no artifact at no/such/artifact"),
        ("it's", "is no run id"),
        ("nothing-1", "has no run nothing-1"),
        ("m-0123456789abcdef0123456789abcdef", "m-0123456789abcdef0123456789abcdef"),
        ("models:/camvr@champion", "camvr"),
    ],
)
def test_what_is_not_there_is_one_line(name, says, shipped, lineage_command):
    status, out, err = lineage_command(name, "--tracking-uri", shipped)
    assert (status, out) == (2, "") and says in err and err.count("\n") == 1


@pytest.fixture(scope="module")
def shipped(made, tmp_path_factory) -> str:
    """MLflow with the run in it."""
    uri = new_database(tmp_path_factory.mktemp("mlflow"))
    tracking.ship(made.store, RUN, uri)
    return uri


def test_runs_and_their_steps_are_found_by_mlflow_s_ids(made, shipped, tmp_path):
    found = tracking.find_run(shipped, RUN)
    elsewhere = str(tmp_path)
    kinds = [one.address.split("/")[-2] for one in artifacts_named(found.mlflow_id, elsewhere, shipped)]
    assert sorted(kinds) == ["comparison", "negatives"]
    client = MlflowClient(shipped)
    (step,) = client.search_runs(["1"], "tags.`multiview.path` = 'two/evaluate'")
    (one,) = artifacts_named(step.info.run_id, elsewhere, shipped)
    assert one.address == made.address("two/evaluate", "evaluation")
