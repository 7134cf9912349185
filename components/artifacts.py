"""Existing artifacts, for pipelines of other teams; see docs/kubeflow.md."""

from kfp.dsl import Artifact, Dataset, Model, Output

from components import component


@component
def open_index(address: str, index: Output[Artifact], model: Output[Model], passages: Output[Dataset]) -> str:
    """An index that exists, or a store's champion, with the model and the passages that it was made from."""
    from multiview.kubeflow.component import exit_with_one_line, open_index

    with exit_with_one_line():
        return open_index(address, index=index, model=model, passages=passages)
