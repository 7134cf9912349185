"""Metrics of BM25 on the dev questions."""

from kfp.dsl import Artifact, Dataset, Input, Output

from components import on_cpu


@on_cpu()
def evaluate_bm25(
    run: str,
    path: str,
    config: str,
    passages: Input[Dataset],
    questions: Input[Dataset],
    evaluation: Output[Artifact],
) -> str:
    """Metrics of BM25 on the dev questions."""
    from multiview.steps.execution import execute

    return execute(
        "evaluate-bm25",
        run,
        path,
        config,
        {"passages": passages, "questions": questions},
        {"evaluation": evaluation},
    )
