"""Runs on Kubeflow: their first step and their exit handler, which are in no plan."""

from kfp.dsl import PipelineTaskFinalStatus

from components import component


@component
def open_run(store: str, described: str, job: str) -> str:
    """Write the run into the store and open it in MLflow."""
    from multiview.kubeflow.run import open_run

    return open_run(store, described, job)


@component
def close_run(store: str, described: str, job: str, url: str, status: PipelineTaskFinalStatus):
    """Close the run in MLflow and report a failure."""
    from multiview.kubeflow.run import close_run

    close_run(store, described, job, status.state, status.error_message or "", url)
