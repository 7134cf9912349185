"""A training in a bucket that refuses, forgets or shortens answers, and whose process dies at any request."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from multiview.plans.plan import Plan
from tests.fixtures import inprocess
from tests.fixtures.bucket import ENVIRONMENT, emulated_bucket, free_port
from tests.fixtures.faulty_proxy import FAULTS, Fault, FaultyProxy, faulty_proxy
from tests.fixtures.injection import forks
from tests.fixtures.tally import COMPARED, POINTS, SURVIVED, TRIED, Tally
from tests.fixtures.tortured import SEED, training_plan

SAMPLE = 7
"""Requests of which one fails, in the quick test."""
SECONDS = 240
"""Seconds for processes that die."""


def train_in_bucket(plan: Plan, url: str, server: str, out: Path) -> None:
    """In a process of its own: runs the plan, and writes the digests of all outputs after every byte was read again."""
    os.environ.update({**ENVIRONMENT, "STORAGE_EMULATOR_HOST": server})
    import gcsfs.retry

    from multiview.artifacts.staging import verify
    from multiview.artifacts.store import open_store

    async def at_once(seconds: float) -> None: ...

    # gcsfs waits 1 s before it asks again, then 2, 4, …: all the same here.
    gcsfs.retry.asyncio = SimpleNamespace(**{**vars(asyncio), "sleep": at_once})  # pyright: ignore
    store, digests = open_store(url), {}
    for path, records in inprocess.run_plan(plan, store).items():
        for kind, record in records.items():
            verify(store, record)
            digests[f"{path} {kind}"] = [record.digest, len(record.files)]
    out.write_text(json.dumps(digests))


@dataclass
class Bucket:
    """An emulated bucket behind a proxy, and what an undisturbed training leaves in it."""

    proxy: FaultyProxy
    plan: Plan
    folder: Path
    expected: dict
    requests: int

    def run(self, store: str, decide: Callable[[int, int], Fault]) -> tuple[int | None, dict]:
        """The exit status of a training, and its digests. `decide` gets the process and the number of each request."""
        out = self.folder / f"{store}.json"
        out.unlink(missing_ok=True)
        process = forks().Process(
            target=train_in_bucket, args=(self.plan, f"gs://bucket/{store}", self.proxy.url, out)
        )
        begun: list[int] = []
        self.proxy.reset(lambda number, method, path: decide(begun[0] if begun else process.pid or 0, number))
        process.start()
        begun.append(process.pid or 0)
        process.join(timeout=300)
        process.kill()
        return process.exitcode, json.loads(out.read_text()) if out.exists() else {}


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    folder = tmp_path_factory.mktemp("bucket")
    plan = training_plan(folder, rounds=1)
    with (
        emulated_bucket(free_port()) as environment,
        faulty_proxy(environment["STORAGE_EMULATOR_HOST"]) as proxy,
    ):
        made = Bucket(proxy, plan, folder, {}, 0)
        status, made.expected = made.run("undisturbed", lambda process, number: "none")
        assert status == 0 and made.expected
        made.requests = len(proxy.asked)
        yield made


@pytest.mark.parametrize(
    ("fault", "every"),
    [("503", SAMPLE), *(pytest.param(fault, 3, marks=pytest.mark.torture) for fault in FAULTS)],
)
def test_a_bucket_that_fails_now_and_then_disturbs_nothing(
    bucket: Bucket, fault: Fault, every: int, tally: Tally
) -> None:
    """The run itself goes on: requests are repeated, and no short answer is taken for a whole one. In `every` runs each
    request fails once."""
    for first in range(every if every < SAMPLE else 1):
        status, digests = bucket.run(
            f"{fault}-{every}-{first}",
            lambda process, number, first=first: fault if number % every == first else "none",
        )
        assert status == 0 and digests == bucket.expected
        _count(tally, bucket, f"bucket, {fault}", bucket.proxy.faults)


@pytest.mark.parametrize("share", ["sample", pytest.param("all", marks=pytest.mark.torture)])
def test_a_process_that_dies_at_a_request_is_continued(bucket: Bucket, share: str, tally: Tally) -> None:
    """Before the request arrives, or after it was done and before its answer."""
    deaths: tuple[Fault, ...] = ("refused", "lost")
    points: list[tuple[int, Fault]] = [
        (number, fault) for number in range(1, bucket.requests + 1) for fault in deaths
    ]
    random.Random(SEED).shuffle(points)
    chosen = points if share == "all" else points[:2]
    ends = time.monotonic() + SECONDS
    for at, fault in chosen:
        if time.monotonic() > ends:
            break

        def die(process: int, number: int, at: int = at, fault: Fault = fault) -> Fault:
            if number != at:
                return "none"
            os.kill(process, signal.SIGKILL)
            return fault

        status, _ = bucket.run(f"killed-{share}-{at}-{fault}", die)
        if status != -signal.SIGKILL:
            continue  # it asked less often this time
        status, digests = bucket.run(f"killed-{share}-{at}-{fault}", lambda process, number: "none")
        assert status == 0 and digests == bucket.expected, f"killed at request {at}, {fault}"
        _count(tally, bucket, "bucket, killed at a request", 1)
    if share == "all":
        tally.add(POINTS, len(points), of="bucket, killed at a request")


def _count(tally: Tally, bucket: Bucket, what: str, faults: int) -> None:
    tally.add(TRIED, faults, of=what)
    tally.add(SURVIVED, faults, of=what)
    tally.add(COMPARED, sum(files for _, files in bucket.expected.values()), of="training in a bucket")
