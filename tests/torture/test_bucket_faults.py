"""A training and a refresh in buckets that refuse, forget, shorten or withhold answers, and whose process dies at any
request."""

from __future__ import annotations

import itertools
import math
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from tests.fixtures.bucket_kinds import S3, CloudStorage
from tests.fixtures.faulty_proxy import FAULTS, Fault
from tests.fixtures.lost_answers import CALLERS, Losses, LostAnswers, callers, lost_answers
from tests.fixtures.tally import POINTS, Tally
from tests.fixtures.tortured import SEED, WHOLE, Share, each_share
from tests.fixtures.tortured_buckets import CHAMPION, TorturedBucket, tortured_bucket

SAMPLE = 7
"""Requests of which one fails, in the quick test."""
UNANSWERED = {"sample": 50, "all": 10}
"""Requests of which one gets no answer in time."""
UNANSWERED_SECONDS = 15
"""Seconds for requests without an answer."""
SECONDS = {"training": 25, "refresh": 20}
"""Seconds for processes that die."""
FEWEST = 4
"""Deaths at least, however long they take."""


@pytest.fixture(
    scope="module",
    params=[
        ("refresh", CloudStorage()),
        pytest.param(("training", CloudStorage()), marks=pytest.mark.torture),
        pytest.param(("training", S3()), marks=pytest.mark.torture),
        pytest.param(("refresh", S3()), marks=pytest.mark.torture),
    ],
    ids=["refresh-gs", "training-gs", "training-s3", "refresh-s3"],
)
def bucket(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TorturedBucket]:
    pipeline, kind = request.param
    champion = request.getfixturevalue("first_champion") if pipeline == "refresh" else None
    with tortured_bucket(kind, tmp_path_factory.mktemp(pipeline), champion) as made:
        yield made


@pytest.mark.parametrize(
    ("fault", "every"),
    [("503", SAMPLE), *(pytest.param(fault, 2, marks=pytest.mark.torture) for fault in FAULTS)],
)
def test_a_bucket_that_fails_now_and_then_disturbs_nothing(
    bucket: TorturedBucket, fault: Fault, every: int, tally: Tally
) -> None:
    """The run itself goes on: requests are repeated, and no short answer is taken for a whole one. Each second request fails
    that is no repetition, of one fault the odd ones and of the next the even ones; with `WHOLE` each in one of two runs."""
    for first in range(every) if WHOLE and every < SAMPLE else [FAULTS.index(fault) % every]:
        bucket.reset()
        status, digests = bucket.run(_now_and_then(fault, every, first))
        assert status == 0 and not bucket.differences(digests), f"{fault} at {first} of {every}"
        bucket.count(tally, fault, bucket.proxy.faults)


def _now_and_then(fault: Fault, every: int, first: int) -> Callable[[int, int, str], Fault]:
    """Each so many requests one fails, and the next one, which repeats it, counts as none of them."""
    counted, repeated = itertools.count(), False

    def decide(process: int, number: int, method: str) -> Fault:
        nonlocal repeated
        repeated = not repeated and next(counted) % every == first
        return fault if repeated else "none"

    return decide


@each_share
def test_a_bucket_that_does_not_answer_in_time_disturbs_nothing(
    bucket: TorturedBucket, share: Share, tally: Tally
) -> None:
    """The run itself goes on: what nobody answered is asked again, whether or not it was done. A server that is silent from
    the beginning is out of reach."""
    every, ends = UNANSWERED[share], math.inf if WHOLE else time.monotonic() + UNANSWERED_SECONDS
    for first in random.Random(SEED).sample(range(every), every if share == "all" else 1):
        if time.monotonic() > ends:
            break

        def keep_silent(process: int, number: int, method: str, first: int = first) -> Fault:
            if number % every != first or method == "HEAD":
                return "none"
            return "held" if number // every % 2 else "silent"

        bucket.reset()
        status, digests = bucket.run(keep_silent)
        assert bucket.proxy.faults, "some requests got no answer"
        assert status == 0 and not bucket.differences(digests), f"no answer at {first} of {every}"
        bucket.count(tally, "no answer in time", bucket.proxy.faults)
    if share == "all":
        tally.add(POINTS, bucket.requests, of=f"{bucket.name}, no answer in time")


@each_share
def test_a_process_that_dies_at_a_request_is_continued(
    bucket: TorturedBucket, share: Share, tally: Tally
) -> None:
    """Before the request arrives, or after it was done and before its answer. After its promotion the same command is the
    next refresh."""
    deaths: tuple[Fault, ...] = ("refused", "lost")
    points: list[tuple[int, Fault]] = [
        (number, fault) for number in range(1, bucket.requests + 1) for fault in deaths
    ]
    random.Random(SEED).shuffle(points)
    chosen = points if share == "all" else points[:2]
    ends, died = math.inf if WHOLE else time.monotonic() + SECONDS[bucket.pipeline], 0
    for at, fault in chosen:
        if time.monotonic() > ends and died >= FEWEST:
            break

        def die(process: int, number: int, method: str, at: int = at, fault: Fault = fault) -> Fault:
            if number != at:
                return "none"
            os.kill(process, signal.SIGKILL)
            return fault

        bucket.reset()
        before = bucket.champions()
        status, _ = bucket.run(die)
        if status != -signal.SIGKILL:
            continue  # it asked less often this time
        died += 1
        promoted = bucket.champions() > before
        status, digests = bucket.run(lambda process, number, method: "none")
        different = bucket.differences(digests, CHAMPION if promoted else "")
        assert status == 0 and not different, f"killed at request {at}, {fault}: {different}"
        bucket.count(tally, "killed at a request", 1)
    assert died
    if share == "all":
        tally.add(POINTS, len(points), of=f"{bucket.name}, killed at a request")


@pytest.fixture(
    scope="module",
    params=[CloudStorage(), S3()],
    ids=["gs", "s3"],
)
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LostAnswers]:
    with lost_answers(request.param, tmp_path_factory.mktemp("answers")) as made:
        yield made


LOSSES = (
    "first done-503",
    "twice lost",
    "twice done-503",
    "all lost",
    "all done-503",
    "first held",
    "first late",
)


@pytest.mark.parametrize(
    "loss", ["first lost", *(pytest.param(loss, marks=pytest.mark.torture) for loss in LOSSES)]
)
def test_what_was_created_and_never_answered_is_ours(answers: LostAnswers, loss: str, tally: Tally) -> None:
    """By every caller of `Store.create`: one winner, no record lost, and no second run in MLflow."""
    assert callers() == CALLERS
    losses, fault = loss.split()
    answers.count(tally, answers.survive(cast(Fault, fault), cast(Losses, losses)))


def test_of_two_that_create_and_are_not_answered_one_has_won(answers: LostAnswers, tally: Tally) -> None:
    answers.count(tally, answers.survive_race())
