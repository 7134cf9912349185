"""Hard negatives mined with the index of round one."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import on_gpu


@on_gpu()
def mine(
    run: str,
    path: str,
    config: str,
    model: Input[Model],
    index: Input[Artifact],
    passages: Input[Dataset],
    questions: Input[Dataset],
    bm25_negatives: Input[Dataset],
    negatives: Output[Dataset],
) -> str:
    """Hard negatives mined with the index of round one."""
    from multiview.steps.execution import execute

    return execute(
        "mine",
        run,
        path,
        config,
        {
            "model": model,
            "index": index,
            "passages": passages,
            "questions": questions,
            "bm25_negatives": bm25_negatives,
        },
        {"negatives": negatives},
    )
