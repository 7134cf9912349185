"""How old the champion's corpus is, by refreshes that promote, keep, are refused and fail."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from multiview.artifacts.champions import champion_of, crown, rollback
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.refresh.freshness import Freshness, freshness
from multiview.steps.runs import Run, StepState, read_state, write_run, write_state
from tests.fixtures.champions import champion, read_again
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.inprocess import run_plan


def refresh(corpus: ChangingCorpus, number: int, **settings) -> float:
    """Does a refresh as a run of its own; the time at which it began."""
    begun = time.time()
    write_run(corpus.store, Run(id=f"refresh-{number}", pipeline="refresh", config=settings))
    run_plan(corpus.plan(**settings), corpus.store, f"refresh-{number}")
    return begun


def test_the_corpus_is_as_old_as_its_last_reading_whatever_came_of_it(corpus: ChangingCorpus) -> None:
    def now() -> Freshness:
        return freshness(corpus.store, champion_of(corpus.store))

    assert (now().ended, now().oldest, now().notice) == ({}, None, "")
    kept = refresh(corpus, 1)
    assert now().read >= kept and now().ended.keys() == {"kept"}, "read again and found the same"
    corpus.add("new-1")
    refused = refresh(corpus, 2, gate={"smallest_corpus": 1000}, refresh={"oldest": 3.5})
    assert kept <= now().read < refused <= now().ended["refused"], (
        "the champion's corpus is still the old one"
    )
    assert now().oldest == 3.5
    promoted = refresh(corpus, 3)
    assert now().read >= promoted and now().oldest is None
    for file in Path(corpus.store.url, "runs", "refresh-2").rglob("*"):
        file.touch()  # as a copy without times does
    assert now().oldest is None
    assert promoted <= now().ended["promoted"] and now().ended["kept"] < refused < now().ended["refused"]
    corpus.rows.clear()
    with pytest.raises(InputError, match="no passage"):
        refresh(corpus, 4)
    assert now().oldest is None
    for number in range(2):  # before a split has ended
        with pytest.raises(InputError, match="no passage"):
            refresh(corpus, 5 + number, refresh={"oldest": 4.5})
    assert now().oldest == 4.5
    failed = now()
    assert failed.ended["failed"] > failed.ended["promoted"] > failed.read >= promoted
    assert str(failed).startswith("corpus read 20") and "; refresh failed 20" in str(failed)
    rollback(corpus.store)
    assert kept <= now().read < refused, "of the earlier corpus"


def test_a_run_that_fails_when_it_is_started_again_has_failed(corpus: ChangingCorpus) -> None:
    refresh(corpus, 1)
    kept = freshness(corpus.store, champion_of(corpus.store)).ended["kept"]
    state = StepState(path="challenger/encode", step="encode", status="failed", ended=kept + 60)
    write_state(corpus.store, "refresh-1", state)
    ended = freshness(corpus.store, champion_of(corpus.store)).ended
    assert ended == {"kept": kept, "failed": kept + 60}


def test_a_rerun_that_finds_a_promotion_has_promoted_nothing_now(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    refresh(corpus, 1)
    before = freshness(corpus.store, champion_of(corpus.store))
    found = read_state(corpus.store, "refresh-1", "promote")
    assert found is not None and found.ended is not None
    write_run(corpus.store, Run(id="refresh-2", pipeline="refresh", config={}, rerun_of="refresh-1"))
    write_state(
        corpus.store, "refresh-2", found.model_copy(update={"status": "found", "ended": found.ended + 3600})
    )
    after = freshness(corpus.store, champion_of(corpus.store))
    assert after.ended.keys() == {"promoted"} and after.ended["promoted"] < found.ended + 60
    assert (after.read, after.oldest) == (before.read, before.oldest)


def test_a_rerun_of_a_kept_refresh_keeps_nothing_now(corpus: ChangingCorpus) -> None:
    refresh(corpus, 1)
    refresh(corpus, 2, refresh={"oldest": 3.5})
    before = freshness(corpus.store, champion_of(corpus.store))
    found = read_state(corpus.store, "refresh-1", "promote")
    assert found is not None and before.oldest == 3.5
    write_run(corpus.store, Run(id="refresh-3", pipeline="refresh", config={}, rerun_of="refresh-1"))
    later = {"status": "found", "started": time.time() + 3600, "ended": time.time() + 3600}
    write_state(corpus.store, "refresh-3", found.model_copy(update=later))
    assert freshness(corpus.store, champion_of(corpus.store)) == before


def test_a_step_of_another_pipeline_is_no_refresh(tmp_path: Path) -> None:
    """As a component that was published alone."""
    store = LocalStore(tmp_path)
    now = crown(store, champion(store, 1))
    write_run(store, Run(id="refresh-index-1", pipeline="refresh-index", config={}))
    write_state(store, "refresh-index-1", StepState(path="a", step="refresh-index", status="failed", ended=1))
    assert freshness(store, now).ended == {}
    read_again(store, now, hours=1)
    assert freshness(store, now).ended.keys() == {"failed"}


def test_a_notice_says_that_the_corpus_is_too_old() -> None:
    fresh = Freshness(time.time() - 7200, {}, oldest=2.1)
    assert not fresh.notice and not replace(fresh, oldest=None).notice
    assert replace(fresh, oldest=1.9).notice.startswith("the corpus is older than refresh.oldest=1.9 hours: ")
