"""Cut the corpus into Parquet shards once more, and choose the questions."""

from kfp.dsl import Dataset, Input, Output

from components import on_cpu


@on_cpu()
def split_again(
    run: str,
    path: str,
    config: str,
    known: Input[Dataset],
    passages: Output[Dataset],
    train_questions: Output[Dataset],
    dev_questions: Output[Dataset],
) -> str:
    """Cut the corpus into Parquet shards once more, and choose the questions."""
    from multiview.steps.execution import execute

    return execute(
        "split-again",
        run,
        path,
        config,
        {"known": known},
        {"passages": passages, "train_questions": train_questions, "dev_questions": dev_questions},
    )
