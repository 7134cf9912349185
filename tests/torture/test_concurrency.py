"""Runs, collections of garbage, searches and requests at the same time: none disturbs another, nothing is lost."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

import multiview
from multiview import names
from multiview.artifacts.record import read_record
from multiview.artifacts.staging import verify
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather, merge
from multiview.lineage import garbage
from multiview.plans.plan import Plan
from multiview.plans.system import training
from multiview.serving.hits import answer_fields, as_json
from multiview.steps.runs import Run, read_states, write_run
from tests.fixtures import injection
from tests.fixtures.answering_server import Client, serving_process, wait_for
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.crowned import promote
from tests.fixtures.inprocess import run_plan
from tests.fixtures.project import Project
from tests.fixtures.refreshed_corpora import corpus
from tests.fixtures.system_indexes import SystemIndexes
from tests.fixtures.tally import COMPARED, SURVIVED, TRIED, Tally

__all__ = ["corpus"]

OTHERS = (names.RUNS, names.CHAMPIONS, names.CHECKPOINT)
SEARCHES = 10
CLIENTS, MAY_WAIT = 200, 64
SECONDS = 300
MANY = pytest.param(10, marks=pytest.mark.torture)
"""Times that `make torture` repeats what `make test` does once."""


@contextmanager
def forks(count: int) -> Iterator[Executor]:
    """Processes that have imported everything."""
    with ProcessPoolExecutor(count, injection.forks()) as pool:
        yield pool


def digests(store: LocalStore) -> dict[str, str]:
    """The digest of each artifact of a store, every byte of which is read; an attempt that made none is an error."""
    found = {}
    for kind in set(store.folders("")) - set(OTHERS):
        for key in store.folders(kind):
            record = read_record(store, kind, key)
            assert record is not None, f"{kind}/{key} is no artifact"
            assert store.folders(f"{kind}/{key}/attempts") == [record.attempt], f"{kind}/{key} has leftovers"
            verify(store, record)
            found[record.folder] = record.digest
    return found


def _run(plan: Plan, store: LocalStore, begins: threading.Barrier) -> dict[str, str]:
    """The addresses and digests of what a run of a plan says it made or found."""
    begins.wait(SECONDS)
    name = "-".join([plan.name, *plan.architectures.values()])
    run = Run(id=name, pipeline=plan.name, config={}, steps=[str(path) for path in plan.paths()])
    write_run(store, run)
    run_plan(plan, store, run.id)
    states = list(read_states(store, run.id))
    assert all(state.finished for state in states)
    return {
        reference.address.removeprefix(f"{store.url}/"): reference.digest
        for state in states
        for reference in state.outputs.values()
    }


def _plans(folder: Path, rounds: int) -> dict[str, Plan]:
    """Trainings of two systems, which share split and BM25's negatives."""
    project = Project.make(folder)
    settings = merge(
        gather(str(project.folder / "tiny.yaml"), []), {"train": {"rounds": rounds, "max_steps": 4}}
    )
    return {
        system: training(merge(settings, {"model": {"architecture": system}})) for system in ("camvr", "mvr")
    }


@pytest.mark.parametrize(
    ("runs", "rounds"),
    [
        (("camvr", "camvr", "mvr"), 0),
        pytest.param(("camvr", "camvr", "mvr", "mvr"), 2, marks=pytest.mark.torture),
    ],
    ids=["one plan and another", "both, with trainings"],
)
def test_runs_at_once_make_what_each_makes_alone(
    tmp_path: Path, runs: tuple[str, ...], rounds: int, tally: Tally
) -> None:
    plans = _plans(tmp_path, rounds)
    alone, together = LocalStore(tmp_path / "alone"), LocalStore(tmp_path / "together")
    with multiprocessing.Manager() as shared, forks(len(runs)) as pool:
        made = {
            system: pool.submit(_run, plans[system], alone, shared.Barrier(1)).result(SECONDS)
            for system in dict.fromkeys(runs)
        }
        begins = shared.Barrier(len(runs))
        started = [pool.submit(_run, plans[system], together, begins) for system in runs]
        for system, run in zip(runs, started, strict=True):
            assert run.result(SECONDS) == made[system]
    assert digests(together) == digests(alone)
    tally.survived(len(runs), of="runs over one store at once")
    tally.add(COMPARED, len(digests(together)), of="runs over one store at once")


def _refresh(plan: Plan, store: LocalStore) -> dict[str, str]:
    return _run(plan, store, threading.Barrier(1))


def _collect_until(begun: threading.Event, over: threading.Event, store: LocalStore) -> int:
    """Collects garbage of any age, again and again; how many artifacts were to go.

    Nothing has begun to refer to them when it first looks.
    """
    found, referenced = 0, partial(garbage.referenced, store, 0, 1)
    while not over.is_set():
        keep = referenced()
        begun.set()
        pieces = list(garbage.collectable(store, keep, 0))
        found += len(pieces)
        list(garbage.remove_all(store, pieces, referenced))
    return found


@pytest.mark.parametrize("times", [1, MANY])
def test_a_refresh_loses_nothing_to_garbage_collection(
    corpus: ChangingCorpus, times: int, tally: Tally
) -> None:
    """A refresh that was refused once is repeated, so that it finds what nothing refers to until it begins."""
    corpus.change(3)
    corpus.add("new-1")
    corpus.remove(corpus.rows[5]["id"])
    plan, store = corpus.plan(gate={"smallest_corpus": 10**6}), corpus.store
    assert isinstance(store, LocalStore)
    with multiprocessing.Manager() as shared, forks(2) as pool:
        before = pool.submit(_refresh, plan, store).result(SECONDS)
        found = 0
        for _ in range(times):
            assert pool.submit(_refresh, plan, store).result(SECONDS).keys() == before.keys()
            shutil.rmtree(store.root / names.RUNS)  # as if nobody had run it for weeks
            begun, over = shared.Event(), shared.Event()
            collecting = pool.submit(_collect_until, begun, over, store)
            assert begun.wait(SECONDS)
            try:
                after = pool.submit(_refresh, plan, store).result(SECONDS)
            finally:
                over.set()
            found += collecting.result(SECONDS)
            assert after == before
            tally.survived(of="refreshes beside gc --delete")
            assert found, "there was something to collect"


def _search(index: str, questions: list[str], begins: threading.Barrier) -> list[str]:
    retriever = multiview.load(index)
    begins.wait(SECONDS)
    found = retriever.search(questions, k=5, explain=True)
    return [as_json(answer_fields(*each, retriever.exact)) for each in zip(questions, found, strict=True)]


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_searches_at_once_find_to_the_last_digit_what_one_finds(
    indexes: SystemIndexes, where: str, tally: Tally
) -> None:
    index, asked = indexes.index("camvr"), indexes.questions
    alone = _search(index, asked, threading.Barrier(1))
    makes: Callable[[int], Any] = forks if where == "processes" else ThreadPoolExecutor
    with multiprocessing.Manager() as shared, makes(SEARCHES) as pool:
        begins = shared.Barrier(SEARCHES)
        searches = [pool.submit(_search, index, asked, begins) for _ in range(SEARCHES)]
        for search in searches:
            assert search.result(SECONDS) == alone
    tally.survived(SEARCHES, of=f"searches at once, {where}")


def _ask(client: Client, questions: list[str], begins: threading.Barrier) -> list[tuple[str, Any, int]]:
    """Each question with its answer and the number of times that it was refused before."""
    found = []
    with requests.Session() as session:
        begins.wait(SECONDS)
        for question in questions:
            refused = 0
            while True:
                body = {"questions": [question], "k": 3}
                response = session.post(f"{client.url}/search", json=body, timeout=SECONDS)
                if response.status_code == 200:
                    break
                assert response.status_code == 429, response.text
                again = int(response.headers["Retry-After"])
                refused += 1
                threading.Event().wait(again)
            found.append((question, response.json(), refused))
    return found


@pytest.mark.parametrize("questions", [1, pytest.param(4, marks=pytest.mark.torture)])
def test_two_hundred_clients_get_every_answer_through_a_promotion(
    indexes: SystemIndexes, tmp_path: Path, questions: int, tally: Tally
) -> None:
    copy = indexes.copy(tmp_path / "store")
    promote(copy, "camvr")
    asked = indexes.questions
    expected = {}
    for number, system in enumerate(("camvr", "mvr"), 1):
        retriever = multiview.load(copy.index(system))
        for question, hits in zip(asked, retriever.search(asked, k=3), strict=True):
            expected[number, question] = json.loads(as_json(answer_fields(question, hits, retriever.exact)))
    words = ("--store", copy.store.url, "--poll", "0.1", "--max-waiting", str(MAY_WAIT))
    with serving_process(*words) as (client, _), ThreadPoolExecutor(CLIENTS) as pool:
        answered, refused, champions = 0, 0, set()
        for promoted in (1, 2):
            begins = threading.Barrier(CLIENTS)
            asking: list[Future[list[tuple[str, Any, int]]]] = [
                pool.submit(_ask, client, [asked[(i + j) % len(asked)] for j in range(questions)], begins)
                for i in range(CLIENTS)
            ]
            if promoted == 2:
                promote(copy, "mvr")
            wait(asking, SECONDS)
            for question, found, before in (each for client in asking for each in client.result()):
                assert found["answers"] == [expected[found["champion"], question]]
                champions.add(found["champion"])
                answered, refused = answered + 1, refused + before
        wait_for(lambda: client.get("/readyz").json()["champion"] == 2)
        assert client.search(asked[0], k=3)["answers"] == [expected[2, asked[0]]]
    assert answered == 2 * CLIENTS * questions and 1 in champions
    assert refused, "more asked than may wait"
    tally.add(TRIED, answered + refused, of=f"requests of {CLIENTS} clients at once")
    tally.add(SURVIVED, answered, of=f"requests of {CLIENTS} clients at once, answered")
    tally.add(SURVIVED, refused, of=f"requests of {CLIENTS} clients at once, refused and then answered")
