"""The pretrained encoder with its viewer tokens, untrained."""

from kfp.dsl import Model, Output

from components import on_cpu


@on_cpu()
def initial_model(
    run: str,
    path: str,
    config: str,
    model: Output[Model],
) -> str:
    """The pretrained encoder with its viewer tokens, untrained."""
    from multiview.steps.execution import execute

    return execute("initial-model", run, path, config, {}, {"model": model})
