"""The estimate of a plan: the cost of each of its steps, and the totals."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from multiview.config import Config
from multiview.config.overrides import Overrides, merge, validate
from multiview.estimates.cost import Cost
from multiview.estimates.step_costs import cost_of
from multiview.estimates.workload import Hardware, Scenario, views_of
from multiview.model.layouts import architecture
from multiview.model.systems import resolve, resolve_systems
from multiview.plans.plan import Node
from multiview.plans.request import Request
from multiview.steps.path import StepPath

OF_CHANGES = ("encode", "encode-with-queries", "generate-queries", "gather-queries")
"""Steps of a refresh that read the changed passages alone."""
SHARD_HOURS = 2.0
"""A shard should be encoded, and have its queries generated, in this time each: it is the most that a pod which is killed repeats."""
MOST_SHARDS = 100
"""The largest value of `corpus.shards`."""


@dataclass(frozen=True)
class Estimate:
    """The costs of a plan's steps, by path; a step that runs by shard is one."""

    costs: dict[StepPath, Cost]
    hardware: dict[StepPath, Hardware]
    """The machines of each step, by path."""
    found: frozenset[StepPath] = frozenset()
    """Steps whose outputs exist; they cost nothing."""

    def without(self, found: Collection[StepPath]) -> Estimate:
        """The estimate where the outputs of the steps `found` exist."""
        return replace(self, found=frozenset(found))

    @property
    def _new(self) -> list[Cost]:
        return [cost for path, cost in self.costs.items() if path not in self.found]

    @property
    def seconds(self) -> float:
        """Wall time, one step after another."""
        return sum(cost.seconds for cost in self._new)

    @property
    def gpu_seconds(self) -> float:
        return sum(cost.gpu_seconds for cost in self._new)

    @property
    def disk(self) -> float:
        return sum(cost.disk for cost in self._new)


def estimate(request: Request, scenario: Scenario, factors: Mapping[str, float] | None = None) -> Estimate:
    """The estimate of a request. `factors` multiply the seconds of steps, by the step's name (see `calibration`)."""
    costs, hardware = {}, {}
    for path, node in request.plan.nodes.items():
        there = scenario
        if request.plan.name == "refresh" and node.step.name in OF_CHANGES:
            load = scenario.workload
            there = replace(scenario, workload=replace(load, passages=load.passages * load.changed))
        cost = cost_of(node.step.name, config_of(node, request), there, len(node.shards) or 1)
        costs[path] = cost.times((factors or {}).get(node.step.name, 1.0))
        hardware[path] = scenario.of(node.step.name).hardware
    return Estimate(costs, hardware)


def config_of(node: Node, request: Request) -> Config:
    """The whole config around a step: its own settings over those of its system."""
    config = base_config(request.overrides)
    if request.plan.name == "comparison":
        # BM25's row and fused rows have paths like a system's, and no settings of their own.
        config = resolve_systems(request.overrides).get(node.path.system, config)
    return validate(merge(config.model_dump(mode="json"), json.loads(node.config)))


def base_config(overrides: Overrides) -> Config:
    """The config of what all systems of a request share, over the defaults of its architecture."""
    return resolve({name: value for name, value in overrides.items() if name != "comparison"})


def systems_of(pipeline: str, overrides: Overrides) -> Collection[Config]:
    """The configs of the systems that a pipeline trains: of a comparison several, of others one."""
    return resolve_systems(overrides).values() if pipeline == "comparison" else [base_config(overrides)]


def most_views(pipeline: str, overrides: Overrides) -> float:
    """The views that the settings index per passage at most, of a comparison's systems those of the one with most."""
    return max(map(views_of, systems_of(pipeline, overrides)))


def shards_for(overrides: Overrides, scenario: Scenario) -> int:
    """The number of shards of which each takes at most `SHARD_HOURS` per step, a multiple of the GPUs as far as 100 allow it: 2 to 100."""
    config = base_config(overrides)
    steps = ["encode"]
    if architecture(config.model.architecture).reads_queries:
        steps.append("generate-queries")
    seconds = max(sum(cost_of(step, config, scenario).parts.values()) for step in steps)
    gpus = max(1, scenario.hardware.gpus)
    wanted = gpus * math.ceil(max(2, seconds / 3600 / SHARD_HOURS) / gpus)
    return wanted if wanted <= MOST_SHARDS else max(1, MOST_SHARDS // gpus) * min(gpus, MOST_SHARDS)
