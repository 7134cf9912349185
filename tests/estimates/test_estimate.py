"""The estimate of a plan has the plan's steps, and of each the tasks that the plan has."""

from dataclasses import replace

import pytest

from multiview.config.overrides import Overrides
from multiview.estimates.estimate import base_config, config_of, estimate, shards_for
from multiview.estimates.model_shape import KNOWN
from multiview.estimates.rates import default_rates
from multiview.estimates.workload import Hardware, Scenario, Workload
from multiview.plans import PIPELINES
from multiview.plans.request import Request
from multiview.steps.path import StepPath

LOAD = Workload(passages=21e6, views=8, words=100, questions=50_000, dev_questions=3_000)
SCENARIO = Scenario(LOAD, KNOWN["bert-base"], Hardware(8, "h100", 8, 64e9), default_rates())


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_step_has_its_cost_and_its_shards(pipeline: str) -> None:
    request = Request.make(pipeline, {"corpus": {"shards": 7}})
    estimated = estimate(request, SCENARIO)
    assert [*estimated.costs] == [*request.plan.nodes]
    for path, cost in estimated.costs.items():
        assert cost.tasks == len(request.plan.nodes[path].paths()), path
    assert sum(cost.tasks for cost in estimated.costs.values()) == len(request.plan.paths())


DUAL_CROSS: Overrides = {"model": {"architecture": "dual-cross"}}


@pytest.mark.parametrize(
    ("step", "part", "overrides"),
    [
        ("challenger/encode", "tokenising", {}),
        ("challenger/encode", "tokenising", DUAL_CROSS),
        ("challenger/generate-queries", "writing queries", DUAL_CROSS),
    ],
)
def test_a_refresh_reads_and_encodes_what_changed(step: str, part: str, overrides: Overrides) -> None:
    request = Request.make("refresh", overrides)
    some, more = (
        estimate(request, replace(SCENARIO, workload=replace(LOAD, changed=share)))
        .costs[StepPath.parse(step)]
        .parts[part]
        for share in (0.01, 0.03)
    )
    assert more == pytest.approx(3 * some)


def test_steps_are_estimated_with_the_settings_of_their_system_and_stage() -> None:
    overrides: Overrides = {
        "train": {"round_two": {"epochs": 3}},
        "comparison": {"systems": {"a": {"model": {"tied": True}}, "b": {"encode": {"compute": "bfloat16"}}}},
    }
    request = Request.make("comparison", overrides)
    nodes = {str(path): config_of(node, request) for path, node in request.plan.nodes.items()}
    assert nodes["a/round-1/train"].model.tied and not nodes["b/round-1/train"].model.tied
    assert nodes["b/round-2/encode"].encode.compute == "bfloat16"
    assert (nodes["a/round-1/train"].train.epochs, nodes["a/round-2/train"].train.epochs) == (40, 3)
    assert nodes["bm25/evaluate"].bm25 == base_config(overrides).bm25


def test_found_steps_cost_nothing() -> None:
    whole = estimate(Request.make("training", {}), SCENARIO)
    path = StepPath.parse("camvr/round-1/encode")
    rest = whole.without({path})
    assert rest.seconds == pytest.approx(whole.seconds - whole.costs[path].seconds)
    assert rest.disk == pytest.approx(whole.disk - whole.costs[path].disk)
    assert whole.without(whole.costs).gpu_seconds == 0


@pytest.mark.parametrize(
    ("passages", "gpus", "shards"),
    [(1e4, 0, 2), (1e4, 8, 8), (21e6, 8, 8), (1e9, 8, 96), (1e9, 64, 64), (1e9, 128, 100)],
)
def test_a_shard_is_done_within_hours(passages: float, gpus: int, shards: int) -> None:
    there = replace(
        SCENARIO,
        workload=replace(LOAD, passages=passages),
        hardware=replace(SCENARIO.hardware, gpus=gpus),
    )
    assert shards_for({}, there) == shards
