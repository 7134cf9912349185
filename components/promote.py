"""The challenger becomes the champion, where the verdict says so."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import on_cpu


@on_cpu()
def promote(
    run: str,
    path: str,
    config: str,
    champion: Input[Artifact],
    verdict: Input[Artifact],
    index: Input[Artifact],
    model: Input[Model],
    passages: Input[Dataset],
    promotion: Output[Artifact],
) -> str:
    """The challenger becomes the champion, where the verdict says so."""
    from multiview.steps.execution import execute

    inputs = {
        "champion": champion,
        "verdict": verdict,
        "index": index,
        "model": model,
        "passages": passages,
    }
    return execute("promote", run, path, config, inputs, {"promotion": promotion})
