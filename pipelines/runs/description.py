"""What a run is before it starts, wherever it runs: the same plan and settings are the same run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from multiview import environment
from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store
from multiview.config.overrides import Overrides, outcome
from multiview.steps.runs import Run, run_id
from pipelines.plans import PIPELINES
from pipelines.plans.plan import Plan


def describe(
    plan: Plan,
    overrides: Overrides,
    store: Store,
    preset: str | None = None,
    rerun_of: str | None = None,
    architectures: dict[str, str] | None = None,
    study: str | None = None,
    schedule: str | None = None,
    compares: Sequence[str] = (),
) -> Run:
    """The run of a plan. Raises InputError for sources that are not there.

    That of a schedule is named without its sources' content and what stands in the store, which each of its starts finds
    anew.
    """
    identity: dict[str, Any] = {"rerun_of": rerun_of, "steps": plan.paths()} if rerun_of else {}
    if plan.name not in PIPELINES:
        identity["inputs"] = [
            [n.path, s.digest]
            for n in plan.nodes.values()
            for _, s in n.sources()
            if isinstance(s, Reference)
        ]
    sources = plan.fingerprints(None if schedule else store)
    identity |= {"schedule": schedule} if schedule else {"sources": sources}
    versions = {node.step.name: node.step.version for node in plan.nodes.values()}
    return Run(
        id=run_id(plan.name, outcome(overrides), versions, **identity),
        pipeline=plan.name,
        config=overrides,
        preset=preset,
        git_sha=_git_sha(),
        rerun_of=rerun_of,
        study=study,
        compares=list(compares),
        steps=plan.paths(),
        architectures=architectures or plan.architectures(),
        each_time=schedule is not None,
    )


def _git_sha() -> str | None:
    """The commit of this checkout, with `-dirty` where its files differ from it; the image's, in an image."""
    if sha := os.environ.get(environment.GIT_SHA):
        return sha
    if shutil.which("git") is None:
        return None
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    # No tag's name: the commit alone.
    command += ["--abbrev=40", "--exclude=*"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or None
