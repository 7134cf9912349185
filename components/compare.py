"""One table of all evaluations."""

from kfp.dsl import Artifact, Output

from components import on_cpu


@on_cpu()
def compare(
    run: str,
    path: str,
    config: str,
    evaluations: list[str],
    comparison: Output[Artifact],
) -> str:
    """One table of all evaluations."""
    from multiview.steps.execution import execute

    return execute("compare", run, path, config, {"evaluations": evaluations}, {"comparison": comparison})
