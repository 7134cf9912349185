"""The stage of training on generated queries, before the first round."""

from kfp.dsl import Dataset, Input, Model, Output

from components import on_gpu


@on_gpu()
def warm_up(
    run: str,
    path: str,
    config: str,
    start: Input[Model],
    passages: Input[Dataset],
    queries: Input[Dataset],
    model: Output[Model],
) -> str:
    """The stage of training on generated queries, before the first round."""
    from multiview.steps.execution import execute

    return execute(
        "warm-up",
        run,
        path,
        config,
        {"start": start, "passages": passages, "queries": queries},
        {"model": model},
    )
