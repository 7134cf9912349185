"""The store on `gs://`, against an emulator that enforces exclusive creation."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.bucket import Asked, emulated_bucket, free_port
from tests.fixtures.project import ROOT, Project

RACER = """
import sys
from multiview.artifacts.store import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print([n for n in range(30) if store.create(f"race/{n}", sys.argv[2].encode())], flush=True)
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    """What the emulator was asked."""
    return tmp_path_factory.mktemp("emulator") / "requests.jsonl"


@pytest.fixture(scope="module")
def bucket(log):
    with emulated_bucket(free_port(), log=log) as environment:
        yield environment


def run(environment: dict[str, str], code: str, *words: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout


def test_races_in_a_bucket_have_one_winner_each(bucket):
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, "gs://bucket/races", name],
            env={**os.environ, **bucket},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    wins = [json.loads(racer.communicate("go\n", timeout=120)[0]) for racer in racers]
    assert sorted(wins[0] + wins[1]) == list(range(30))


STORE = """
from pathlib import Path
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import read_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import open_store
store = open_store("gs://bucket/store")
store.check_writable()
assert store.read("none") is None and store.files("none") == [] and store.folders("none") == []
for text in ("first", "second"):
    attempt = Attempt(store, "passages", "k")
    (attempt.path / "deep").mkdir()
    (attempt.path / "deep" / "b.txt").write_text(text)
    record, ours = attempt.publish(step="split", step_version=1, config={}, inputs={})
    assert ours == (text == "first") and not attempt.path.exists()
assert store.folders("passages/k/attempts") == [record.attempt]
assert (stage(store, record).path / "deep" / "b.txt").read_text() == "first"
# Another output of the same step has the same key, and may have a file of the same name.
sibling = Attempt(store, "dev_questions", "k")
(sibling.path / "deep").mkdir()
(sibling.path / "deep" / "b.txt").write_text("of the sibling")
sibling, _ = sibling.publish(step="split", step_version=1, config={}, inputs={})
assert (stage(store, sibling).path / "deep" / "b.txt").read_text() == "of the sibling"
# A lineage reads files in pieces, without copies.
from multiview.lineage.trace import flaws, reference_of, trace
whole = trace([reference_of("gs://bucket/store/passages/k")])
read = []
found = list(flaws(whole, read.append))
assert (found, sum(read)) == ([], 5), (found, read)
store.replace(f"{record.data}/deep/b.txt", b"altered")
(flaw,) = flaws(whole)
assert "has 7 bytes instead of 5" in flaw, flaw
store.remove(f"{record.data}/deep/b.txt")
(flaw,) = flaws(whole)
assert "is missing" in flaw, flaw
store.replace(f"{record.data}/deep/b.txt", b"altered")
import multiview.artifacts.staging as staging
staging.scratch.cache_clear()
try:
    stage(store, record)
except Exception as error:
    print(error)
assert store.create("lost-answer", b"mine") and not store.create("lost-answer", b"another's")
store.remove("passages/k")
assert read_record(store, "passages", "k") is None and store.files("passages") == []
"""


def test_artifacts_in_a_bucket(bucket):
    assert "has 7 bytes instead of 5: remove the folder gs://bucket/store/passages/k" in run(bucket, STORE)


SOURCES = """
import fsspec, gzip
from multiview.data.reading.readers import passage_tables
from multiview.data.reading.sources import expand_source, fingerprints
lines = b'{"id": "a", "text": "x"}\\n' * 2500
fsspec.filesystem("gs").pipe("bucket/data/p.jsonl.gz", gzip.compress(lines))
fsspec.filesystem("gs").pipe("bucket/data/stray.pdf", b"")
for source in ("gs://bucket/data", "gs://bucket/data/*.gz", "gs://bucket/data/p.jsonl.gz"):
    (file,) = expand_source(source, "corpus")
    assert sum(table.num_rows for table in passage_tables(file)) == 2500, source
before = fingerprints([file])
fsspec.filesystem("gs").pipe("bucket/data/p.jsonl.gz", gzip.compress(lines * 2))
assert fingerprints([file]) == fingerprints([file]) != before and "sha256" not in before[0]
print("read")
"""


def test_sources_in_a_bucket(bucket):
    assert run(bucket, SOURCES) == "read\n"


LARGE = """
import os, tracemalloc
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.staging import stage
from multiview.artifacts.store import open_store
store = open_store("gs://bucket/large")
attempt = Attempt(store, "index", "k")
piece = os.urandom(1 << 20)
with (attempt.path / "views").open("wb") as file:
    for number in range(110):
        file.write(number.to_bytes(4, "big") + piece[4:])
tracemalloc.start()
record, _ = attempt.publish(step="index", step_version=1, config={}, inputs={})
written = tracemalloc.get_traced_memory()[1]
tracemalloc.reset_peak()
stage(store, record)  # which compares the digests
print(written >> 20, tracemalloc.get_traced_memory()[1] >> 20)
"""


def test_a_large_file_goes_in_parts_and_comes_back_whole(bucket, log):
    """110 MB here, of which some parts of 8 MB are in memory."""
    written, read = map(int, run(bucket, LARGE).split())
    parts = [asked.received for asked in Asked.read(log, "large/index") if asked.received > 1 << 20]
    assert len(parts) == 14 and sum(parts) == 110 << 20
    assert written < 80 and read < 80


ONE_BLOCK = """
import fsspec, os
import pyarrow as pa, pyarrow.parquet as pq
from multiview.data.reading.readers import passage_tables
with fsspec.open("gs://bucket/blocks/p.parquet", "wb") as file:
    texts = [os.urandom(10_000).hex() for _ in range(1000)]
    table = pa.table({"id": [str(n) for n in range(1000)], "text": texts})
    with pq.ParquetWriter(file, table.schema, use_dictionary=False) as writer:
        for _ in range(8):
            writer.write_table(table)
tables = passage_tables("gs://bucket/blocks/p.parquet")
print(next(tables).num_rows)
"""


def test_one_row_group_of_a_source_is_asked_for_as_a_range(bucket, log):
    """The file has eight of 10 MB."""
    assert run(bucket, ONE_BLOCK) == "1000\n"
    asked = Asked.read(log, "blocks/p.parquet")
    size = sum(one.received for one in asked)
    assert size > 8 * 10_000_000
    assert 10_000_000 < sum(one.sent for one in asked) < size / 3


BUSY = """
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.staging import stage
from multiview.artifacts.store import open_store
store = open_store("gs://bucket/retries")
assert store.create("busy/a", b"1") and store.read("busy/a") == b"1" and store.files("busy") == ["busy/a"]
attempt = Attempt(store, "index", "k")
with (attempt.path / "busy-views").open("wb") as file:
    file.truncate(6 << 20)
record, _ = attempt.publish(step="index", step_version=1, config={}, inputs={})
assert stage(store, record)
"""


def test_a_busy_bucket_is_asked_again(bucket):
    """503 to the first try of each read, listing and write, one of several parts among them."""
    run(bucket, BUSY)


REFUSED = """
from multiview.artifacts.store import open_store
from multiview.data.reading.sources import expand_source
from multiview.errors import InputError
for ask in (
    lambda: expand_source("gs://bucket/private/p.jsonl", "corpus"),
    lambda: open_store("gs://bucket/private").check_writable(),
    lambda: open_store("gs://bucket/private").read("a"),
    lambda: open_store("gs://bucket/private").folders("a"),
):
    try:
        ask()
    except InputError as error:
        print(error)
"""


def test_credentials_that_are_missing_are_one_line(bucket):
    lines = run(bucket, REFUSED).splitlines()
    assert len(lines) == 4
    for line in lines:
        assert "gs://bucket/private" in line and "no access (Anonymous caller does not have" in line
        assert "gcloud auth application-default login" in line


DAG = """
import sys
from multiview.artifacts.store import open_store
from multiview.config.overrides import gather
from multiview.plans.training import training
from tests.fixtures.inprocess import run_plan
records = run_plan(training(gather(sys.argv[1], [])), open_store(sys.argv[2]))
print(sum(len(kinds) > 0 for kinds in records.values()))
"""


def test_the_whole_small_dag_runs_on_a_bucket_and_is_found_again(bucket, tmp_path):
    """All steps in one process first, which spares their imports; then through KFP."""
    project = Project.make(tmp_path, store="gs://bucket/runs/store", **bucket)
    assert run(bucket, DAG, str(tmp_path / "tiny.yaml"), project.store) == "13\n"
    output = project("run", "training")
    assert "0 steps done, 13 found" in output
    assert re.search(r"^\| camvr +\|", output, re.MULTILINE)
    (name,) = re.findall(r"^(training-\w+):", output, re.MULTILINE)
    output = project("rerun", "camvr/round-2/evaluate", "--from", name, "--set", "evaluation.depth=15")
    assert "1 steps done, 0 found" in output
