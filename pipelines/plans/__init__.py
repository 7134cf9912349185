"""Pipelines as plain data: their steps and what flows between them."""

from __future__ import annotations

from multiview.config.overrides import Overrides
from multiview.errors import InputError, nearest
from pipelines.plans.comparison import comparison
from pipelines.plans.plan import Plan
from pipelines.plans.refresh import refresh
from pipelines.plans.training import training

PIPELINES = {"training": training, "comparison": comparison, "refresh": refresh}
"""The function that makes the plan of each pipeline from a run's overrides."""


def make_plan(pipeline: str, overrides: Overrides) -> Plan:
    """Returns the plan of a pipeline. Raises InputError with the nearest names for an unknown one."""
    if pipeline not in PIPELINES:
        raise InputError(f"there is no pipeline {pipeline!r}{nearest(pipeline, PIPELINES)}")
    return PIPELINES[pipeline](overrides)
