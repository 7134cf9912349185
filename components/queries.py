"""Generated queries and questions: the generator, its queries per shard of passages, and questions made from snippets."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import component


@component
def initial_generator(
    run: str,
    generator: Output[Model],
    path: str = "",
    config: str = "",
) -> str:
    """The query generator as it was pretrained."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("initial-generator", **given)


@component
def train_generator(
    run: str,
    base: Input[Model],
    passages: Input[Dataset],
    questions: Input[Dataset],
    generator: Output[Model],
    path: str = "",
    config: str = "",
) -> str:
    """The query generator fine-tuned on the training questions."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("train-generator", **given)


@component
def generate_queries(
    run: str,
    shard: str,
    generator: Input[Model],
    passages: Input[Dataset],
    queries: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """Queries of the passages of one shard."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("generate-queries", **given)


@component
def gather_queries(
    run: str,
    parts: list[str],
    queries: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """The generated queries of all shards in one artifact."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("gather-queries", **given)


@component
def evaluate_queries(
    run: str,
    queries: list[str],
    questions: Input[Dataset],
    query_evaluation: Output[Artifact],
    path: str = "",
    config: str = "",
) -> str:
    """Metrics of the generated queries on the dev questions."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("evaluate-queries", **given)


@component
def crop_questions(
    run: str,
    shard: str,
    passages: Input[Dataset],
    drafts: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """Questions about the passages of one shard, cropped from their snippets."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("crop-questions", **given)


@component
def generate_questions(
    run: str,
    shard: str,
    generator: Input[Model],
    passages: Input[Dataset],
    drafts: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """Questions about the passages of one shard, generated from their snippets."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("generate-questions", **given)


@component
def make_questions(
    run: str,
    drafts: list[str],
    passages: Input[Dataset],
    train_questions: Output[Dataset],
    dev_questions: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """Training and dev questions made from the corpus: drafts with which BM25 finds their passage again."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("make-questions", **given)
