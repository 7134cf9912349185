"""One page about a comparison."""

from kfp.dsl import HTML, Artifact, Input, Output

from components import on_cpu


@on_cpu()
def report(
    run: str,
    path: str,
    config: str,
    comparison: Input[Artifact],
    evaluations: list[str],
    report: Output[HTML],
) -> str:
    """One page about a comparison."""
    from multiview.steps.execution import execute

    inputs = {"comparison": comparison, "evaluations": evaluations}
    return execute("report", run, path, config, inputs, {"report": report})
