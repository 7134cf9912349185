"""Promotions: what they leave, when they are done again, and who hears of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from multiview import names
from multiview.artifacts.champions import champion_file, champion_of, rollback
from multiview.artifacts.record import load_record
from multiview.refresh import gate
from multiview.refresh.champion import challenger_of
from multiview.refresh.gate_rules import Measurements, Verdict
from multiview.steps.runs import Pages
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.servers import inbox


def test_both_outcomes_are_sent(promoted_corpus: ChangingCorpus) -> None:
    with inbox() as received:
        promoted_corpus.add("new-2")
        promoted_corpus.refresh(
            notify={"url": received.url},
            pages=Pages(kubeflow="https://kubeflow/#/runs/details/aaaa", mlflow="https://mlflow/#/runs/bbbb"),
        )
        promoted_corpus.rows = promoted_corpus.rows[: len(promoted_corpus.rows) // 2]
        roots = {"kubeflow": "https://kubeflow"}
        promoted_corpus.refresh(notify={"url": received.url, **roots})
        promoted_corpus.refresh(
            notify={"url": received.url}, pages=Pages(mlflow="https://mlflow/#/runs/cccc")
        )
    champion = champion_of(promoted_corpus.store)
    assert champion.number == 3
    promoted, refused = received.messages
    assert promoted["text"].startswith("refresh promoted: ") and "champion: 3, of " in promoted["text"]
    pages = "\nMLflow: https://mlflow/#/runs/bbbb\nKubeflow: https://kubeflow/#/runs/details/aaaa"
    assert promoted["text"].endswith(pages)
    assert refused["text"].startswith("refresh refused: ")
    assert refused["text"].endswith("\nKubeflow: https://kubeflow"), "nothing better is known"
    assert (promoted["status"], refused["status"]) == ("refresh promoted", "refresh refused")
    assert [message["champion"]["number"] for message in received.messages] == [3, 3]
    assert refused["failed"][0]["check"] == "largest_shrinkage"
    assert promoted["champion"]["index"]["digest"] == champion.index.digest


def test_a_promotion_is_done_again_without_its_champion_and_done_where_nobody_takes_its_message(
    corpus: ChangingCorpus,
) -> None:
    corpus.add("new-1")
    with inbox(404) as received:
        corpus.refresh(notify={"url": received.url})
    assert received.posts == 1 and champion_of(corpus.store).number == 2
    corpus.store.remove(champion_file(2))
    assert corpus.decision(corpus.refresh()) == "promote"
    assert champion_of(corpus.store).number == 2, "nothing was found that is not there"


def test_a_refused_refresh_names_the_champion_that_was_made_meanwhile(
    promoted_corpus: ChangingCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, read = promoted_corpus.store, gate.read_verdict

    def later(folder: Path) -> Verdict:
        if champion_of(store).why != "rollback":
            rollback(store)
        return read(folder)

    monkeypatch.setattr(gate, "read_verdict", later)
    promoted_corpus.rows = promoted_corpus.rows[: len(promoted_corpus.rows) // 2]
    made = promoted_corpus.refresh()
    assert promoted_corpus.decision(made) == "refuse" and champion_of(store).why == "rollback"
    outcome = json.loads((promoted_corpus.files(made["promote"]["promotion"]) / "promotion.json").read_text())
    assert outcome["champion"]["number"] == champion_of(store).number
    assert challenger_of(store, champion_of(store)) is None, "it was measured against another champion"


def test_the_gate_measures_both_indexes_and_knows_how_many_ids_stayed(
    promoted_corpus: ChangingCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: list[tuple[Measurements, Measurements]] = []
    decide, champion = gate.decide, champion_of(promoted_corpus.store)

    def recorded(policy: Any, *given: Any) -> Verdict:
        decided.append(given[:2])
        return decide(policy, *given)

    monkeypatch.setattr(gate, "decide", recorded)
    promoted_corpus.add("new-2", "new-3")
    promoted_corpus.change(0)
    records = promoted_corpus.refresh()
    indexes = {
        "champion": load_record(champion.index.address).record,
        "challenger": records["challenger/index"][names.INDEX],
    }
    for measured, (side, index) in zip(decided[0], indexes.items(), strict=True):
        files = (file for file in promoted_corpus.files(index).rglob("*") if file.is_file())
        assert measured.bytes == sum(file.stat().st_size for file in files)
        assert measured.columns == {"url": "string", "day": "date32[day]"}
        evaluation = records[f"{side}/evaluate"][names.EVALUATION]
        assert measured.seconds_per_question == evaluation.facts["search_seconds_per_question"] > 0
        rows = pq.read_table(promoted_corpus.files(evaluation) / "questions.parquet").to_pylist()
        ranks = [(row["rank_of_first_answer"], row["rank_of_first_gold"]) for row in rows]
        assert measured.ranks.tolist() == [
            min((rank for rank in pair if rank), default=np.inf) for pair in ranks
        ]
    assert decided[0][1].known == len(promoted_corpus.rows) - 2


def test_a_number_that_comes_again_is_another_champion(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    corpus.refresh()
    corpus.refresh()  # which knows champion 2
    corpus.store.remove(champion_file(2))
    corpus.add("new-2")
    corpus.refresh()
    second = champion_of(corpus.store)
    assert second.number == 2
    corpus.add("new-3")
    records = corpus.refresh()
    assert records["challenger/changes"][names.CHANGES].facts["to_encode"] == 1
    assert records["challenger/index"][names.INDEX].inputs["old"][0].digest == second.index.digest
