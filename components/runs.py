"""Steps of every run on Kubeflow that are in no plan: the first step, imports from a store, and the exit handler."""

from kfp.dsl import Artifact, Output, PipelineTaskFinalStatus

from components import component


@component
def open_run(
    store: str,
    described: str,
    job: str,
    compiled: str = "",
    settings: str = "",
    corpus_source: list[str] = [],  # noqa: B006
    questions_source: list[str] = [],  # noqa: B006
    dev_questions_source: list[str] = [],  # noqa: B006
    base_model: str = "",
    learning_rate: float = 0.0,
    epochs: float = 0.0,
    batch_size: int = 0,
    seed: int = 0,
    full_refresh: bool = False,
) -> str:
    """Write the run into the store and open it in MLflow."""
    from multiview.kubeflow.component import exit_with_one_line
    from multiview.kubeflow.run import open_run

    given = {
        "corpus_source": corpus_source,
        "questions_source": questions_source,
        "dev_questions_source": dev_questions_source,
        "base_model": base_model,
        "learning_rate": learning_rate,
        "epochs": epochs,
        "batch_size": batch_size,
        "seed": seed,
        "full_refresh": full_refresh,
    }
    with exit_with_one_line():
        return open_run(store, described, job, compiled, given, settings)


@component
def import_artifact(address: str, artifact: Output[Artifact], digest: str = ""):
    """Hand an artifact of a store to the steps that read it."""
    from multiview.kubeflow.component import exit_with_one_line, import_artifact

    with exit_with_one_line():
        import_artifact(address, digest, artifact)


@component
def close_run(
    store: str, described: str, job: str, pipeline: str, notify: str, status: PipelineTaskFinalStatus
):
    """Close the run in MLflow and report a failure."""
    from multiview.config.notify import Notify
    from multiview.kubeflow.component import exit_with_one_line
    from multiview.kubeflow.run import close_run

    with exit_with_one_line():
        told = Notify.model_validate_json(notify)
        close_run(store, described, job, status.state, status.error_message or "", told, pipeline)
