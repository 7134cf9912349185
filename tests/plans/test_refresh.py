"""What the plan of a refresh refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiview.config.overrides import merge
from multiview.errors import InputError
from multiview.plans.estimate import base_config
from multiview.plans.parameters import parameters_of
from multiview.plans.request import Request
from tests.fixtures.changing_corpus import ChangingCorpus


@pytest.mark.parametrize("name", ["mrr_at_5", "accuracy_at_20", "accuracy", "nonsense_at_5"])
def test_a_metric_of_the_gate_that_is_not_measured_is_named_before_anything(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(
        InputError, match=rf"gate.least: {name} is not measured: .* there are accuracy_at_1, "
    ):
        ChangingCorpus.make(tmp_path).plan(gate={"drops": {}, "least": {name: 0.5}})


def test_an_allowance_that_is_not_measured_can_be_left_out(tmp_path: Path) -> None:
    corpus = ChangingCorpus.make(tmp_path)
    with pytest.raises(
        InputError, match="gate.drops: accuracy_at_20 .*, or set gate.drops.accuracy_at_20=null$"
    ):
        corpus.plan(gate={"drops": {"mrr_at_10": 0.05}})
    corpus.plan(gate={"drops": {"mrr_at_10": 0.05, "accuracy_at_20": None}})


def test_a_rank_beyond_those_that_are_retrieved_is_named_before_anything(tmp_path: Path) -> None:
    corpus = ChangingCorpus.make(tmp_path)
    corpus.plan(gate={"must_find": {"q1": 10}})
    with pytest.raises(InputError, match=r"gate.must_find.q1: rank 11 is beyond evaluation.depth=10"):
        corpus.plan(gate={"must_find": {"q1": 11}})


@pytest.mark.parametrize(
    "train", [{"model": "/gone/model/0"}, {"negatives": 0, "negative_group": 1}, {"positive": "answer"}]
)
def test_a_refresh_trains_nothing_so_no_setting_of_a_training_is_in_its_way(tmp_path: Path, train) -> None:
    corpus = ChangingCorpus.make(tmp_path)
    model = {"architecture": "dpr", "views": 8}
    request = Request.make("refresh", merge(corpus.settings, {"model": model, "train": train}))
    assert request.plan == corpus.plan(model=model)
    assert "learning_rate" not in {parameter.name for parameter in parameters_of(request)}
    base_config("refresh", request.overrides)


def test_a_refresh_trains_no_generator(tmp_path: Path) -> None:
    model = {"architecture": "dual-cross", "views": 1}
    with pytest.raises(InputError, match=r"generation.fine_tune: .*generation.model=ADDRESS"):
        ChangingCorpus.make(tmp_path).plan(model=model, generation={"fine_tune": True})
