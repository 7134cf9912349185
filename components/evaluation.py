"""Evaluation: the metrics of each system, their comparison, and the page about it."""

from kfp.dsl import HTML, Artifact, Dataset, Input, Metrics, Model, Output

from components import component


@component
def evaluate(
    run: str,
    model: Input[Model],
    index: Input[Artifact],
    passages: Input[Dataset],
    questions: Input[Dataset],
    train_questions: Input[Dataset],
    evaluation: Output[Artifact],
    metrics: Output[Metrics],
    path: str = "",
    config: str = "",
) -> str:
    """Metrics of an index on the dev questions, and analyses of its model."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("evaluate", **given)


@component
def evaluate_bm25(
    run: str,
    passages: Input[Dataset],
    questions: Input[Dataset],
    evaluation: Output[Artifact],
    metrics: Output[Metrics],
    path: str = "",
    config: str = "",
) -> str:
    """Metrics of BM25 on the dev questions."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("evaluate-bm25", **given)


@component
def evaluate_bm25_with_queries(
    run: str,
    passages: Input[Dataset],
    questions: Input[Dataset],
    queries: Input[Dataset],
    evaluation: Output[Artifact],
    metrics: Output[Metrics],
    path: str = "",
    config: str = "",
) -> str:
    """Metrics of BM25 over passages with their generated queries (DocT5Query) on the dev questions."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("evaluate-bm25-with-queries", **given)


@component
def evaluate_fusion(
    run: str,
    evaluations: list[str],
    passages: Input[Dataset],
    questions: Input[Dataset],
    evaluation: Output[Artifact],
    metrics: Output[Metrics],
    path: str = "",
    config: str = "",
) -> str:
    """Metrics of several rankings fused into one."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("evaluate-fusion", **given)


@component
def compare(
    run: str,
    evaluations: list[str],
    comparison: Output[Artifact],
    metrics: Output[Metrics],
    path: str = "",
    config: str = "",
) -> str:
    """One table of all evaluations."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("compare", **given)


@component
def report(
    run: str,
    comparison: Input[Artifact],
    evaluations: list[str],
    report: Output[HTML],
    path: str = "",
    config: str = "",
) -> str:
    """One page about a comparison."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("report", **given)
