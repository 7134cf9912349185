"""Pipelines as Kubernetes objects, for a Kubeflow Pipelines that keeps its pipelines in Kubernetes."""

from __future__ import annotations

from pathlib import Path

from kfp import compiler
from kfp.compiler.compiler_utils import KubernetesManifestOptions

from multiview.plans.request import Request
from pipelines.kubeflow.compile import cluster_pipeline
from pipelines.kubeflow.submission import check_devices, package


def write_manifests(request: Request, target: Path, store: str | None = None) -> Path:
    """Writes the `Pipeline` and the `PipelineVersion` of a request as YAML, without a namespace.

    They have the names that `submit` into `store` would give them, so that it finds what was applied, if
    `kubeflow.run_as_non_root` is set as the server's version would have it (`versions.takes_non_root`). The version is
    named by its content, because Kubeflow does not let a version be changed: another plan is another version of the
    same pipeline. Raises InputError for invalid settings of pods, and for images that are not named, which no later
    `submit` would notice.
    """
    check_devices(request.plan, request.config)
    names = package(request, store)
    pipeline = cluster_pipeline(request, store)
    target.parent.mkdir(parents=True, exist_ok=True)
    compiler.Compiler().compile(
        pipeline,
        str(target),
        kubernetes_manifest_format=True,
        kubernetes_manifest_options=KubernetesManifestOptions(
            pipeline_name=names.pipeline,
            pipeline_version_name=names.version,
            pipeline_version_display_name=names.version,
            include_pipeline_manifest=True,
        ),
    )
    return target
