"""Pipelines as Kubernetes objects, for a Kubeflow Pipelines that keeps its pipelines in Kubernetes."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from kfp import compiler
from kfp.compiler.compiler_utils import KubernetesManifestOptions

from multiview.config import Config
from pipelines.kubeflow import cluster_pipeline, compile_plan
from pipelines.plan import Plan


def write_resources(plan: Plan, target: Path, config: Config) -> Path:
    """Write a plan's `Pipeline` and `PipelineVersion` as YAML, without a namespace.

    The version is named by its content, because Kubeflow lets no version be changed: another plan is
    another version of the same pipeline. Raises InputError for settings of pods that cannot be had.
    """
    with tempfile.TemporaryDirectory() as folder:
        content = compile_plan(plan, Path(folder) / "pipeline.yaml", config).read_bytes()
    version = f"{plan.name}-{hashlib.sha256(content).hexdigest()[:12]}"
    target.parent.mkdir(parents=True, exist_ok=True)
    compiler.Compiler().compile(
        cluster_pipeline(plan, config),
        str(target),
        kubernetes_manifest_format=True,
        kubernetes_manifest_options=KubernetesManifestOptions(
            pipeline_name=f"multiview-{plan.name}",
            pipeline_version_name=version,
            pipeline_version_display_name=version,
            include_pipeline_manifest=True,
        ),
    )
    return target
