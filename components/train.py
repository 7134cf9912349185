"""One round of training."""

from kfp.dsl import Dataset, Input, Model, Output

from components import on_gpu


@on_gpu()
def train(
    run: str,
    path: str,
    config: str,
    start: Input[Model],
    passages: Input[Dataset],
    questions: Input[Dataset],
    negatives: Input[Dataset],
    model: Output[Model],
) -> str:
    """One round of training."""
    from multiview.steps.execution import execute

    return execute(
        "train",
        run,
        path,
        config,
        {"start": start, "passages": passages, "questions": questions, "negatives": negatives},
        {"model": model},
    )
