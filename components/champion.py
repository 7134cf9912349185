"""The index that answers now, with its passages, and the model to encode with."""

from kfp.dsl import Artifact, Dataset, Model, Output

from components import on_cpu


@on_cpu()
def champion(
    run: str,
    path: str,
    config: str,
    champion: Output[Artifact],
    index: Output[Artifact],
    passages: Output[Dataset],
    model: Output[Model],
    champion_model: Output[Model],
) -> str:
    """The index that answers now, with its passages, and the model to encode with."""
    from multiview.steps.execution import execute

    outputs = {
        "champion": champion,
        "index": index,
        "passages": passages,
        "model": model,
        "champion_model": champion_model,
    }
    return execute("champion", run, path, config, {}, outputs)
