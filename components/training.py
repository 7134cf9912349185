"""Training: the model to start from, negatives, and the stages of training."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components import component


@component
def initial_model(
    run: str,
    path: str,
    config: str,
    model: Output[Model],
) -> str:
    """The pretrained encoder with its viewer tokens, untrained."""
    from multiview.kubeflow.component import execute

    return execute("initial-model", run, path, config, model=model)


@component
def bm25_negatives(
    run: str,
    path: str,
    config: str,
    passages: Input[Dataset],
    questions: Input[Dataset],
    negatives: Output[Dataset],
) -> str:
    """BM25 negatives of the training questions."""
    from multiview.kubeflow.component import execute

    return execute(
        "bm25-negatives", run, path, config, passages=passages, questions=questions, negatives=negatives
    )


@component
def given_negatives(
    run: str,
    path: str,
    config: str,
    questions: Input[Dataset],
    negatives: Output[Dataset],
) -> str:
    """Hard negatives that come with the training questions."""
    from multiview.kubeflow.component import execute

    return execute("given-negatives", run, path, config, questions=questions, negatives=negatives)


@component
def mine(
    run: str,
    path: str,
    config: str,
    model: Input[Model],
    index: Input[Artifact],
    passages: Input[Dataset],
    questions: Input[Dataset],
    bm25_negatives: Input[Dataset],
    negatives: Output[Dataset],
) -> str:
    """Hard negatives mined with the index of the round before."""
    from multiview.kubeflow.component import execute

    return execute(
        "mine",
        run,
        path,
        config,
        model=model,
        index=index,
        passages=passages,
        questions=questions,
        bm25_negatives=bm25_negatives,
        negatives=negatives,
    )


@component
def teach(
    run: str,
    path: str,
    config: str,
    passages: Input[Dataset],
    questions: Input[Dataset],
    hard_negatives: Input[Dataset],
    negatives: Output[Dataset],
) -> str:
    """Scores of a cross-encoder for what each training question learns from."""
    from multiview.kubeflow.component import execute

    return execute(
        "teach",
        run,
        path,
        config,
        passages=passages,
        questions=questions,
        hard_negatives=hard_negatives,
        negatives=negatives,
    )


@component
def warm_up(
    run: str,
    path: str,
    config: str,
    start: Input[Model],
    passages: Input[Dataset],
    queries: Input[Dataset],
    model: Output[Model],
) -> str:
    """The stage of training on generated queries, before the first round."""
    from multiview.kubeflow.component import execute

    return execute("warm-up", run, path, config, start=start, passages=passages, queries=queries, model=model)


@component
def train(
    run: str,
    path: str,
    config: str,
    start: Input[Model],
    passages: Input[Dataset],
    questions: Input[Dataset],
    negatives: Input[Dataset],
    model: Output[Model],
) -> str:
    """One round of training."""
    from multiview.kubeflow.component import execute

    return execute(
        "train",
        run,
        path,
        config,
        start=start,
        passages=passages,
        questions=questions,
        negatives=negatives,
        model=model,
    )
