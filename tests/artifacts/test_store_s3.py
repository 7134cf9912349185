"""The store on `s3://`: what tests/artifacts/test_store_gs.py shows of `gs://`, against a server of S3's protocol."""

import sys
from pathlib import Path

import pytest

from multiview.artifacts.store import open_store
from multiview.errors import InputError
from tests.fixtures import on_buckets
from tests.fixtures.bucket import Asked, free_port
from tests.fixtures.project import Project
from tests.fixtures.s3 import CREDENTIALS, s3_server


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("server") / "requests.jsonl"


@pytest.fixture(scope="module")
def bucket(log):
    with s3_server(free_port(), log=log) as environment:
        yield environment


def on_s3(code: str) -> str:
    return code.replace("gs://", "s3://").replace('filesystem("gs")', 'filesystem("s3")')


def test_races_on_s3_have_one_winner_each(bucket):
    wins = on_buckets.race(bucket, "s3://bucket/races")
    assert sorted(wins[0] + wins[1]) == list(range(30))


def test_artifacts_on_s3(bucket):
    """This includes a create whose answer is lost: the second request is refused although the first one succeeded."""
    said = on_buckets.run_on(bucket, on_s3(on_buckets.STORE))
    assert "has 7 bytes instead of 5: remove the folder s3://bucket/store/passages/k" in said


def test_sources_on_s3(bucket):
    assert on_buckets.run_on(bucket, on_s3(on_buckets.SOURCES)) == "read\n"


def test_a_large_file_goes_to_s3_in_parts_and_comes_back_whole(bucket, log):
    written, read = map(int, on_buckets.run_on(bucket, on_s3(on_buckets.LARGE)).split())
    assert written < 90 and read < 90, "four parts of 8 MB at a time and the four before, of 110"
    parts = [request.received for request in Asked.read(log, "large/index") if "partNumber" in request.path]
    assert len(parts) == 14 and sum(parts) == 110 << 20


def test_one_row_group_of_a_source_on_s3_is_asked_for_as_a_range(bucket, log):
    assert on_buckets.run_on(bucket, on_s3(on_buckets.ONE_BLOCK)) == "1000\n"
    asked = Asked.read(log, "blocks/p.parquet")
    size = sum(request.received for request in asked)
    assert size > 8 * 10_000_000
    assert 10_000_000 < sum(request.sent for request in asked) < size / 3


def test_a_busy_bucket_on_s3_is_asked_again(bucket):
    on_buckets.run_on(bucket, on_buckets.hurried(on_s3(on_buckets.BUSY), "S3"))


def test_credentials_of_s3_that_are_missing_or_wrong_are_one_line(bucket, monkeypatch, tmp_path):
    for name in CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    server = {"AWS_ENDPOINT_URL": bucket["AWS_ENDPOINT_URL"]}
    lines = on_buckets.run_on(server, on_s3(on_buckets.REFUSED)).splitlines()
    assert len(lines) == 4
    for line in lines:
        assert "s3://bucket/private" in line and "no access (Unable to locate credentials)" in line
        assert "AWS_ACCESS_KEY_ID" in line


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


def test_servers_of_other_makers(bucket):
    """Their refusals lack AWS's name for the condition; a server without conditions cannot hold a store."""
    said = on_buckets.run_on(
        bucket, CREATES, "s3://bucket/no-conditions", "s3://elsewhere/store"
    ).splitlines()
    assert said[0] == "True False b'1'"
    assert said[1].startswith(
        "InputError store s3://bucket/no-conditions does not enforce exclusive creation"
    )
    assert (
        said[2]
        == "InputError store s3://elsewhere/store is not writable: The specified bucket does not exist"
    )


def test_without_s3fs_a_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    # fsspec keeps what it has imported.
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(
        InputError, match=r"store s3://bucket/store needs s3fs: pip install 'multiview-retrieval\[s3\]'"
    ):
        open_store("s3://bucket/store")


@pytest.mark.acceptance
def test_the_whole_small_dag_runs_on_s3_and_is_found_again(bucket, tmp_path):
    project = Project.make(tmp_path, store="s3://bucket/runs/store", **bucket)
    assert on_buckets.run_on(bucket, on_buckets.DAG, str(tmp_path / "tiny.yaml"), project.store) == "13\n"
    assert "0 steps done, 13 found" in project("run", "training")
