"""Whether the challenger may become the champion."""

from kfp.dsl import Artifact, Input, Output

from components import on_cpu


@on_cpu()
def gate(
    run: str,
    path: str,
    config: str,
    champion: Input[Artifact],
    index: Input[Artifact],
    champion_evaluation: Input[Artifact],
    challenger_evaluation: Input[Artifact],
    verdict: Output[Artifact],
) -> str:
    """Whether the challenger may become the champion."""
    from multiview.steps.execution import execute

    inputs = {
        "champion": champion,
        "index": index,
        "champion_evaluation": champion_evaluation,
        "challenger_evaluation": challenger_evaluation,
    }
    return execute("gate", run, path, config, inputs, {"verdict": verdict})
