"""Generated queries and questions: the generator, its queries per shard of passages, and questions made from snippets."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import component


@component
def initial_generator(
    run: str,
    path: str,
    config: str,
    generator: Output[Model],
) -> str:
    """The query generator as it was pretrained."""
    from multiview.kubeflow.component import execute

    return execute("initial-generator", run, path, config, generator=generator)


@component
def train_generator(
    run: str,
    path: str,
    config: str,
    base: Input[Model],
    passages: Input[Dataset],
    questions: Input[Dataset],
    generator: Output[Model],
) -> str:
    """The query generator fine-tuned on the training questions."""
    from multiview.kubeflow.component import execute

    return execute(
        "train-generator",
        run,
        path,
        config,
        base=base,
        passages=passages,
        questions=questions,
        generator=generator,
    )


@component
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
    from multiview.kubeflow.component import execute

    return execute(
        "generate-queries",
        run,
        path,
        config,
        shard=shard,
        generator=generator,
        passages=passages,
        queries=queries,
    )


@component
def gather_queries(
    run: str,
    path: str,
    config: str,
    parts: list[str],
    queries: Output[Dataset],
) -> str:
    """The generated queries of all shards in one artifact."""
    from multiview.kubeflow.component import execute

    return execute("gather-queries", run, path, config, parts=parts, queries=queries)


@component
def evaluate_queries(
    run: str,
    path: str,
    config: str,
    queries: list[str],
    questions: Input[Dataset],
    query_evaluation: Output[Artifact],
) -> str:
    """Metrics of the generated queries on the dev questions."""
    from multiview.kubeflow.component import execute

    return execute(
        "evaluate-queries",
        run,
        path,
        config,
        queries=queries,
        questions=questions,
        query_evaluation=query_evaluation,
    )


@component
def crop_questions(
    run: str,
    path: str,
    config: str,
    shard: str,
    passages: Input[Dataset],
    drafts: Output[Dataset],
) -> str:
    """Questions about the passages of one shard, cropped from their snippets."""
    from multiview.kubeflow.component import execute

    return execute("crop-questions", run, path, config, shard=shard, passages=passages, drafts=drafts)


@component
def generate_questions(
    run: str,
    path: str,
    config: str,
    shard: str,
    generator: Input[Model],
    passages: Input[Dataset],
    drafts: Output[Dataset],
) -> str:
    """Questions about the passages of one shard, generated from their snippets."""
    from multiview.kubeflow.component import execute

    return execute(
        "generate-questions",
        run,
        path,
        config,
        shard=shard,
        generator=generator,
        passages=passages,
        drafts=drafts,
    )


@component
def make_questions(
    run: str,
    path: str,
    config: str,
    drafts: list[str],
    passages: Input[Dataset],
    train_questions: Output[Dataset],
    dev_questions: Output[Dataset],
) -> str:
    """Training and dev questions made from the corpus: drafts with which BM25 finds their passage again."""
    from multiview.kubeflow.component import execute

    return execute(
        "make-questions",
        run,
        path,
        config,
        drafts=drafts,
        passages=passages,
        train_questions=train_questions,
        dev_questions=dev_questions,
    )
