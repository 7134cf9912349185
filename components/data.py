"""Data: the corpus in shards, with its questions."""

from kfp.dsl import Artifact, Dataset, Input, Output

from components import component


@component
def split(
    run: str,
    passages: Output[Dataset],
    train_questions: Output[Dataset],
    dev_questions: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """Cut the corpus into Parquet shards, and choose the questions."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("split", **given)


@component
def split_again(
    run: str,
    known: Input[Dataset],
    passages: Output[Dataset],
    train_questions: Output[Dataset],
    dev_questions: Output[Dataset],
    lost_questions: Output[Artifact],
    path: str = "",
    config: str = "",
) -> str:
    """Cut the corpus into Parquet shards once more, and choose the questions."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("split-again", **given)
