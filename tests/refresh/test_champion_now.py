"""The step `champion-now`: what a refresh hands on after its verdict."""

import json

import pytest

from multiview import names
from multiview.artifacts.champions import read_champion
from multiview.errors import InputError
from multiview.steps.step import FORWARDED_FILE
from tests.fixtures.changing_corpus import ChangingCorpus

DELTA = {"formats": ["delta"]}


def digests(corpus: ChangingCorpus, records) -> dict[str, str]:
    folder = corpus.files(records["champion-now"][names.CHAMPION_NOW])
    handed_on = json.loads((folder / FORWARDED_FILE).read_text())
    return {name: reference["digest"] for name, reference in handed_on.items()}


def test_a_promoted_champion_and_the_one_before(corpus: ChangingCorpus):
    corpus.add("new-1")
    found = digests(corpus, corpus.refresh(export=DELTA))
    first, second = (read_champion(corpus.store, number) for number in (1, 2))
    assert found == {
        names.INDEX: second.index.digest,
        names.PASSAGES: second.passages.digest,
        names.REPLACED: first.index.digest,
        names.REPLACED_PASSAGES: first.passages.digest,
    }


def test_a_refused_challenger_is_not_handed_on(promoted_corpus: ChangingCorpus):
    promoted_corpus.add("new-2")
    found = digests(promoted_corpus, promoted_corpus.refresh(export=DELTA, gate={"smallest_corpus": 10**6}))
    assert found[names.INDEX] == read_champion(promoted_corpus.store, 2).index.digest
    assert found[names.REPLACED] == read_champion(promoted_corpus.store, 1).index.digest


def test_only_a_delta_needs_the_champion_before(promoted_corpus: ChangingCorpus):
    """Which `gc --champions 1` may have collected."""
    first = read_champion(promoted_corpus.store, 1)
    promoted_corpus.store.remove("/".join(first.index.address.split("/")[-2:]))
    records = promoted_corpus.refresh(export={"formats": ["views"]})
    assert (
        digests(promoted_corpus, records)[names.INDEX] == read_champion(promoted_corpus.store, 2).index.digest
    )
    with pytest.raises(InputError, match="champion 1: there is no artifact"):
        promoted_corpus.refresh(export=DELTA)
