"""The task and the pods of the TrainJobs under test."""

from typing import Any

from multiview.config import Config, Pod
from multiview.steps.backends.trainjob import Nodes, Task
from multiview.steps.table import STEPS

TASK = Task(
    store="gs://bucket/store",
    run="training-0123456789",
    path="camvr/round-1/train",
    step="train",
    config=STEPS["train"].configure(Config()),
    inputs={},
    key="0" * 32,
)


def nodes(**pod: Any) -> Nodes:
    return Nodes(image="registry/multiview-gpu:1", pod=Pod(**{"nodes": 2, **pod}), namespace="team")
