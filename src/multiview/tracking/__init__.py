"""MLflow: the only room that imports it.

`ship` turns a run's state and event files into a parent run and a child run a step, and may be
called at any time and any number of times: what is there already is left alone. `ship_live` does so
while a run goes on, `ship_step_live` for a step in a pod of its own. `find_run` goes
the other way, from an MLflow run to the artifacts that its steps read and wrote, and
`registered_index` from a registered model to its index. `register` and `repair` make the registry's
versions and aliases stand for indexes, and `mirror` for a store's champions.
"""

from multiview.tracking.client import tracking_uri
from multiview.tracking.finding import TrackedRun, TrackedStep, find_run, logged_model
from multiview.tracking.live import ship_live, ship_step_live
from multiview.tracking.registry import (
    RegisteredModel,
    aliased_indexes,
    mirror,
    model_name,
    register,
    registered_index,
    repair,
)
from multiview.tracking.shipping import ship, sync

__all__ = [
    "RegisteredModel",
    "TrackedRun",
    "TrackedStep",
    "aliased_indexes",
    "find_run",
    "logged_model",
    "mirror",
    "model_name",
    "register",
    "registered_index",
    "repair",
    "ship",
    "ship_live",
    "ship_step_live",
    "sync",
    "tracking_uri",
]
