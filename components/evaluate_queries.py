"""Metrics of the generated queries on the dev questions."""

from kfp.dsl import Artifact, Dataset, Input, Output

from components import on_cpu


@on_cpu()
def evaluate_queries(
    run: str,
    path: str,
    config: str,
    queries: list[str],
    questions: Input[Dataset],
    query_evaluation: Output[Artifact],
) -> str:
    """Metrics of the generated queries on the dev questions."""
    from multiview.steps.execution import execute

    return execute(
        "evaluate-queries",
        run,
        path,
        config,
        {"queries": queries, "questions": questions},
        {"query_evaluation": query_evaluation},
    )
