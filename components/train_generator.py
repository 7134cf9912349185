"""The query generator fine-tuned on the training questions."""

from kfp.dsl import Dataset, Input, Model, Output

from components import on_gpu


@on_gpu()
def train_generator(
    run: str,
    path: str,
    config: str,
    base: Input[Model],
    passages: Input[Dataset],
    questions: Input[Dataset],
    generator: Output[Model],
) -> str:
    """The query generator fine-tuned on the training questions."""
    from multiview.steps.execution import execute

    return execute(
        "train-generator",
        run,
        path,
        config,
        {"base": base, "passages": passages, "questions": questions},
        {"generator": generator},
    )
