"""What changed in the corpus since an index was built of passages with generated queries."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import on_cpu


@on_cpu()
def changes_with_queries(
    run: str,
    path: str,
    config: str,
    index: Input[Artifact],
    model: Input[Model],
    passages: Input[Dataset],
    generator: Input[Model],
    changes: Output[Dataset],
) -> str:
    """What changed in the corpus since an index was built of passages with generated queries."""
    from multiview.steps.execution import execute

    inputs = {"index": index, "model": model, "passages": passages, "generator": generator}
    return execute("changes-with-queries", run, path, config, inputs, {"changes": changes})
