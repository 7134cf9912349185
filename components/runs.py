"""Steps on Kubeflow that are in no plan: the first step of a run, its exit handler, and an index that exists already."""

from kfp.dsl import Artifact, Dataset, Model, Output, PipelineTaskFinalStatus

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
    given = {**locals()}
    from multiview.kubeflow.component import exit_with_one_line
    from multiview.kubeflow.run import open_run

    start = {name: given.pop(name) for name in ("store", "described", "job", "compiled", "settings")}
    with exit_with_one_line():
        return open_run(**start, given=given)


@component
def open_index(address: str, index: Output[Artifact], model: Output[Model], passages: Output[Dataset]) -> str:
    """An index that exists, or a store's champion, with the model and the passages that it was made from."""
    from multiview.kubeflow.component import exit_with_one_line, open_index

    with exit_with_one_line():
        return open_index(address, index=index, model=model, passages=passages)


@component
def close_run(
    store: str,
    described: str,
    job: str,
    pipeline: str,
    notify: str,
    status: PipelineTaskFinalStatus,
    there: list[str] = [],  # noqa: B006
):
    """Close the run in MLflow and report a failure."""
    from multiview.config.kubeflow import Notify
    from multiview.kubeflow.component import exit_with_one_line
    from multiview.kubeflow.run import close_run

    with exit_with_one_line():
        told = Notify.model_validate_json(notify)
        close_run(store, described, job, status.state, status.error_message or "", told, pipeline, there)
