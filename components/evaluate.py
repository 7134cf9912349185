"""Metrics of an index on the dev questions, and analyses of its model."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import on_gpu


@on_gpu()
def evaluate(
    run: str,
    path: str,
    config: str,
    model: Input[Model],
    index: Input[Artifact],
    passages: Input[Dataset],
    questions: Input[Dataset],
    train_questions: Input[Dataset],
    evaluation: Output[Artifact],
) -> str:
    """Metrics of an index on the dev questions, and analyses of its model."""
    from multiview.steps.execution import execute

    return execute(
        "evaluate",
        run,
        path,
        config,
        {
            "model": model,
            "index": index,
            "passages": passages,
            "questions": questions,
            "train_questions": train_questions,
        },
        {"evaluation": evaluation},
    )
