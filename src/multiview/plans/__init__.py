"""Pipelines as plain data: their steps and the artifacts between them."""

from collections.abc import Callable

from multiview.config.overrides import Overrides
from multiview.errors import InputError, nearest
from multiview.plans import comparison, refresh, system
from multiview.plans.plan import Plan

PIPELINES: dict[str, Callable[[Overrides], Plan]] = {
    "training": system.training,
    "comparison": comparison.comparison,
    "refresh": refresh.refresh,
}
"""The function that makes the plan of each pipeline from a run's overrides."""


def make_plan(pipeline: str, overrides: Overrides) -> Plan:
    """Returns the plan of a pipeline. Raises InputError with the nearest names for an unknown one."""
    if pipeline not in PIPELINES:
        raise InputError(f"there is no pipeline {pipeline!r}{nearest(pipeline, PIPELINES)}")
    return PIPELINES[pipeline](overrides)
