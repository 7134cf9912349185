"""The pipelines by name."""

from __future__ import annotations

from collections.abc import Callable

from multiview.errors import InputError, nearest
from multiview.overrides import Overrides
from pipelines.plan import Plan
from pipelines.refresh import refresh
from pipelines.training import comparison, training

PIPELINES = {"training": training, "comparison": comparison, "refresh": refresh}


def factory(name: str) -> Callable[[Overrides], Plan]:
    """What makes the plan of a pipeline. Raises InputError with the nearest names."""
    if name not in PIPELINES:
        raise InputError(f"there is no pipeline {name!r}{nearest(name, PIPELINES)}")
    return PIPELINES[name]
