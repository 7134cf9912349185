"""Evaluation: the metrics of each system, their comparison, and the page about it."""

from kfp.dsl import HTML, Artifact, Dataset, Input, Metrics, Model, Output

from components import component


@component
def evaluate(
    run: str,
    path: str,
    config: str,
    model: Input[Model],
    index: Input[Artifact],
    passages: Input[Dataset],
    questions: Input[Dataset],
    train_questions: Input[Dataset],
    evaluation: Output[Artifact],
    metrics: Output[Metrics],
) -> str:
    """Metrics of an index on the dev questions, and analyses of its model."""
    from multiview.kubeflow.component import execute

    return execute(
        "evaluate",
        run,
        path,
        config,
        model=model,
        index=index,
        passages=passages,
        questions=questions,
        train_questions=train_questions,
        evaluation=evaluation,
        metrics=metrics,
    )


@component
def evaluate_bm25(
    run: str,
    path: str,
    config: str,
    passages: Input[Dataset],
    questions: Input[Dataset],
    evaluation: Output[Artifact],
    metrics: Output[Metrics],
) -> str:
    """Metrics of BM25 on the dev questions."""
    from multiview.kubeflow.component import execute

    return execute(
        "evaluate-bm25",
        run,
        path,
        config,
        passages=passages,
        questions=questions,
        evaluation=evaluation,
        metrics=metrics,
    )


@component
def evaluate_bm25_with_queries(
    run: str,
    path: str,
    config: str,
    passages: Input[Dataset],
    questions: Input[Dataset],
    queries: Input[Dataset],
    evaluation: Output[Artifact],
    metrics: Output[Metrics],
) -> str:
    """Metrics of BM25 over passages with their generated queries (DocT5Query) on the dev questions."""
    from multiview.kubeflow.component import execute

    return execute(
        "evaluate-bm25-with-queries",
        run,
        path,
        config,
        passages=passages,
        questions=questions,
        queries=queries,
        evaluation=evaluation,
        metrics=metrics,
    )


@component
def evaluate_fusion(
    run: str,
    path: str,
    config: str,
    evaluations: list[str],
    passages: Input[Dataset],
    questions: Input[Dataset],
    evaluation: Output[Artifact],
    metrics: Output[Metrics],
) -> str:
    """Metrics of several rankings fused into one."""
    from multiview.kubeflow.component import execute

    return execute(
        "evaluate-fusion",
        run,
        path,
        config,
        evaluations=evaluations,
        passages=passages,
        questions=questions,
        evaluation=evaluation,
        metrics=metrics,
    )


@component
def compare(
    run: str,
    path: str,
    config: str,
    evaluations: list[str],
    comparison: Output[Artifact],
    metrics: Output[Metrics],
) -> str:
    """One table of all evaluations."""
    from multiview.kubeflow.component import execute

    return execute(
        "compare", run, path, config, evaluations=evaluations, comparison=comparison, metrics=metrics
    )


@component
def report(
    run: str,
    path: str,
    config: str,
    comparison: Input[Artifact],
    evaluations: list[str],
    report: Output[HTML],
) -> str:
    """One page about a comparison."""
    from multiview.kubeflow.component import execute

    return execute("report", run, path, config, comparison=comparison, evaluations=evaluations, report=report)
