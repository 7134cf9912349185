"""Promotions: what they leave, when they are done again, and who hears of them."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from multiview import names
from multiview.artifacts.champions import champion_file, current
from multiview.artifacts.record import read_record
from multiview.steps.runs import Pages
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.servers import answering, inbox


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
    champion = current(promoted_corpus.store)
    assert champion is not None and champion.number == 3
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


def test_an_address_that_refuses_messages_stops_nothing(promoted_corpus: ChangingCorpus) -> None:
    promoted_corpus.add("new-2")
    answers_501 = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    with answering(answers_501) as server:
        promoted_corpus.refresh(notify={"url": f"http://127.0.0.1:{server.server_port}/"})
    champion = current(promoted_corpus.store)
    assert champion is not None and champion.number == 3


def test_a_promotion_whose_champion_was_removed_is_done_again(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    corpus.refresh()
    corpus.store.remove(champion_file(2))
    assert corpus.decision(corpus.refresh()) == "promote"
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


def test_what_was_promoted_can_be_read_as_a_whole(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    records = corpus.refresh()
    champion = current(corpus.store)
    assert champion is not None
    for kind, (store, record) in champion.load(corpus.store).items():
        assert record == read_record(store, kind, record.key)
    assert champion.index.digest == records["challenger/index"][names.INDEX].digest
