"""Tracking in MLflow. No other package imports mlflow.

`ship` turns a run's state and event files into an MLflow run that holds a run per system and per step. It may be
called at any time and any number of times: what MLflow already has is left alone. In the other direction,
`find_run` leads from an MLflow run to the artifacts that its steps read and wrote.
"""

# Other rooms import all of these from here.
# ruff: noqa: F401

from multiview.tracking.client import database, tracking_uri
from multiview.tracking.finding import TrackedRun, find_run, logged_model
from multiview.tracking.registry import (
    MODEL_URI,
    aliased_indexes,
    mirror,
    model_name,
    register,
    registered_index,
    repair,
)
from multiview.tracking.shipping import (
    close_killed,
    kill_step,
    note_cancelled,
    ship,
    ship_live,
    ship_step_live,
    shipped_here,
    sync,
)
