"""The exit handler of every run on Kubeflow."""

from kfp.dsl import PipelineTaskFinalStatus

from components import on_cpu


@on_cpu()
def close_run(store: str, described: str, job: str, url: str, status: PipelineTaskFinalStatus):
    """Close the run in MLflow and tell of a failure."""
    from multiview.kubeflow.run import close_run

    close_run(store, described, job, status.state, status.error_message or "", url)
