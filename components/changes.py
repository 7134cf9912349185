"""What changed in the corpus since an index was built."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import on_cpu


@on_cpu()
def changes(
    run: str,
    path: str,
    config: str,
    index: Input[Artifact],
    model: Input[Model],
    passages: Input[Dataset],
    changes: Output[Dataset],
) -> str:
    """What changed in the corpus since an index was built."""
    from multiview.steps.execution import execute

    inputs = {"index": index, "model": model, "passages": passages}
    return execute("changes", run, path, config, inputs, {"changes": changes})
