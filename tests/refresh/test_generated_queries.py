"""A refresh of an index whose passages are read together with generated queries (Dual Cross Encoder)."""

from __future__ import annotations

import pytest

from multiview import names
from multiview.artifacts.champions import current
from multiview.config.overrides import merge
from multiview.lineage import garbage
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.tiny import tiny_t5


@pytest.fixture(scope="module")
def first_champion(tmp_path_factory: pytest.TempPathFactory) -> ChangingCorpus:
    corpus = ChangingCorpus.make(folder := tmp_path_factory.mktemp("queries"))
    generation = {"queries": 3, "max_length": 6, "batch_size": 4, "fine_tune": False}
    changes = {
        "model": {"architecture": "dual-cross", "views": 1},
        "generation": {"model": str(tiny_t5(folder / "t5")), **generation},
    }
    corpus.settings = merge(corpus.settings, changes)
    corpus.refresh(refresh={"model": corpus.with_model()})
    return corpus


def test_queries_are_generated_for_what_changed_and_the_index_is_that_of_a_rebuild(
    corpus: ChangingCorpus,
) -> None:
    corpus.change(2, 7)
    corpus.add("new-1")
    corpus.remove("p4")
    records = corpus.refresh()
    made = [
        records[f"challenger/generate-queries/shard-0{number}"][names.QUERIES].facts["passages"]
        for number in (0, 1)
    ]
    assert sum(made) == records["challenger/changes"][names.CHANGES].facts["to_encode"] == 3
    rebuilt = corpus.refresh(refresh={"full": True})
    assert rebuilt["challenger/changes"][names.CHANGES].facts["to_encode"] == len(corpus.rows)
    digests = [run["challenger/index"][names.INDEX].digest for run in (records, rebuilt)]
    assert digests[0] == digests[1], "to the byte, queries included"
    champion = current(corpus.store)
    assert champion is not None and (champion.number, champion.index.digest) == (2, digests[0])
    corpus.remove("p9")
    nothing = corpus.refresh()
    assert nothing["challenger/changes"][names.CHANGES].facts["to_encode"] == 0
    assert nothing["challenger/index"][names.INDEX].facts["passages"] == len(corpus.rows)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"generation": {"queries": 2}}, "other settings of generation"),
        ({"generation": {"model": "another"}}, "queries of another generator"),
    ],
)
def test_queries_of_two_kinds_are_never_mixed(corpus: ChangingCorpus, changes: dict, why: str) -> None:
    if "model" in changes["generation"]:
        changes = {"generation": {"model": str(tiny_t5(corpus.folder / "another", seed=1))}}
    collecting_of_embeddings(corpus)
    corpus.add("new-1")
    facts = corpus.refresh(**changes)["challenger/changes"][names.CHANGES].facts
    assert (facts["full"], facts["to_encode"]) == (why, len(corpus.rows))


def test_refreshes_that_encode_nothing_share_no_settings_of_generation(corpus: ChangingCorpus) -> None:
    """The queries of no passages are found again, whatever the settings they were first made with."""
    corpus.remove("p3")
    corpus.refresh()
    corpus.refresh(generation={"queries": 2})
    corpus.remove("p4")
    corpus.refresh(generation={"queries": 2})
    for queries, why, added in ((2, "", "new-1"), (3, "other settings of generation", "new-2")):
        corpus.add(added)
        made = corpus.refresh(generation={"queries": queries})
        assert made["challenger/changes"][names.CHANGES].facts["full"] == why


def collecting_of_embeddings(corpus: ChangingCorpus) -> None:
    """What the champion's queries were made with is known without the embeddings."""
    found = list(garbage.collectable(corpus.store, garbage.referenced(corpus.store, 0, champions=1), 0))
    list(garbage.remove_all(corpus.store, found, set))
    assert names.EMBEDDINGS in {piece.kind for piece in found}
