"""Metrics of several rankings fused into one."""

from kfp.dsl import Artifact, Dataset, Input, Output

from components import on_cpu


@on_cpu()
def evaluate_fusion(
    run: str,
    path: str,
    config: str,
    evaluations: list[str],
    passages: Input[Dataset],
    questions: Input[Dataset],
    evaluation: Output[Artifact],
) -> str:
    """Metrics of several rankings fused into one."""
    from multiview.steps.execution import execute

    return execute(
        "evaluate-fusion",
        run,
        path,
        config,
        {"evaluations": evaluations, "passages": passages, "questions": questions},
        {"evaluation": evaluation},
    )
