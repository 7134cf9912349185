"""Cut the corpus into Parquet shards, and choose the questions."""

from kfp.dsl import Dataset, Output

from components import on_cpu


@on_cpu()
def split(
    run: str,
    path: str,
    config: str,
    passages: Output[Dataset],
    train_questions: Output[Dataset],
    dev_questions: Output[Dataset],
) -> str:
    """Cut the corpus into Parquet shards, and choose the questions."""
    from multiview.steps.execution import execute

    return execute(
        "split",
        run,
        path,
        config,
        {},
        {"passages": passages, "train_questions": train_questions, "dev_questions": dev_questions},
    )
