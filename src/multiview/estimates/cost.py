"""The cost of one step, and what the formulas of several steps share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from multiview.config import Config
from multiview.estimates.workload import Scenario


@dataclass(frozen=True)
class Cost:
    """The cost of one step."""

    parts: dict[str, float] = field(default_factory=dict)
    """Seconds of each part of one task, one after another."""
    tasks: int = 1
    """Tasks of the same size: the shards of a step that runs by shard."""
    at_once: int = 1
    """Tasks that run at the same time."""
    gpus: int = 0
    """GPUs of one task."""
    memory: float = 0.0
    """Bytes of main memory of one task, at most, beside files that are mapped."""
    gpu_memory: float = 0.0
    """Bytes on each GPU, at most."""
    disk: float = 0.0
    """Bytes of the outputs of all tasks."""

    @property
    def seconds(self) -> float:
        """Wall time of all tasks."""
        return sum(self.parts.values()) * math.ceil(self.tasks / self.at_once)

    @property
    def gpu_seconds(self) -> float:
        return sum(self.parts.values()) * self.tasks * self.gpus

    @property
    def limit(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda part: self.parts[part], default="")

    def times(self, factor: float) -> Cost:
        """The cost with `factor` times the seconds."""
        return replace(self, parts={name: seconds * factor for name, seconds in self.parts.items()})


StepCost: TypeAlias = Callable[[Config, Scenario, int], Cost]
"""A function that returns the cost of a step with its settings, in a scenario, with so many tasks if it runs by shard."""


def encoders(config: Config) -> int:
    return 1 if config.model.tied else 2


def matrix_rate(
    scenario: Scenario,
    work: Literal["encode", "train", "generate", "search"],
    half: bool = False,
    gpus: int = 1,
) -> float:
    """Operations per second: of `gpus` GPUs, the share of their peak that `work` reaches; without GPUs, the measured rate
    of one core times a pod's cores. `half`: in bfloat16 or float16."""
    if not scenario.hardware.gpus:
        return scenario.rates[f"{work}_half_flops" if half else f"{work}_flops"] * scenario.hardware.cores
    device = scenario.rates.device(scenario.hardware.gpu)
    return gpus * scenario.rates[f"gpu_{work}_share"] * (device.half_flops if half else device.float32_flops)


def gpus_of(scenario: Scenario, most: int = 1) -> int:
    return min(scenario.hardware.gpus, most)


def shards_at_once(scenario: Scenario, shards: int) -> int:
    """Tasks of a step by shard that run at the same time: one per GPU, or as many as the hardware says."""
    return min(shards, scenario.hardware.at_once or max(1, scenario.hardware.gpus))


def model_bytes(config: Config, scenario: Scenario) -> float:
    """Four bytes per parameter of each encoder."""
    return 4.0 * scenario.shape.parameters * encoders(config)
