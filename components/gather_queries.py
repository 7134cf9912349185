"""The generated queries of all shards in one artifact."""

from kfp.dsl import Dataset, Output

from components import on_cpu


@on_cpu()
def gather_queries(
    run: str,
    path: str,
    config: str,
    parts: list[str],
    queries: Output[Dataset],
) -> str:
    """The generated queries of all shards in one artifact."""
    from multiview.steps.execution import execute

    return execute("gather-queries", run, path, config, {"parts": parts}, {"queries": queries})
