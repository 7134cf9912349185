"""A refresh of an index whose passages are read together with generated queries (Dual Cross Encoder)."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiview import names
from multiview.artifacts.champions import current
from multiview.config.overrides import merge
from multiview.errors import InputError
from multiview.lineage import garbage
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.tiny import tiny_t5


@pytest.fixture
def world(tmp_path: Path) -> ChangingCorpus:
    world = ChangingCorpus.make(tmp_path)
    generation = {"queries": 3, "max_length": 6, "batch_size": 4, "input_length": 64, "fine_tune": False}
    world.settings = merge(
        world.settings,
        {
            "model": {"architecture": "dual-cross", "views": 1},
            "generation": {"model": str(tiny_t5(tmp_path / "t5")), **generation},
        },
    )
    return world


def test_queries_are_generated_for_what_changed_and_the_index_is_that_of_a_rebuild(
    world: ChangingCorpus,
) -> None:
    world.refresh(refresh={"model": world.with_model()})
    world.change(2, 7)
    world.add("new-1")
    world.remove("p4")
    records = world.refresh()
    made = [
        records[f"challenger/generate-queries/shard-0{number}"][names.QUERIES].facts["passages"]
        for number in (0, 1)
    ]
    assert sum(made) == records["challenger/changes"][names.CHANGES].facts["to_encode"] == 3
    rebuilt = world.refresh(refresh={"full": True})
    assert rebuilt["challenger/changes"][names.CHANGES].facts["to_encode"] == len(world.rows)
    digests = [one["challenger/index"][names.INDEX].digest for one in (records, rebuilt)]
    assert digests[0] == digests[1], "to the byte, queries included"
    champion = current(world.store)
    assert champion is not None and (champion.number, champion.index.digest) == (2, digests[0])
    world.remove("p9")
    nothing = world.refresh()
    assert nothing["challenger/changes"][names.CHANGES].facts["to_encode"] == 0
    assert nothing["challenger/index"][names.INDEX].facts["passages"] == len(world.rows)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"generation": {"queries": 2}}, "other settings of generation"),
        ({"generation": {"model": "another"}}, "queries of another generator"),
    ],
)
def test_queries_of_two_kinds_are_never_mixed(world: ChangingCorpus, changes: dict, why: str) -> None:
    world.refresh(refresh={"model": world.with_model()})
    if "model" in changes["generation"]:
        changes = {"generation": {"model": str(tiny_t5(world.folder / "another", seed=1))}}
    collecting_of_embeddings(world)
    world.add("new-1")
    facts = world.refresh(**changes)["challenger/changes"][names.CHANGES].facts
    assert (facts["full"], facts["to_encode"]) == (why, len(world.rows))


def collecting_of_embeddings(world: ChangingCorpus) -> None:
    """What the champion's queries were made with is known without the embeddings."""
    found = list(garbage.collectable(world.store, garbage.referenced(world.store, 0, champions=1), 0))
    for one in found:
        garbage.remove(world.store, one)
    assert names.EMBEDDINGS in {piece.kind for piece in found}


def test_a_refresh_trains_no_generator(world: ChangingCorpus) -> None:
    with pytest.raises(InputError, match=r"generation.fine_tune: .*generation.model=ADDRESS"):
        world.plan(generation={"fine_tune": True})
