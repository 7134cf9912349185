"""BM25 negatives of the training questions."""

from kfp.dsl import Dataset, Input, Output

from components import on_cpu


@on_cpu()
def bm25_negatives(
    run: str,
    path: str,
    config: str,
    passages: Input[Dataset],
    questions: Input[Dataset],
    negatives: Output[Dataset],
) -> str:
    """BM25 negatives of the training questions."""
    from multiview.steps.execution import execute

    return execute(
        "bm25-negatives",
        run,
        path,
        config,
        {"passages": passages, "questions": questions},
        {"negatives": negatives},
    )
