"""The search index over the views of all shards."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import on_cpu


@on_cpu()
def index(
    run: str,
    path: str,
    config: str,
    model: Input[Model],
    passages: Input[Dataset],
    embeddings: list[str],
    index: Output[Artifact],
) -> str:
    """The search index over the views of all shards."""
    from multiview.steps.execution import execute

    inputs = {"model": model, "passages": passages, "embeddings": embeddings}
    return execute("index", run, path, config, inputs, {"index": index})
