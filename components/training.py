"""Training: the model to start from, negatives, and the stages of training."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import component


@component
def initial_model(
    run: str,
    model: Output[Model],
    path: str = "",
    config: str = "",
) -> str:
    """The pretrained encoder with its viewer tokens, untrained."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("initial-model", **given)


@component
def bm25_negatives(
    run: str,
    passages: Input[Dataset],
    questions: Input[Dataset],
    negatives: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """BM25 negatives of the training questions."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("bm25-negatives", **given)


@component
def given_negatives(
    run: str,
    questions: Input[Dataset],
    negatives: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """Hard negatives that come with the training questions."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("given-negatives", **given)


@component
def mine(
    run: str,
    model: Input[Model],
    index: Input[Artifact],
    passages: Input[Dataset],
    questions: Input[Dataset],
    bm25_negatives: Input[Dataset],
    negatives: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """Hard negatives mined with the index of the round before."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("mine", **given)


@component
def teach(
    run: str,
    passages: Input[Dataset],
    questions: Input[Dataset],
    hard_negatives: Input[Dataset],
    negatives: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """Scores of a cross-encoder for what each training question learns from."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("teach", **given)


@component
def warm_up(
    run: str,
    start: Input[Model],
    passages: Input[Dataset],
    queries: Input[Dataset],
    model: Output[Model],
    path: str = "",
    config: str = "",
) -> str:
    """The stage of training on generated queries, before the first round."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("warm-up", **given)


@component
def train(
    run: str,
    start: Input[Model],
    passages: Input[Dataset],
    questions: Input[Dataset],
    negatives: Input[Dataset],
    model: Output[Model],
    path: str = "",
    config: str = "",
) -> str:
    """One round of training."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("train", **given)
