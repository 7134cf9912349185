"""Indexes beside the one that answers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref

import pytest

from multiview.artifacts.champions import rollback
from multiview.artifacts.record import Record, Reference, load_reference
from multiview.serving import follow
from multiview.serving.batching import Batcher, Search
from multiview.serving.follow import Follower
from multiview.serving.named_indexes import NamedIndexes, NoSuchIndex
from tests.fixtures.answering_server import of_champion
from tests.fixtures.champions import refuse
from tests.fixtures.crowned import index_record, promote

QUESTION = "Where was Tesla born?"


def others_of(crowned, most: int = 2) -> tuple[Follower, NamedIndexes]:
    serving = of_champion(crowned, most)
    assert serving.follower and serving.named_indexes
    return serving.follower, serving.named_indexes


async def address(others: NamedIndexes, name: str) -> str:
    async with others.using(name) as generation:
        generation.retriever.search([QUESTION], k=1)
        return generation.retriever.address


def test_an_index_is_found_by_key_address_role_and_run(crowned):
    refuse(crowned.store, 1, Reference.to(crowned.store, index_record(crowned, "mvr")), ended=1)

    async def ask() -> None:
        follower, others = others_of(crowned)
        mvr = crowned.index("mvr")
        for name in (index_record(crowned, "mvr").key, mvr, "challenger"):
            assert await address(others, name) == mvr
        answering = index_record(crowned, "camvr").key
        async with others.using(answering) as generation:
            assert generation is follower.generations.newest, "not loaded twice"
        assert await address(others, "champion") == crowned.index("camvr")

    asyncio.run(ask())


OUTSIDE = ["", ".", "..", "none", "../index/x", "/etc/index/passwd", "s3://elsewhere/index/key", "m-" + "0" * 32, "models:/x", "a" * 256, "ä" * 200]  # fmt: skip


def test_no_name_leads_out_of_the_store_and_its_indexes(crowned):
    record, url = index_record(crowned, "mvr"), crowned.store.url
    inside = [record.inputs["model"][0].address, f"{url}/model/x", f"{url}/index/../index/{record.key}", f"{url}/index/none"]  # fmt: skip

    async def ask() -> None:
        _, others = others_of(crowned)
        for name in (*OUTSIDE, *inside):
            with pytest.raises(NoSuchIndex) as error:
                await address(others, name)
            if name in OUTSIDE:
                assert str(error.value) == (
                    f"there is no index {name}: name a key that GET /indexes lists, a run's id, "
                    "champion or challenger"
                )
        with pytest.raises(NoSuchIndex, match="^there is no challenger in the store$"):
            await address(others, "challenger")

    asyncio.run(ask())


def test_the_few_that_were_asked_for_last_are_kept_and_a_request_ends_on_its_index(crowned):
    async def ask() -> None:
        follower, others = others_of(crowned, most=1)
        generations = follower.generations
        async with others.using(index_record(crowned, "mvr").key) as generation:
            held = weakref.ref(generation.retriever)
            assert await address(others, index_record(crowned, "dpr").key) == crowned.index("dpr")
            assert not generations.loaded(crowned.index("mvr"))
            assert generation.retriever.search([QUESTION]), "it still answers its request"
            assert generations.ending == 1
        del generation
        gc.collect()
        assert (held(), generations.ending) == (None, 0)
        assert generations.loaded(crowned.index("dpr"))
        promote(crowned, "dpr")
        assert follower.check() and rollback(crowned.store) and follower.check()
        assert await address(others, index_record(crowned, "dpr").key) == crowned.index("dpr")

    asyncio.run(ask())


def test_it_is_loaded_once_for_all_who_ask_at_once(crowned, monkeypatch):
    loads = []
    load = follow.load
    monkeypatch.setattr(
        "multiview.serving.follow.load", lambda *a, **more: loads.append(a) or load(*a, **more)
    )

    async def ask() -> None:
        _, others = others_of(crowned)
        key = index_record(crowned, "mvr").key
        assert len(set(await asyncio.gather(*(address(others, key) for _ in range(20))))) == 1

    asyncio.run(ask())
    assert len(loads) == 2, "the champion, and this one"


def test_an_index_may_be_called_as_the_list_of_all(crowned):
    """Who asks for an index `choices` while another asks for the list gets an answer of their own."""

    async def ask() -> None:
        _, others = others_of(crowned)
        found = await asyncio.gather(address(others, "choices"), others.choices(), return_exceptions=True)
        assert "there is no index choices" in str(found[0]) and isinstance(found[1], list)

    asyncio.run(ask())


def test_a_damaged_index_is_told_and_tried_again(crowned):
    views = crowned.files(index_record(crowned, "mvr")) / "views.f16"
    whole = views.read_bytes()

    async def ask() -> None:
        _, others = others_of(crowned)
        views.write_bytes(whole[:-1])
        with pytest.raises(NoSuchIndex, match=r"views\.f16 has \d+ bytes instead of"):
            await address(others, index_record(crowned, "mvr").key)
        views.write_bytes(whole)
        assert await address(others, index_record(crowned, "mvr").key)

    asyncio.run(ask())


def test_choices_are_champions_the_challenger_and_all_others(crowned):
    promote(crowned, "mvr")
    rollback(crowned.store)
    refuse(crowned.store, 3, Reference.to(crowned.store, index_record(crowned, "pooled")), ended=1)

    async def ask() -> None:
        _, others = others_of(crowned)
        choices = await others.choices()
        found = {choice.name: (choice.roles, choice.architecture) for choice in choices}
        assert [choice.kind for choice in choices] == ["", "", "compact", "", ""]
        keys = {system: index_record(crowned, system).key for system in ("camvr", "mvr", "pooled", "dpr")}
        assert list(found)[:3] == [keys["camvr"], keys["mvr"], keys["pooled"]]
        assert found[keys["camvr"]] == (["champion 3", "champion 1"], "camvr")
        assert found[keys["mvr"]] == (["champion 2"], "mvr")
        assert found[keys["pooled"]] == (["challenger"], "camvr")
        assert found[keys["dpr"]] == ([], "dpr")
        assert list(found)[3:] == [keys["dpr"], index_record(crowned, "all-views").key], "newest first"

    asyncio.run(ask())


def test_a_trained_model_has_the_architecture_of_the_model_that_it_was_trained_from(crowned):
    def write(record: Record, **changes) -> Record:
        changed = record.model_copy(update=changes)
        folder = crowned.store.root / changed.folder
        folder.mkdir()
        (folder / "artifact.json").write_bytes(changed.to_json())
        return changed

    index = index_record(crowned, "mvr")
    _, untrained = load_reference(index.inputs["model"][0], "the index", crowned.store)
    start = {"start": [Reference.to(crowned.store, untrained)]}
    trained = write(untrained, key="0" * 32, step="train", config={"train": {}}, inputs=start)
    write(
        index,
        key="1" * 32,
        inputs={**index.inputs, "model": [Reference.to(crowned.store, trained)]},
    )
    write(index, key="2" * 32, facts={**index.facts, "passages": 0})  # as a first refresh compares with
    choices = {choice.name: choice for choice in asyncio.run(others_of(crowned)[1].choices())}
    assert choices["1" * 32].architecture == "mvr" and "2" * 32 not in choices


def test_copies_are_not_removed_while_an_index_is_loaded(crowned, tmp_path):
    follower, _ = others_of(crowned)
    folder = tmp_path / "copy"
    folder.mkdir()
    follower.generations._leftover.add(folder)
    with contextlib.ExitStack() as loading:
        loading.enter_context(follower.generations.loading())
        follower.generations.remove_copies()
        assert folder.exists()
    follower.generations.remove_copies()
    assert not folder.exists()


def test_copies_that_an_index_beside_reads_too_are_not_removed(crowned, tmp_path):
    """As the corpus of a champion that was replaced, which another index was made from."""
    follower, _ = others_of(crowned)
    generations, folder = follower.generations, tmp_path / "copy"
    folder.mkdir()
    generations.load_beside(crowned.index("mvr"), most=1)
    with generations.using(crowned.index("mvr")) as beside:
        beside.retriever.copies = frozenset({folder})
    generations._leftover.add(folder)
    generations.remove_copies()
    assert folder.exists()


def test_questions_to_two_indexes_at_once_are_answered_by_their_own(crowned):
    """Those to one index share a batch, which is of one index."""

    async def ask() -> None:
        follower, others = others_of(crowned)
        champion, sizes = follower.generations.newest.retriever, []
        batcher = Batcher(questions=8, waiting=8, report_batch=sizes.append)
        running = asyncio.create_task(batcher.run())
        async with others.using(index_record(crowned, "mvr").key) as named:
            asked = [champion, named.retriever, champion]
            found = await asyncio.gather(*(batcher.search(each, [QUESTION], Search()) for each in asked))
        running.cancel()
        assert found == [each.search([QUESTION]) for each in asked] and found[0] != found[1]
        assert sizes == [2, 1]

    asyncio.run(ask())
