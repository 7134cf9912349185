"""One page about a refresh."""

from kfp.dsl import HTML, Artifact, Input, Output

from components import on_cpu


@on_cpu()
def refresh_report(
    run: str,
    path: str,
    config: str,
    promotion: Input[Artifact],
    verdict: Input[Artifact],
    changes: Input[Artifact],
    index: Input[Artifact],
    report: Output[HTML],
) -> str:
    """One page about a refresh."""
    from multiview.steps.execution import execute

    inputs = {"promotion": promotion, "verdict": verdict, "changes": changes, "index": index}
    return execute("refresh-report", run, path, config, inputs, {"report": report})
