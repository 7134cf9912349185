"""The step `champion`: the index that a refresh starts from, and what is said where it is gone."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from multiview import names
from multiview.artifacts.champions import champion_file, current
from multiview.artifacts.record import load_record
from multiview.artifacts.store import LocalStore
from multiview.config import Model
from multiview.config.overrides import merge
from multiview.errors import InputError
from multiview.model.systems import shared
from multiview.refresh.champion import check_champion, empty_artifacts
from tests.fixtures.bases import random_base
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.tiny import LENGTHS


def test_the_first_champion_is_made_of_everything(first_champion: ChangingCorpus) -> None:
    champion = current(first_champion.store)
    assert champion is not None and (champion.number, champion.why, champion.predecessor) == (
        1,
        "first",
        None,
    )
    index = champion.load(first_champion.store)[names.INDEX][1]
    assert index.facts["passages"] == len(first_champion.rows)


def test_a_store_without_champion_and_model_says_what_to_give(corpus: ChangingCorpus) -> None:
    corpus.store.remove(names.CHAMPIONS)
    with pytest.raises(
        InputError, match=r"has no champion yet: .*--set refresh\.model=ADDRESS, such as .*/model/"
    ):
        corpus.refresh()


def test_a_champion_whose_index_is_gone_says_how_to_go_on(corpus: ChangingCorpus) -> None:
    champion = current(corpus.store)
    assert champion is not None
    corpus.store.remove(champion.load(corpus.store)[names.INDEX][1].folder)
    with pytest.raises(
        InputError, match=r"champion 1: there is no artifact at .*remove .*/champions/000001.json and refresh"
    ):
        corpus.refresh()
    corpus.store.remove(champion_file(1))
    corpus.refresh(refresh={"model": champion.model.address})
    again = current(corpus.store)
    assert again is not None and again.references() == champion.references()


def test_a_model_of_another_architecture_is_refused_before_anything(corpus: ChangingCorpus) -> None:
    with pytest.raises(
        InputError, match=r"the champion's model is a camvr model: set model\.architecture=camvr"
    ):
        corpus.refresh(model={"architecture": "dpr"})


def test_settings_that_the_model_was_not_saved_with_are_refused_before_anything(
    corpus: ChangingCorpus,
) -> None:
    saved, another = LENGTHS | {"scale": 1.0}, {"views": 2, "passage_length": 32, "scale": 2}
    another |= {"pooling": "snippet", "normalise": True, "merge_title": False}
    for name, other in another.items():
        default = getattr(Model(), name)
        own = saved.get(name, default)
        line = rf"^model\.{name}: {other}.*, but the champion's model has {own}: set model\.{name}={own}$"
        with pytest.raises(InputError, match=line):
            corpus.refresh(model={name: other})
        for fitting in ({}, {name: own}, {name: default}, {"seed": 7}):
            check_champion(corpus.store, shared(merge(corpus.settings, {"model": fitting})))


def test_the_first_views_that_are_evaluated_are_those_of_the_saved_model(tmp_path: Path) -> None:
    corpus = ChangingCorpus.make(tmp_path)
    corpus.settings["model"] |= {"architecture": "meta", "views": 20}
    address = corpus.with_model()
    del corpus.settings["model"]["views"]  # whose default, 16, is no measure
    for views, refused in ((18, False), (20, False), (21, True)):
        given = {"refresh": {"model": address}, "evaluation": {"views": views, "at": [1, 5]}}
        corpus.plan(**given)
        with pytest.raises(InputError, match="but model.views is 20") if refused else nullcontext():
            check_champion(corpus.store, shared(merge(corpus.settings, given)))


@pytest.mark.parametrize("wrong", [names.INDEX, names.PASSAGES])
def test_a_model_must_be_one(corpus: ChangingCorpus, wrong: str) -> None:
    champion = current(corpus.store)
    assert champion is not None
    with pytest.raises(InputError, match=f"refresh.model: .* is the address of {wrong}, not of a model"):
        corpus.refresh(refresh={"model": getattr(champion, wrong).address})


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_an_empty_index_is_as_wide_as_its_model(tmp_path: Path, kind: str) -> None:
    corpus = ChangingCorpus.make(tmp_path)
    model = load_record(corpus.with_model_of(random_base(tmp_path / kind, kind)))
    assert empty_artifacts(corpus.store, model)[names.INDEX].record.facts["dim"] == 32


def test_a_store_that_was_moved_is_refreshed(corpus: ChangingCorpus) -> None:
    corpus.add("new-1")
    moved = corpus.folder / "moved"
    (corpus.folder / "store").rename(moved)
    corpus.store = LocalStore(moved)
    assert corpus.decision(corpus.refresh()) == "promote"
    champion = current(corpus.store)
    assert champion is not None and champion.index.address.startswith(str(moved))
