"""The size of a run as an object of Kubernetes: Argo Workflows keeps a run in 1 MB, with its pipeline and its status."""

from __future__ import annotations

import sys

from multiview.plans.plan import Plan

LIMIT = 2**20
"""Bytes of a workflow that Argo takes, its status packed (MAX_WORKFLOW_SIZE)."""

NEAR = 700_000
"""The estimate from which on a run may not fit."""

WORKFLOW, PER_BYTE = 25_000, 1.17
"""Bytes of a workflow of KFP's, and bytes of it per byte of the compiled pipeline: a task is in it twice, as text in
text. From the workflows that KFP 2.17.0 keeps beside the pipelines that they were compiled from, and ours."""

STATUS = 1_500
"""Bytes of packed status per step, and per shard of a step: of some 27 kB before."""


def estimate_size(compiled: str, plan: Plan) -> int:
    """Returns the bytes that a run of a compiled pipeline will need as a workflow, all of its steps done."""
    steps = sum(max(len(node.shards), 1) for node in plan.nodes.values())
    return round(WORKFLOW + PER_BYTE * len(compiled.encode()) + STATUS * steps)


def warn_of_size(compiled: str, plan: Plan) -> None:
    """Warns of a run that Argo may have no room for."""
    size = estimate_size(compiled, plan)
    if size >= NEAR:
        print(
            f"warning: Argo keeps a run in 1 MB, and this one may need {size / LIMIT:.1f}: set a smaller corpus.shards, "
            "or compare fewer systems at once",
            file=sys.stderr,
        )
