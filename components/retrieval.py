"""Retrieval: views of passages, and the index over them."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import component


@component
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
    from multiview.kubeflow.component import execute

    return execute(
        "encode", run, path, config, shard=shard, model=model, passages=passages, embeddings=embeddings
    )


@component
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
    from multiview.kubeflow.component import execute

    return execute(
        "encode-with-queries",
        run,
        path,
        config,
        shard=shard,
        model=model,
        passages=passages,
        queries=queries,
        embeddings=embeddings,
    )


@component
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
    from multiview.kubeflow.component import execute

    return execute(
        "index", run, path, config, model=model, passages=passages, embeddings=embeddings, index=index
    )
