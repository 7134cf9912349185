"""Promotions: what they leave, when they are done again, and who hears of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from multiview import names
from multiview.artifacts.champions import champion_file, champion_of, rollback
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


def test_the_gate_knows_how_many_passages_the_champion_has_by_their_ids(
    promoted_corpus: ChangingCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided, decide = [], gate.decide

    def known(policy: Any, champion: Any, challenger: Measurements, *others: Any) -> Verdict:
        decided.append(challenger.known)
        return decide(policy, champion, challenger, *others)

    monkeypatch.setattr(gate, "decide", known)
    promoted_corpus.add("new-2", "new-3")
    promoted_corpus.change(0)
    promoted_corpus.refresh()
    assert decided == [len(promoted_corpus.rows) - 2]


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
