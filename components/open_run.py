"""The first step of every run on Kubeflow."""

from components import on_cpu


@on_cpu()
def open_run(store: str, described: str, job: str) -> str:
    """Write the run into the store and open it in MLflow."""
    from multiview.kubeflow.run import open_run

    return open_run(store, described, job)
