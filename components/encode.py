"""Views of the passages of one shard."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import on_gpu


@on_gpu()
def encode(
    run: str,
    path: str,
    config: str,
    shard: str,
    model: Input[Model],
    passages: Input[Dataset],
    embeddings: Output[Artifact],
) -> str:
    """Views of the passages of one shard."""
    from multiview.steps.execution import execute

    return execute(
        "encode",
        run,
        f"{path}/{shard}",
        config,
        {"model": model, "passages": passages},
        {"embeddings": embeddings},
        file={"passages": f"{shard}.parquet"},
    )
