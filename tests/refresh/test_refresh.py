"""The pipeline `refresh`, step by step on real (tiny) models: what it encodes, makes, decides and leaves alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from multiview import load, metric_names, names
from multiview.artifacts.champions import champion_file, champion_numbers, current, rollback
from multiview.artifacts.record import read_record
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import merge
from multiview.data import sentences
from multiview.errors import InputError
from multiview.lineage import garbage
from multiview.lineage.trace import flaws, trace
from multiview.model.systems import resolve
from multiview.plans.plan import Plan
from multiview.steps.events import read_metrics
from multiview.steps.path import StepPath
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.inprocess import Records, run_plan
from tests.fixtures.page_tree import read
from tests.fixtures.tiny import tiny_bert


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> ChangingCorpus:
    """A store with its first champion."""
    corpus = ChangingCorpus.make(tmp_path_factory.mktemp("refresh"))
    records = corpus.refresh(refresh={"model": corpus.with_model()})
    assert decision(corpus, records) == "promote"
    return corpus


@pytest.fixture
def corpus(begun: ChangingCorpus, tmp_path: Path) -> ChangingCorpus:
    """The same for one test alone."""
    shutil.copytree(begun.folder, tmp_path / "copy")
    first = tmp_path / "copy" / "store" / champion_file(1)
    first.write_text(first.read_text().replace(str(begun.folder), str(tmp_path / "copy")))
    copy = ChangingCorpus(
        tmp_path / "copy", LocalStore(tmp_path / "copy" / "store"), begun.base, [*begun.rows]
    )
    copy.settings = {
        **begun.settings,
        "corpus": {**begun.settings["corpus"], "source": str(copy.folder / "now.parquet")},
    }
    return copy


def decision(corpus: ChangingCorpus, records: Records) -> str:
    return verdict(corpus, records)["decision"]


def verdict(corpus: ChangingCorpus, records: Records) -> dict:
    return json.loads((corpus.files(records["gate"][names.VERDICT]) / "verdict.json").read_text())


def index_digest(records: Records) -> str:
    return records["challenger/index"][names.INDEX].digest


def test_the_first_champion_is_made_of_everything(begun: ChangingCorpus) -> None:
    champion = current(begun.store)
    assert champion is not None and (champion.number, champion.why, champion.predecessor) == (
        1,
        "first",
        None,
    )
    index = champion.load(begun.store)[names.INDEX][1]
    assert index.facts["passages"] == len(begun.rows)


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
    assert index_digest(rebuilt) == index_digest(records), "to the byte"
    champion = current(corpus.store)
    assert champion is not None and (champion.number, champion.predecessor) == (2, 1)
    assert decision(corpus, rebuilt) == "keep", "the rebuild changed nothing"


def test_the_corpus_is_cut_as_split_cuts_it_and_only_what_changed_is_split_into_sentences(
    corpus: ChangingCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    split = sentences.SplitSentences.__call__
    monkeypatch.setattr(
        sentences.SplitSentences,
        "__call__",
        lambda self, given, hashes: texts.extend(given) or split(self, given, hashes),
    )
    corpus.change(2, words="It was changed. Twice.")
    corpus.add("new-1")
    before = current(corpus.store)
    assert before is not None
    again = corpus.refresh()["split"]
    assert texts == [corpus.rows[2]["text"], corpus.rows[-1]["text"]]
    assert again[names.PASSAGES].inputs["known"][0].address == before.passages.address
    plan = Plan("split")
    plan.add(
        StepPath("split"), "split", resolve(merge(corpus.settings, {"questions": {"max_missing_gold": 1.0}}))
    )
    anew = run_plan(plan, corpus.store, "split")["split"]
    assert {kind: record.digest for kind, record in again.items()} == {
        kind: record.digest for kind, record in anew.items()
    }


def test_nothing_changed_nothing_is_promoted(corpus: ChangingCorpus) -> None:
    records = corpus.refresh()
    assert (decision(corpus, records), champion_numbers(corpus.store)) == ("keep", [1])
    assert records["challenger/changes"][names.CHANGES].facts["to_encode"] == 0


def test_a_halved_corpus_is_refused_and_the_champion_stays(corpus: ChangingCorpus) -> None:
    corpus.rows = corpus.rows[: len(corpus.rows) // 2]
    records = corpus.refresh()
    found = verdict(corpus, records)
    assert found["decision"] == "refuse" and found["says"].startswith("largest_shrinkage: ")
    assert champion_numbers(corpus.store) == [1]
    page = (corpus.files(records["report"][names.REPORT]) / "report.html").read_text()
    assert "<h1>Refused</h1>" in page and "largest_shrinkage" in page
    assert decision(corpus, corpus.refresh(gate={"drops": {}, "largest_shrinkage": 0.6})) == "promote"
    assert champion_numbers(corpus.store) == [1, 2]


def test_the_page_says_what_the_gate_found(corpus: ChangingCorpus) -> None:
    corpus.change(2, 7)
    corpus.rows = corpus.rows[: len(corpus.rows) // 2]
    records = corpus.refresh()
    found = verdict(corpus, records)
    page = read((corpus.files(records["report"][names.REPORT]) / names.REPORT_FILE).read_text())
    assert page.one("h1").text == "Refused"
    assert found["says"] in page.one("section", id="summary").text
    checks = [[cell.text for cell in (*row.all("th"), *row.all("td"))] for row in rows(page, "checks")]
    assert checks == [
        [check["name"], "passed" if check["passed"] else "refused", check["says"]]
        for check in found["checks"]
    ]
    metrics = {row.one("th").text: [cell.text for cell in row.all("td")][:2] for row in rows(page, "metrics")}
    assert metrics == {
        metric_names.short(name): [f"{100 * of[who]:.1f}" for who in ("champion", "challenger")]
        for name, of in found["metrics"].items()
    }


def test_the_gate_tells_the_metrics_of_both_sides_as_metric_and_side(corpus: ChangingCorpus) -> None:
    corpus.change(2)
    gate = corpus.refresh()["gate"][names.VERDICT]
    told = {metric.name: metric.value for metric in read_metrics(corpus.store, gate.data)}
    measured = json.loads((corpus.files(gate) / "verdict.json").read_text())["metrics"]
    assert measured and told == {
        metric_names.of_group(side, name): measured[name][side]
        for name in measured
        for side in ("champion", "challenger")
    }


def rows(page: Any, section: str) -> list[Any]:
    return page.one("section", id=section).one("tbody").all("tr")


def test_another_model_is_a_rebuild_and_the_champion_is_asked_with_its_own(corpus: ChangingCorpus) -> None:
    other = corpus.with_model(seed=1)
    records = corpus.refresh(refresh={"model": other})
    facts = records["challenger/changes"][names.CHANGES].facts
    assert (facts["to_encode"], facts["full"]) == (len(corpus.rows), "another model")
    champion = current(corpus.store)
    assert champion is not None and champion.model.address == other
    records = corpus.refresh()
    assert (decision(corpus, records), champion_numbers(corpus.store)) == ("keep", [1, 2]), (
        "the champion's model from now on"
    )


def test_a_promotion_whose_champion_was_removed_is_done_again(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    corpus.refresh()
    corpus.store.remove(champion_file(2))
    assert decision(corpus, corpus.refresh()) == "promote"
    champion = current(corpus.store)
    assert champion is not None and champion.number == 2, "nothing was found that is not there"


def test_a_number_that_comes_again_is_another_champion(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    corpus.refresh()
    corpus.refresh()  # which knows champion 2
    corpus.store.remove(champion_file(2))
    corpus.add("new-2")
    corpus.refresh()
    second = current(corpus.store)
    assert second is not None and second.number == 2
    corpus.add("new-3")
    records = corpus.refresh()
    assert records["challenger/changes"][names.CHANGES].facts["to_encode"] == 1
    assert records["challenger/index"][names.INDEX].inputs["old"][0].digest == second.index.digest


def test_a_corpus_that_did_not_change_is_not_cut_again_after_a_promotion(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    keys = [corpus.refresh()["split"][names.PASSAGES].key for _ in range(2)]
    assert keys[0] == keys[1]


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


def test_questions_whose_passages_are_gone_are_left_out_for_both(corpus: ChangingCorpus) -> None:
    corpus.remove("p1")
    records = corpus.refresh()
    assert records["split"][names.PASSAGES].facts["dropped_questions"] > 0
    assert decision(corpus, records) == "promote"


def test_a_store_without_champion_and_model_says_what_to_give(corpus: ChangingCorpus) -> None:
    corpus.store.remove(names.CHAMPIONS)
    with pytest.raises(
        InputError, match=r"has no champion yet: .*--set refresh\.model=ADDRESS, such as .*/model/"
    ):
        corpus.refresh()


def test_a_champion_whose_index_is_gone_says_how_to_go_on(corpus: ChangingCorpus) -> None:
    champion = current(corpus.store)
    assert champion is not None
    corpus.store.remove("/".join(champion.index.address.split("/")[-2:]))
    with pytest.raises(InputError, match=r"champion 1: there is no artifact at .*rollback --to NUMBER"):
        corpus.refresh()


def test_a_model_of_another_architecture_is_refused_before_anything(corpus: ChangingCorpus) -> None:
    with pytest.raises(
        InputError, match=r"the champion's model is a camvr model: set model\.architecture=camvr"
    ):
        corpus.refresh(model={"architecture": "dpr"})


@pytest.mark.parametrize("wrong", [names.INDEX, names.PASSAGES])
def test_a_model_must_be_one(corpus: ChangingCorpus, wrong: str) -> None:
    champion = current(corpus.store)
    assert champion is not None
    with pytest.raises(InputError, match=f"refresh.model: .* is the address of {wrong}, not of a model"):
        corpus.refresh(refresh={"model": getattr(champion, wrong).address})


def test_a_model_of_another_width_makes_another_index(corpus: ChangingCorpus) -> None:
    """Nothing of the old one can be kept, and nothing of it is mixed in."""
    tiny_bert(corpus.folder / "base-wide", width=32)
    address = corpus.with_model_of(corpus.folder / "base-wide")
    records = corpus.refresh(refresh={"model": address})
    assert records["challenger/index"][names.INDEX].facts["dim"] == 32
    assert decision(corpus, records) == "promote"


def test_what_was_promoted_can_be_read_as_a_whole(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    records = corpus.refresh()
    champion = current(corpus.store)
    assert champion is not None
    for kind, (store, record) in champion.load(corpus.store).items():
        assert record == read_record(store, kind, record.key)
    assert champion.index.digest == index_digest(records)


def test_what_is_collected_is_missed_by_nobody(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    corpus.refresh()
    champion = current(corpus.store)
    assert champion is not None
    found = list(garbage.collectable(corpus.store, garbage.referenced(corpus.store, 0, champions=1), 0))
    for one in found:
        garbage.remove(corpus.store, one)
    gone = {piece.kind for piece in found}
    assert gone == {names.CHANGES, names.EMBEDDINGS, names.INDEX}
    assert corpus.store.folders(names.INDEX) == sorted(
        {piece.path.split("/")[1] for piece in found if piece.kind == names.INDEX}
        | {champion.index.address.split("/")[-1]}
    )
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
    assert decision(corpus, records) == "promote"


def test_columns_that_are_not_encoded_arrive_too(corpus: ChangingCorpus) -> None:
    corpus.rows = [{**row, "url": f"https://example.org/new/{row['id']}"} for row in corpus.rows]
    before = current(corpus.store)
    records = corpus.refresh()
    assert records["challenger/changes"][names.CHANGES].facts["to_encode"] == 0
    assert decision(corpus, records) == "promote"
    champion = current(corpus.store)
    assert before is not None and champion is not None and champion.index.digest == before.index.digest
    hits = load(champion.index.address).search(["What ran past the old castle?"], 3)[0]
    assert all("/new/" in hit.columns["url"] for hit in hits)


def test_a_store_that_was_moved_is_refreshed(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    moved = corpus.folder / "moved"
    (corpus.folder / "store").rename(moved)
    corpus.store = LocalStore(moved)
    assert decision(corpus, corpus.refresh()) == "promote"
    champion = current(corpus.store)
    assert champion is not None and champion.index.address.startswith(str(moved))


@pytest.mark.parametrize("name", ["mrr_at_5", "accuracy_at_20", "accuracy", "nonsense_at_5"])
def test_a_metric_of_the_gate_that_is_not_measured_is_named_before_anything(
    corpus: ChangingCorpus, name: str
) -> None:
    with pytest.raises(
        InputError, match=rf"gate.least: {name} is not measured: .* there are accuracy_at_1, "
    ):
        corpus.plan(gate={"drops": {}, "least": {name: 0.5}})


def test_a_trained_index_says_how_far_it_has_drifted(corpus: ChangingCorpus) -> None:
    settings = {"index": {"kind": "IVF2,SQ8"}, "refresh": {"retrain_error": 1e9}}
    corpus.refresh(**settings)
    corpus.add("new-1")
    records = corpus.refresh(**settings)
    assert records["challenger/index"][names.INDEX].facts["drift_added"] > 0
    page = (corpus.files(records["report"][names.REPORT]) / "report.html").read_text()
    assert "of its views were added since it was trained" in page
