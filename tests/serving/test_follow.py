"""Following the champion: promotions, rollbacks, and champions that cannot be loaded."""

from __future__ import annotations

import ast
import asyncio
import gc
import logging
import re
import time
import weakref

import numpy as np
import pytest

import multiview
from multiview.artifacts.champions import champion_file, champion_of, rollback
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.index import ranking
from multiview.refresh import freshness
from multiview.serving import follow
from multiview.serving.batching import Batcher, Search
from multiview.serving.follow import Follower
from tests.fixtures.answering_server import wait_for
from tests.fixtures.bucket import emulated_bucket, free_port
from tests.fixtures.champions import read_again
from tests.fixtures.crowned import index_record, promote
from tests.fixtures.on_buckets import run_on

QUESTION = "Where was Tesla born?"


def test_the_next_champion_answers_and_after_a_rollback_the_old_one(crowned):
    follower = Follower(crowned.store)
    alone = {system: multiview.load(crowned.index(system)).search([QUESTION]) for system in ("camvr", "mvr")}
    answers = []
    for change in (lambda: None, lambda: promote(crowned, "mvr"), lambda: rollback(crowned.store)):
        change()
        follower.check()
        with follower.generations.using() as generation:
            answers.append(generation.retriever.search([QUESTION]))
    assert answers == [alone["camvr"], alone["mvr"], alone["camvr"]]
    assert not follower.check(), "nothing is loaded while nothing changes"
    assert (follower.loads, follower.failures, follower.problem) == (2, 0, "")
    assert follower.generations.newest.number == 3


def test_no_request_waits_for_ids_to_be_sorted(crowned, monkeypatch):
    follower = Follower(crowned.store)
    follower.generations.load_beside(crowned.index("mvr"), most=1)
    monkeypatch.setattr(ranking, "numbers", lambda rows: pytest.fail("ids are sorted when a request comes"))
    for address in (None, crowned.index("mvr")):
        with follower.generations.using(address) as generation:
            assert sorted(generation.retriever.index.tie_order[np.arange(2)].tolist()) == [0, 1]


def test_a_request_ends_on_the_index_that_it_began_with_which_is_freed_then(crowned):
    """Be it the champion's, or one that it named and that was promoted meanwhile, which is in memory once."""
    follower = Follower(crowned.store)
    generations = follower.generations
    generations.load_beside(crowned.index("mvr"), most=1)
    with generations.using() as champion, generations.using(crowned.index("mvr")) as named:
        held = [weakref.ref(each.retriever) for each in (champion, named)]
        views = [weakref.ref(each.retriever.index.views) for each in (champion, named)]
        before = [each.retriever.search([QUESTION]) for each in (champion, named)]
        promote(crowned, "mvr")
        assert follower.check() and generations.ending == 2
        assert [each.retriever.search([QUESTION]) for each in (champion, named)] == before
        del champion, named
        gc.collect()
        assert all(each() is not None for each in held)
    assert generations.ending == 0 and generations.loaded(crowned.index("mvr"))
    assert [each() for each in (*held, *views)] == [None] * 4, "without waiting for a collection"


def test_an_index_whose_search_fails_as_it_is_replaced_is_freed_without_a_collection(crowned, monkeypatch):
    """Neither the error nor its traceback, with the frames of the request, holds it in a cycle."""
    follower = Follower(crowned.store)
    generations = follower.generations

    async def ask(batcher: Batcher) -> None:
        with generations.using() as generation:
            search = batcher.search(generation.retriever, [QUESTION], Search())
            promote(crowned, "mvr")
            assert follower.check() and generations.ending == 1
            await search

    async def serve() -> None:
        batcher = Batcher(questions=8, waiting=8)
        running = asyncio.create_task(batcher.run())
        with pytest.raises(ValueError, match="no memory"):
            await ask(batcher)
        running.cancel()

    def fails(*_: object, **__: object) -> None:
        raise ValueError("no memory")

    monkeypatch.setattr(generations.newest.retriever, "search", fails)
    gc.collect()
    gc.disable()
    try:
        asyncio.run(serve())
        assert generations.ending == 0
    finally:
        gc.enable()


def test_a_champion_that_cannot_be_loaded_is_told_and_the_old_one_goes_on(crowned, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    follower = Follower(crowned.store)
    before = follower.generations.newest
    views = crowned.files(index_record(crowned, "mvr")) / "views.f16"
    whole = views.read_bytes()
    views.write_bytes(whole[:-1])
    promote(crowned, "mvr")
    for _ in range(3):
        assert not follower.check()
    line = f"champion 2 could not be loaded: {views} has {len(whole) - 1} bytes instead of {len(whole)}: "
    assert follower.problem.startswith(line) and "remove the folder" in follower.problem
    assert follower.generations.newest is before
    assert follower.failures == 1, "it is not read again at every look"
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    views.write_bytes(whole)
    assert not follower.check()
    monkeypatch.setattr(follow.time, "monotonic", lambda: 1e12)
    assert follower.check() and follower.problem == ""


def test_every_byte_of_the_next_champion_and_its_file_are_checked(crowned):
    follower = Follower(crowned.store)
    views = crowned.files(index_record(crowned, "mvr")) / "views.f16"
    content = bytearray(views.read_bytes())
    content[-1] ^= 1
    views.write_bytes(content)
    promote(crowned, "mvr")
    assert not follower.check() and "was altered" in follower.problem
    (crowned.store.root / champion_file(2)).write_text("{")
    assert not follower.check()
    assert re.match(r"\S+champions/000002\.json is damaged", follower.problem), "not what was told before"
    (crowned.store.root / champion_file(2)).unlink()
    assert not follower.check() and follower.problem == ""


def test_a_store_without_a_champion_is_refused(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(InputError, match="has no champion: run the pipeline refresh first"):
        Follower(LocalStore(tmp_path))


BUCKET = """
import sys
from pathlib import Path
from multiview.artifacts.champions import rollback
from multiview.artifacts.scratch import scratch
from multiview.artifacts.store import open_store
from multiview.serving.follow import Follower

local, store = Path(sys.argv[1]), open_store("gs://bucket/served")
files = sorted(file.relative_to(local).as_posix() for file in local.rglob("*") if file.is_file())
second, late = "champions/000002.json", sys.argv[3]
for name in files:
    if name not in (second, late):
        store.create(name, (local / name).read_bytes())

def answer():
    with follower.generations.using() as generation:
        return [(hit.id, hit.score) for hit in generation.retriever.search([sys.argv[2]])[0]]

def copies():
    return follower.generations.newest.retriever.copies

follower = Follower(store)
held = follower.generations.newest.retriever
first, answers = copies(), [answer()]
assert len(first) == 3 and all(folder.is_relative_to(scratch()) for folder in first)
store.create(second, (local / second).read_bytes())
assert not follower.check() and "is missing" in follower.problem
assert not follower.check()
assert set(scratch().glob("*/*")) > first, "it will be tried again"
rollback(store)
assert follower.check() and not follower.check(), "which removes copies"
assert set(scratch().glob("*/*")) == first, "none of what could not be loaded"
store.create(late, (local / late).read_bytes())
rollback(store, to=2)
assert follower.check()
answers.append(answer())
now = copies()
assert not follower.check(), "which removes copies"
assert first & now and first - now, "the corpus is read by both"
assert all(folder.is_dir() for folder in first | now), "somebody holds the first"
assert [(hit.id, hit.score) for hit in held.search([sys.argv[2]])[0]] == answers[0]
del held
assert not follower.check(), "which removes copies"
assert all(folder.is_dir() for folder in now) and not any(folder.exists() for folder in first - now)
rollback(store)
assert follower.check()
answers.append(answer())
assert not follower.check() and not list(scratch().rglob("*.faiss")), "of faiss's file there was one copy"
print(answers)
"""


def test_local_copies_of_a_champion_in_a_bucket_go_with_it(crowned):
    """Also those of an approximate index, and those of one that could not be loaded."""
    promote(crowned, "pooled")
    late = f"{index_record(crowned, 'pooled').data}/views.f16"
    with emulated_bucket(free_port()) as environment:
        answers = ast.literal_eval(run_on(environment, BUCKET, str(crowned.store.root), QUESTION, late))
    alone = [
        [(hit.id, hit.score) for hit in multiview.load(crowned.index(system)).search([QUESTION])[0]]
        for system in ("camvr", "pooled", "camvr")
    ]
    assert answers == alone


def test_in_python_a_loaded_champion_is_followed_where_asked(crowned, monkeypatch):
    store = crowned.store.url
    still = multiview.load("champion", store=store)
    followed = multiview.load("champion", store=store, follow=True)
    assert followed.search([QUESTION], k=3) == still.search([QUESTION], k=3)
    promote(crowned, "mvr")
    expected = multiview.load(crowned.index("mvr")).search([QUESTION], k=3)
    assert followed.search([QUESTION], k=3) == still.search([QUESTION], k=3), "it was looked up a moment ago"
    followed._next = 0
    followed.search([QUESTION])
    wait_for(lambda: followed.retriever.architecture == "mvr")
    assert followed.search([QUESTION], k=3) == expected
    assert still.architecture == "camvr" and followed.retriever.architecture == "mvr"
    with pytest.raises(ValueError, match="only 'champion' can be followed"):
        multiview.load(crowned.index("mvr"), follow=True)


def test_a_champion_whose_first_views_do_not_stand_for_a_passage_is_refused(crowned):
    with pytest.raises(InputError, match="views=1: the first views of architecture camvr"):
        Follower(crowned.store, views=1)


def test_how_old_the_corpus_is_is_looked_at_once_a_minute_and_logged_once_it_is_too_old(
    crowned, caplog, monkeypatch
):
    champion, now = champion_of(crowned.store), time.time()
    follower = Follower(crowned.store)
    follower.look()
    assert follower.freshness and follower.freshness.ended == {} and not follower.freshness.notice
    read_again(crowned.store, champion, hours=0.5, oldest=10)
    follower.look()
    assert follower.freshness.ended == {}, "it was looked at a moment ago"
    notices = []
    for hours in (0, 11, 12, 0, 11):
        monkeypatch.setattr(freshness.time, "time", lambda hours=hours: now + 3600 * hours)
        follower._look_at = 0
        follower.look()
        lines = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        notices.append(sum("the corpus is older than refresh.oldest=10 hours: " in line for line in lines))
    assert notices == [0, 1, 1, 1, 2], "once each time that it has become too old"
    before = follower.freshness
    promote(crowned, "mvr")
    read_again(crowned.store, champion, hours=0, oldest=10)
    assert follower.check()
    follower.look()
    assert follower.freshness.read > before.read and not follower.freshness.notice, "at once"
    (crowned.store.root / "runs" / "refresh-0" / "steps" / "split.json").write_text("{")
    before, follower._look_at = follower.freshness, 0
    follower.look()
    assert follower.freshness is before and "split.json is damaged" in caplog.text
