"""The query generator as it was pretrained."""

from kfp.dsl import Model, Output

from components import on_cpu


@on_cpu()
def initial_generator(
    run: str,
    path: str,
    config: str,
    generator: Output[Model],
) -> str:
    """The query generator as it was pretrained."""
    from multiview.steps.execution import execute

    return execute("initial-generator", run, path, config, {}, {"generator": generator})
