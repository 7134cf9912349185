"""The store on `gs://`, against an emulator that enforces exclusive creation."""

import re
from pathlib import Path

import pytest

from tests.fixtures import on_buckets
from tests.fixtures.bucket import Asked, emulated_bucket, free_port
from tests.fixtures.project import Project


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    """The file in which the emulator logs its requests."""
    return tmp_path_factory.mktemp("emulator") / "requests.jsonl"


@pytest.fixture(scope="module")
def bucket(log):
    with emulated_bucket(free_port(), log=log) as environment:
        yield environment


def test_races_in_a_bucket_have_one_winner_each(bucket):
    wins = on_buckets.race(bucket, "gs://bucket/races")
    assert sorted(wins[0] + wins[1]) == list(range(30))


def test_artifacts_in_a_bucket(bucket):
    assert "has 7 bytes instead of 5: remove the folder gs://bucket/store/passages/k" in on_buckets.run_on(
        bucket, on_buckets.STORE
    )


def test_threads_that_stage_the_same_artifact_both_have_it_whole(bucket):
    assert on_buckets.run_on(bucket, on_buckets.TWO_THREADS) == "whole\n"


def test_sources_in_a_bucket(bucket):
    assert on_buckets.run_on(bucket, on_buckets.SOURCES) == "read\n"


def test_a_large_file_goes_in_parts_and_comes_back_whole(bucket, log):
    """110 MB, of which only some parts of 8 MB are in memory at a time."""
    written, read = map(int, on_buckets.run_on(bucket, on_buckets.LARGE).split())
    parts = [asked.received for asked in Asked.read(log, "large/index") if asked.received > 1 << 20]
    assert len(parts) == 14 and sum(parts) == 110 << 20
    assert written < 80 and read < 80


def test_one_row_group_of_a_source_is_asked_for_as_a_range(bucket, log):
    """The file has eight row groups of 10 MB."""
    assert on_buckets.run_on(bucket, on_buckets.ONE_BLOCK) == "1000\n"
    asked = Asked.read(log, "blocks/p.parquet")
    size = sum(request.received for request in asked)
    assert size > 8 * 10_000_000
    assert 10_000_000 < sum(request.sent for request in asked) < size / 3


def test_a_busy_bucket_is_asked_again(bucket):
    """The first attempt at each read, listing and write gets 503, including a write in several parts."""
    on_buckets.run_on(bucket, on_buckets.hurried(on_buckets.BUSY, "CloudStorage"))


def test_credentials_that_are_missing_are_one_line(bucket):
    lines = on_buckets.run_on(bucket, on_buckets.REFUSED).splitlines()
    assert len(lines) == 4
    for line in lines:
        assert "gs://bucket/private" in line and "no access (Anonymous caller does not have" in line
        assert "gcloud auth application-default login" in line


def test_the_whole_small_dag_runs_on_a_bucket_and_is_found_again(bucket, tmp_path):
    """All steps in one process first, which spares their imports; then through KFP."""
    project = Project.make(tmp_path, store="gs://bucket/runs/store", **bucket)
    assert on_buckets.run_on(bucket, on_buckets.DAG, str(tmp_path / "tiny.yaml"), project.store) == "13\n"
    output = project("run", "training")
    assert "0 steps done, 13 found" in output
    assert re.search(r"^\| camvr +\|", output, re.MULTILINE)
    (name,) = re.findall(r"^(training-\w+):", output, re.MULTILINE)
    output = project("rerun", "camvr/round-2/evaluate", "--from", name, "--set", "evaluation.depth=15")
    assert "1 step done, 0 found" in output
