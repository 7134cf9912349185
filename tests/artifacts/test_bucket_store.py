"""Stores and sources in buckets of Cloud Storage and of S3, against emulators that enforce exclusive creation."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from multiview.artifacts.store import BucketStore, open_store
from multiview.errors import InputError
from tests.fixtures import on_buckets
from tests.fixtures.bucket import Asked
from tests.fixtures.bucket_kinds import S3, BucketKind, CloudStorage
from tests.fixtures.faulty_proxy import Fault, faulty_proxy
from tests.fixtures.project import Project
from tests.fixtures.s3 import CREDENTIALS

MEGABYTES = {"gs": 80, "s3": 90}
"""In memory at most, of a file of 110; on S3 four parts of 8 MB at a time and the four before."""


@dataclass
class Bucket:
    kind: BucketKind
    server: str
    log: Path
    """The file in which the emulator logs its requests."""

    def run(self, code: str, *words: str, server: str = "") -> str:
        """What a program says that uses the bucket."""
        environment = self.kind.environment(server or self.server)
        return on_buckets.run_on(environment, code.replace("gs://", f"{self.kind.protocol}://"), *words)


def serving(kind: BucketKind, folder: Path) -> Iterator[Bucket]:
    with kind.serve(log := folder / "requests.jsonl") as server:
        yield Bucket(kind, server, log)


@pytest.fixture(scope="module")
def gs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    yield from serving(CloudStorage(), tmp_path_factory.mktemp("gs"))


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    yield from serving(S3(), tmp_path_factory.mktemp("s3"))


@pytest.fixture(params=["gs", "s3"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    return request.getfixturevalue(request.param)


def test_artifacts(bucket: Bucket) -> None:
    """That one of several attempts wins, also where answers are lost, tests/torture/test_bucket_faults.py shows."""
    said = bucket.run(on_buckets.STORE)
    folder = f"{bucket.kind.protocol}://bucket/store/passages/k"
    assert f"has 7 bytes instead of 5: remove the folder {folder}" in said


def test_threads_that_stage_the_same_artifact_both_have_it_whole(gs: Bucket) -> None:
    assert gs.run(on_buckets.TWO_THREADS) == "whole\n"


def test_sources(bucket: Bucket) -> None:
    assert bucket.run(on_buckets.SOURCES) == "read\n"


def test_a_large_file_goes_in_parts_and_comes_back_whole(bucket: Bucket) -> None:
    peaks = [*map(int, bucket.run(on_buckets.LARGE).split())]
    parts = [asked.received for asked in Asked.read(bucket.log, "large/index") if asked.received > 1 << 20]
    assert len(parts) == 14 and sum(parts) == 110 << 20
    assert max(peaks) < MEGABYTES[bucket.kind.protocol]


def test_one_row_group_of_a_source_is_asked_for_as_a_range(bucket: Bucket) -> None:
    """The file has eight row groups of 10 MB."""
    assert bucket.run(on_buckets.ONE_BLOCK) == "1000\n"
    asked = Asked.read(bucket.log, "blocks/p.parquet")
    size = sum(request.received for request in asked)
    assert size > 8 * 10_000_000
    assert 10_000_000 < sum(request.sent for request in asked) < size / 3


def test_a_busy_bucket_is_asked_again(bucket: Bucket) -> None:
    """The first attempt at each read, listing and write gets 503, including a write in several parts."""
    asked: set[tuple[str, str]] = set()

    def once(number: int, method: str, path: str) -> Fault:
        known = (method, path) in asked
        asked.add((method, path))
        return "none" if known else "503"

    with faulty_proxy(bucket.server) as proxy:
        proxy.reset(once)
        bucket.run(on_buckets.BUSY, type(bucket.kind).__name__, server=proxy.url)
        assert proxy.faults == len(asked) > 5


def test_a_listing_while_the_first_file_of_a_folder_is_written(bucket: Bucket) -> None:
    assert bucket.run(on_buckets.FIRST_FILE) == "True\n"


def test_a_folder_that_has_an_object_of_its_own_is_no_file(s3: Bucket) -> None:
    """Consoles, mounts and tools that copy make them. A collection took that of all attempts for an unfinished one."""
    assert s3.run(on_buckets.MARKED) == "1\n"


@pytest.mark.parametrize("path", ["", "runs"])
def test_a_folder_does_not_hold_itself(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what gcsfs lists where a folder has an object of its own, which no emulator of it can hold."""
    store = open_store("s3://bucket/store")
    assert isinstance(store, BucketStore)
    own = f"bucket/store/{path}".rstrip("/")
    listed = [{"name": name, "type": "directory"} for name in (f"{own}/", f"{own}/r1")]
    monkeypatch.setattr(store.fs, "ls", lambda name, detail: listed)
    assert store.folders(path) == ["r1"]


def test_credentials_that_are_missing_are_one_line(gs: Bucket) -> None:
    lines = gs.run(on_buckets.REFUSED).splitlines()
    assert len(lines) == 4
    for line in lines:
        assert "gs://bucket/private" in line and "no access (Anonymous caller does not have" in line
        assert "gcloud auth application-default login" in line


def test_credentials_of_s3_that_are_missing_are_one_line(
    s3: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    code = on_buckets.REFUSED.replace("gs://", "s3://")
    lines = on_buckets.run_on({"AWS_ENDPOINT_URL": s3.server}, code).splitlines()
    assert len(lines) == 4
    for line in lines:
        assert "s3://bucket/private" in line and "no access (Unable to locate credentials)" in line
        assert "AWS_ACCESS_KEY_ID" in line


def test_a_run_in_a_bucket_is_found_again_and_run_again(gs: Bucket, tmp_path: Path) -> None:
    environment = gs.kind.environment(gs.server)
    project, one_round = (
        Project.make(tmp_path, store="gs://bucket/runs/store", **environment),
        "train.rounds=1",
    )
    assert "8 steps done, 0 found" in project("run", "training", "--set", one_round)
    output = project("run", "training", "--set", one_round)
    assert "0 steps done, 8 found" in output
    assert re.search(r"^\| camvr +\|", output, re.MULTILINE)
    (name,) = re.findall(r"^(training-\w+):", output, re.MULTILINE)
    output = project("rerun", "camvr/round-1/evaluate", "--from", name, "--set", "evaluation.depth=15")
    assert "1 step done, 0 found" in output


CREATES = """
import sys
from multiview.artifacts.store import open_store
store = open_store("s3://bucket/other-maker")
print(store.create("a", b"1"), store.create("a", b"2"), store.read("a"))
for url in sys.argv[1:]:
    try:
        open_store(url).check_writable()
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_servers_of_other_makers(s3: Bucket) -> None:
    """Their refusals lack AWS's name for the condition; a server without conditions cannot hold a store."""
    created, *refused = s3.run(CREATES, "s3://bucket/no-conditions", "s3://elsewhere/store").splitlines()
    assert created == "True False b'1'"
    assert refused[0].startswith(
        "InputError store s3://bucket/no-conditions does not enforce exclusive creation"
    )
    assert refused[1:] == [
        "InputError store s3://elsewhere/store is not writable: The specified bucket does not exist"
    ]


def test_without_s3fs_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    # fsspec keeps what it has imported.
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    line = r"store s3://bucket/store needs s3fs: pip install 'multiview-retrieval\[s3\]'"
    with pytest.raises(InputError, match=line):
        open_store("s3://bucket/store")
