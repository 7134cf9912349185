"""The pipeline `refresh`, step by step on real (tiny) models: what it encodes, makes, decides and leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiview import load, names
from multiview.artifacts.champions import champion_numbers, champion_of, current, rollback
from multiview.artifacts.record import read_record, split_address
from multiview.config.overrides import merge
from multiview.data.questions import read_questions
from multiview.evaluation.files import RUN_FILE
from multiview.lineage import garbage
from multiview.lineage.trace import flaws, trace
from multiview.model.encoder import BiEncoder
from multiview.model.systems import resolve
from multiview.plans.plan import Plan
from multiview.serving.follow import Follower
from multiview.steps.path import StepPath
from tests.fixtures.by_trec import read_trec_run
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.inprocess import run_plan
from tests.fixtures.tiny import tiny_bert


def test_what_changed_is_encoded_and_the_index_is_that_of_a_rebuild(corpus: ChangingCorpus) -> None:
    corpus.change(2, 7)
    corpus.add("new-1", "new-2", "new-3")
    corpus.remove("p4")
    records = corpus.refresh()
    facts = records["challenger/changes"][names.CHANGES].facts
    assert [facts[name] for name in ("added", "changed", "removed", "to_encode")] == [3, 2, 1, 5]
    encoded = sum(
        records[f"challenger/encode/shard-0{number}"][names.EMBEDDINGS].facts["passages"] for number in (0, 1)
    )
    assert encoded == 5
    rebuilt = corpus.refresh(refresh={"full": True})
    assert rebuilt["challenger/changes"][names.CHANGES].facts["to_encode"] == len(corpus.rows)
    digests = [each["challenger/index"][names.INDEX].digest for each in (records, rebuilt)]
    assert digests[0] == digests[1], "to the byte"
    assert records["split"][names.PASSAGES].facts["dropped_questions"] > 0, "they are left out for both sides"
    keys = [each["split"][names.PASSAGES].key for each in (records, rebuilt)]
    assert keys[0] == keys[1], "a corpus that did not change is not cut again after a promotion"
    champion = current(corpus.store)
    assert champion is not None and (champion.number, champion.predecessor) == (2, 1)
    assert corpus.decision(rebuilt) == "keep", "the rebuild changed nothing"


def test_the_corpus_is_cut_as_split_cuts_it(corpus: ChangingCorpus) -> None:
    corpus.change(2, words="It was changed. Twice.")
    corpus.add("new-1")
    before = current(corpus.store)
    assert before is not None
    again = corpus.refresh()["split"]
    assert again[names.PASSAGES].inputs["known"][0].address == before.passages.address
    plan = Plan("split")
    plan.add(
        StepPath("split"), "split", resolve(merge(corpus.settings, {"questions": {"max_missing_gold": 1.0}}))
    )
    anew = run_plan(plan, corpus.store, "split")["split"]
    assert {kind: again[kind].digest for kind in anew} == {
        kind: record.digest for kind, record in anew.items()
    }


def test_another_model_is_a_rebuild_and_the_champion_is_asked_with_its_own(corpus: ChangingCorpus) -> None:
    """Of a model of another width nothing of the old index can be kept, and nothing of it is mixed in."""
    other = corpus.with_model_of(tiny_bert(corpus.folder / "base-wide", width=32))
    records = corpus.refresh(refresh={"model": other})
    facts = records["challenger/changes"][names.CHANGES].facts
    assert (facts["to_encode"], facts["full"]) == (len(corpus.rows), "another model")
    assert records["challenger/index"][names.INDEX].facts["dim"] == 32
    champion = current(corpus.store)
    assert champion is not None and champion.model.address == other
    records = corpus.refresh()
    assert (corpus.decision(records), champion_numbers(corpus.store)) == ("keep", [1, 2]), (
        "the champion's model from now on"
    )


def test_where_nothing_changed_nothing_is_encoded_and_no_model_loaded(
    corpus: ChangingCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BiEncoder, "load", lambda *given, **more: pytest.fail("a model was loaded"))
    plan = corpus.plan()
    to_index = list(plan.nodes)[: list(map(str, plan.nodes)).index("challenger/index") + 1]
    part = Plan(plan.name, {path: plan.nodes[path] for path in to_index}, plan.architectures)
    records = run_plan(part, corpus.store)
    assert records["challenger/encode/shard-00"][names.EMBEDDINGS].facts["views"] == 0
    assert records["challenger/index"][names.INDEX].digest == champion_of(corpus.store).index.digest


def test_a_rollback_is_refreshed_from_where_it_went(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    corpus.refresh()
    rollback(corpus.store)
    champion = current(corpus.store)
    assert champion is not None and (champion.number, champion.restores) == (3, 1)
    records = corpus.refresh()
    assert records["challenger/changes"][names.CHANGES].facts["added"] == 1
    champion = current(corpus.store)
    assert champion is not None and (champion.number, champion.predecessor) == (4, 3)


def test_what_is_collected_is_missed_by_nobody(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    corpus.refresh()
    champion = current(corpus.store)
    assert champion is not None
    found = list(garbage.collectable(corpus.store, garbage.referenced(corpus.store, 0, champions=1), 0))
    list(garbage.remove_all(corpus.store, found, set))
    gone = {piece.kind for piece in found}
    assert gone == {names.CHANGES, names.EMBEDDINGS, names.INDEX}
    collected = {Path(piece.path).name for piece in found if piece.kind == names.INDEX}
    whole = {*corpus.store.folders(names.INDEX)} - collected
    records = {key: read_record(corpus.store, names.INDEX, key) for key in whole}
    assert [key for key, record in records.items() if record and record.facts["passages"]] == [
        split_address(champion.index.address)[2]
    ], "and the empty one, which the first champion's is made from"
    assert [hit.id for hit in load(champion.index.address).search(["What ran past the old castle?"], 3)[0]]

    lineage = trace([champion.index])
    assert {node.record.kind for node in lineage.nodes if node.collected} == gone
    assert list(flaws(lineage)) == []
    last = [node for node in lineage.nodes if node.last]
    assert {node.record.kind for node in last} == {names.INDEX, names.PASSAGES}
    assert all(node.inputs == {} for node in last), "or it would grow with every refresh"

    corpus.add("new-2")
    records = corpus.refresh()
    assert records["challenger/changes"][names.CHANGES].facts["to_encode"] == 1
    assert corpus.decision(records) == "promote"


def test_columns_that_are_not_encoded_arrive_too(corpus: ChangingCorpus) -> None:
    corpus.rows = [{**row, "url": f"https://example.org/new/{row['id']}"} for row in corpus.rows]
    before = current(corpus.store)
    records = corpus.refresh()
    assert records["challenger/changes"][names.CHANGES].facts["to_encode"] == 0
    assert corpus.decision(records) == "promote"
    champion = current(corpus.store)
    assert before is not None and champion is not None and champion.index.digest == before.index.digest
    hits = load(champion.index.address).search(["What ran past the old castle?"], 3)[0]
    assert all("/new/" in hit.columns["url"] for hit in hits)


def test_what_ranks_is_measured_promoted_followed_and_rolled_back(corpus: ChangingCorpus) -> None:
    """The gate compares a champion by views and a hybrid challenger, over the same views, as each of them is served."""
    follower = Follower(corpus.store)
    retrievers = {"champion": follower.generations.newest.retriever}
    records = corpus.refresh(search={"mode": "hybrid"})
    assert corpus.decision(records) == "promote" and follower.check()
    retrievers["challenger"] = follower.generations.newest.retriever
    assert [each.ranking for each in retrievers.values()] == ["", "hybrid"]
    questions = read_questions(corpus.files(records["split"][names.DEV_QUESTIONS]))
    runs = []
    for side, retriever in retrievers.items():
        run = read_trec_run(corpus.files(records[f"{side}/evaluate"][names.EVALUATION]) / RUN_FILE)
        runs.append([[name for name, _ in run[question.qid]] for question in questions])
        found = retriever.search([question.question for question in questions], 10)
        assert [[hit.id for hit in hits] for hits in found] == runs[-1]
    assert runs[0] != runs[1]
    says = {check["name"]: check["says"] for check in corpus.verdict(corpus.refresh())["checks"]}
    assert says["ranking"] == "dense, was hybrid", "a refresh whose settings leave it out says so"
    rollback(corpus.store)
    follower.check()
    rollback(corpus.store)
    assert follower.check() and follower.generations.newest.retriever.ranking == ""
