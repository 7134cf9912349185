"""Rates from a run: the counts and seconds of its records."""

from dataclasses import replace
from pathlib import Path

import pytest

from multiview.artifacts.record import load_record
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.estimates.calibration import calibrate
from multiview.estimates.counting import count
from multiview.estimates.estimate import base_config, estimate
from multiview.estimates.model_shape import KNOWN, shape_of
from multiview.estimates.rates import Rate, Rates, default_rates
from multiview.estimates.workload import Hardware, Scenario, Workload
from multiview.plans.description import describe
from multiview.plans.request import Request
from multiview.steps.runs import read_state, write_run
from tests.fixtures.inprocess import run_plan
from tests.fixtures.system_indexes import write_corpus
from tests.fixtures.tiny import tiny_bert

QUICK_START = Rate(value=1e-4, unit="s", source="assumed")
RATES = Rates(rates=default_rates().rates | {"start_seconds": QUICK_START}, devices=default_rates().devices)
SCENARIO = Scenario(Workload(1e6, 3, 100, 1e3, 1e2), KNOWN["minilm-l6"], Hardware(0, "h100", 1, 64e9), RATES)


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> Request:
    folder = tmp_path_factory.mktemp("corpus")
    passages, questions = write_corpus(folder)
    overrides = {
        "corpus": {"source": [str(passages)], "shards": 2},
        "questions": {"source": [str(questions)], "dev_share": 0.4},
        "model": {"base": str(tiny_bert(folder / "base")), "views": 4, "passage_length": 64},
        "train": {"rounds": 0},
    }
    return Request.make("training", overrides)


@pytest.fixture(scope="module")
def run(request_: Request, tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalStore, str]:
    store = LocalStore(tmp_path_factory.mktemp("store"))
    described = describe(request_, store)
    write_run(store, described)
    run_plan(request_.plan, store, described.id)
    return store, described.id


def test_counts_are_those_of_the_records(run: tuple[LocalStore, str], request_: Request) -> None:
    calibration = calibrate(*run, SCENARIO)
    sources = count(request_, LocalStore(run[0].root / "empty"), RATES)
    stored = count(request_, run[0], RATES)
    for counted in (calibration.workload, stored):
        assert counted.passages == sources.passages > 0
        assert counted.questions + counted.dev_questions == sources.questions + sources.dev_questions
    assert 1 <= calibration.workload.views <= 4
    assert "cpu" in calibration.hardware


def test_a_step_takes_what_it_took(run: tuple[LocalStore, str], request_: Request) -> None:
    store, name = run
    calibration = calibrate(store, name, SCENARIO)
    assert {"split", "encode", "evaluate"} <= set(calibration.factors)
    shape = shape_of(str(base_config(request_.overrides).model.base))
    there = Scenario(calibration.workload, shape, SCENARIO.hardware, RATES)
    costs = estimate(request_, there, calibration.factors).costs
    for path, node in request_.plan.nodes.items():
        records = []
        for shard in node.paths():
            state = read_state(store, name, str(shard))
            assert state is not None
            address = next(iter(state.outputs.values())).address
            records.append(load_record(address)[1].seconds)
        if node.step.name in calibration.factors:
            assert sum(costs[path].parts.values()) * costs[path].tasks == pytest.approx(sum(records)), path


def test_what_a_run_says_of_rates_does_not_depend_on_what_is_planned(run: tuple[LocalStore, str]) -> None:
    """Its steps are compared with the estimate for its own base model and passages, however large those planned are."""
    larger = replace(SCENARIO, shape=KNOWN["bert-base"], workload=Workload(1e9, 8, 400, 1e6, 1e4))
    assert calibrate(*run, larger) == calibrate(*run, SCENARIO)


def test_a_run_on_processors_says_nothing_of_gpus(run: tuple[LocalStore, str]) -> None:
    planned = replace(SCENARIO, hardware=replace(SCENARIO.hardware, gpus=8))
    with pytest.raises(
        InputError, match=r"ran on cpu .*, which says nothing of rates on GPUs: leave out --gpus"
    ):
        calibrate(*run, planned)


def test_a_run_without_embeddings_is_refused(tmp_path: Path, request_: Request) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(InputError, match="no run gone"):
        calibrate(store, "gone", SCENARIO)
    described = describe(request_, store)
    write_run(store, described)
    with pytest.raises(InputError, match="no split and embeddings yet"):
        calibrate(store, described.id, SCENARIO)
