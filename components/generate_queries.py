"""Queries of the passages of one shard."""

from kfp.dsl import Dataset, Input, Model, Output

from components import on_gpu


@on_gpu()
def generate_queries(
    run: str,
    path: str,
    config: str,
    shard: str,
    generator: Input[Model],
    passages: Input[Dataset],
    queries: Output[Dataset],
) -> str:
    """Queries of the passages of one shard."""
    from multiview.steps.execution import execute

    return execute(
        "generate-queries",
        run,
        f"{path}/{shard}",
        config,
        {"generator": generator, "passages": passages},
        {"queries": queries},
        file={"passages": f"{shard}.parquet"},
    )
