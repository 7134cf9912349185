"""Runs on Kubeflow: their first step, what they take from a store, and their exit handler, which are in no plan."""

from kfp.dsl import Artifact, Output, PipelineTaskFinalStatus

from components import component


@component
def open_run(store: str, described: str, job: str) -> str:
    """Write the run into the store and open it in MLflow."""
    from multiview.kubeflow.run import open_run

    return open_run(store, described, job)


@component
def import_artifact(address: str, digest: str, artifact: Output[Artifact]):
    """Hand an artifact of a store to the steps that read it."""
    from multiview.kubeflow.component import import_artifact

    import_artifact(address, digest, artifact)


@component
def close_run(store: str, described: str, job: str, url: str, status: PipelineTaskFinalStatus):
    """Close the run in MLflow and report a failure."""
    from multiview.kubeflow.run import close_run

    close_run(store, described, job, status.state, status.error_message or "", url)
