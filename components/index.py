"""The search index over the views of all shards."""

from kfp.dsl import Artifact, Output

from components import on_cpu


@on_cpu()
def index(
    run: str,
    path: str,
    config: str,
    embeddings: list[str],
    index: Output[Artifact],
) -> str:
    """The search index over the views of all shards."""
    from multiview.runner import execute

    return execute("index", run, path, config, {"embeddings": embeddings}, {"index": index})
