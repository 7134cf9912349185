"""Retrieval: views of passages, and the index over them."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import component


@component
def encode(
    run: str,
    shard: str,
    model: Input[Model],
    passages: Input[Dataset],
    embeddings: Output[Artifact],
    path: str = "",
    config: str = "",
) -> str:
    """Views of the passages of one shard."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("encode", **given)


@component
def encode_with_queries(
    run: str,
    shard: str,
    model: Input[Model],
    passages: Input[Dataset],
    queries: Input[Dataset],
    embeddings: Output[Artifact],
    path: str = "",
    config: str = "",
) -> str:
    """Views of the passages of one shard, each read with its generated queries."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("encode-with-queries", **given)


@component
def index(
    run: str,
    model: Input[Model],
    passages: Input[Dataset],
    embeddings: list[str],
    index: Output[Artifact],
    path: str = "",
    config: str = "",
) -> str:
    """The search index over the views of all shards."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("index", **given)
