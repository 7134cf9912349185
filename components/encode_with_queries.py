"""Views of the passages of one shard, each read with its generated queries."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import on_gpu


@on_gpu()
def encode_with_queries(
    run: str,
    path: str,
    config: str,
    shard: str,
    model: Input[Model],
    passages: Input[Dataset],
    queries: Input[Dataset],
    embeddings: Output[Artifact],
) -> str:
    """Views of the passages of one shard, each read with its generated queries."""
    from multiview.steps.execution import execute

    return execute(
        "encode-with-queries",
        run,
        f"{path}/{shard}",
        config,
        {"model": model, "passages": passages, "queries": queries},
        {"embeddings": embeddings},
        file={"passages": f"{shard}.parquet", "queries": f"{shard}.parquet"},
    )
