"""The step `champion-now`: what a refresh hands on after its verdict."""

import json
import shutil

from multiview import names
from multiview.artifacts.champions import read_champion
from multiview.artifacts.store import LocalStore
from multiview.steps.step import FORWARDED_FILE
from tests.fixtures.changing_corpus import ChangingCorpus

EXPORT = {"formats": ["views"]}


def digests(corpus: ChangingCorpus, records) -> dict[str, str]:
    folder = corpus.files(records["champion-now"][names.CHAMPION_NOW])
    handed_on = json.loads((folder / FORWARDED_FILE).read_text())
    return {name: reference["digest"] for name, reference in handed_on.items()}


def test_a_promoted_champion_also_after_its_store_was_moved(corpus: ChangingCorpus):
    corpus.add("new-1")
    found = digests(corpus, corpus.refresh(export=EXPORT))
    champion = read_champion(corpus.store, 2)
    assert found == {names.INDEX: champion.index.digest, names.PASSAGES: champion.passages.digest}
    moved = corpus.folder / "moved"
    shutil.move(corpus.store.url, moved)
    corpus.store = LocalStore(moved)
    assert digests(corpus, corpus.refresh(export=EXPORT)) == found


def test_a_refused_challenger_is_not_handed_on(promoted_corpus: ChangingCorpus):
    """The champion before is not read: `gc --champions 1` may have collected it."""
    first = read_champion(promoted_corpus.store, 1)
    promoted_corpus.store.remove("/".join(first.index.address.split("/")[-2:]))
    promoted_corpus.add("new-2")
    records = promoted_corpus.refresh(export=EXPORT, gate={"smallest_corpus": 10**6})
    assert (
        digests(promoted_corpus, records)[names.INDEX] == read_champion(promoted_corpus.store, 2).index.digest
    )
