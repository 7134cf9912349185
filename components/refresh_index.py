"""The index of a corpus that changed, made of the old one."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import on_cpu


@on_cpu()
def refresh_index(
    run: str,
    path: str,
    config: str,
    old: Input[Artifact],
    changes: Input[Dataset],
    model: Input[Model],
    passages: Input[Dataset],
    embeddings: list[str],
    index: Output[Artifact],
) -> str:
    """The index of a corpus that changed, made of the old one."""
    from multiview.steps.execution import execute

    inputs = {
        "old": old,
        "changes": changes,
        "model": model,
        "passages": passages,
        "embeddings": embeddings,
    }
    return execute("refresh-index", run, path, config, inputs, {"index": index})
