"""The pipelines by name."""

from __future__ import annotations

from collections.abc import Callable

from multiview.config.overrides import Overrides
from multiview.errors import InputError, nearest
from pipelines.plans.plan import Plan
from pipelines.plans.refresh import refresh
from pipelines.plans.training import comparison, training

PIPELINES = {"training": training, "comparison": comparison, "refresh": refresh}


def factory(name: str) -> Callable[[Overrides], Plan]:
    """What makes the plan of a pipeline. Raises InputError with the nearest names."""
    if name not in PIPELINES:
        raise InputError(f"there is no pipeline {name!r}{nearest(name, PIPELINES)}")
    return PIPELINES[name]
