"""Data: the corpus in shards, with its questions."""

from kfp.dsl import Artifact, Dataset, Input, Output

from components import component


@component
def split(
    run: str,
    path: str,
    config: str,
    passages: Output[Dataset],
    train_questions: Output[Dataset],
    dev_questions: Output[Dataset],
) -> str:
    """Cut the corpus into Parquet shards, and choose the questions."""
    from multiview.kubeflow.component import execute

    return execute(
        "split",
        run,
        path,
        config,
        passages=passages,
        train_questions=train_questions,
        dev_questions=dev_questions,
    )


@component
def split_again(
    run: str,
    path: str,
    config: str,
    known: Input[Dataset],
    passages: Output[Dataset],
    train_questions: Output[Dataset],
    dev_questions: Output[Dataset],
    lost_questions: Output[Artifact],
) -> str:
    """Cut the corpus into Parquet shards once more, and choose the questions."""
    from multiview.kubeflow.component import execute

    return execute(
        "split-again",
        run,
        path,
        config,
        known=known,
        passages=passages,
        train_questions=train_questions,
        dev_questions=dev_questions,
        lost_questions=lost_questions,
    )
