"""Refresh: the changes of the corpus, the refreshed index, the gate and the promotion."""

from kfp.dsl import HTML, Artifact, Dataset, Input, Metrics, Model, Output

from components import component


@component
def champion(
    run: str,
    champion: Output[Artifact],
    index: Output[Artifact],
    passages: Output[Dataset],
    model: Output[Model],
    champion_model: Output[Model],
    path: str = "",
    config: str = "",
) -> str:
    """The champion's index and passages, and the model to encode with."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("champion", **given)


@component
def changes(
    run: str,
    index: Input[Artifact],
    model: Input[Model],
    passages: Input[Dataset],
    changes: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """Changes of the corpus since an index was built."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("changes", **given)


@component
def changes_with_queries(
    run: str,
    index: Input[Artifact],
    model: Input[Model],
    passages: Input[Dataset],
    generator: Input[Model],
    changes: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """Changes of the corpus since an index of passages with generated queries was built."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("changes-with-queries", **given)


@component
def refresh_index(
    run: str,
    old: Input[Artifact],
    changes: Input[Dataset],
    model: Input[Model],
    passages: Input[Dataset],
    embeddings: list[str],
    index: Output[Artifact],
    path: str = "",
    config: str = "",
) -> str:
    """Index of the changed corpus, made from the old index and the embeddings of new passages."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("refresh-index", **given)


@component
def gate(
    run: str,
    champion: Input[Artifact],
    index: Input[Artifact],
    passages: Input[Dataset],
    champion_evaluation: Input[Artifact],
    challenger_evaluation: Input[Artifact],
    lost_questions: Input[Artifact],
    verdict: Output[Artifact],
    metrics: Output[Metrics],
    path: str = "",
    config: str = "",
) -> str:
    """Verdict on whether the challenger becomes the champion."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("gate", **given)


@component
def promote(
    run: str,
    champion: Input[Artifact],
    verdict: Input[Artifact],
    index: Input[Artifact],
    model: Input[Model],
    passages: Input[Dataset],
    promotion: Output[Artifact],
    path: str = "",
    config: str = "",
) -> str:
    """Promotion of the challenger to champion, where the verdict says so."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("promote", **given)


@component
def refresh_report(
    run: str,
    promotion: Input[Artifact],
    verdict: Input[Artifact],
    changes: Input[Artifact],
    index: Input[Artifact],
    report: Output[HTML],
    path: str = "",
    config: str = "",
) -> str:
    """One page about a refresh."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("refresh-report", **given)


@component
def champion_now(
    run: str,
    promotion: Input[Artifact],
    champion_now: Output[Artifact],
    index: Output[Artifact],
    passages: Output[Dataset],
    replaced: Output[Artifact],
    replaced_passages: Output[Dataset],
    path: str = "",
    config: str = "",
) -> str:
    """The champion after the verdict, and the index that it replaced."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("champion-now", **given)


@component
def export(
    run: str,
    index: Input[Artifact],
    passages: Input[Dataset],
    replaced: Input[Artifact],
    replaced_passages: Input[Dataset],
    export: Output[Artifact],
    path: str = "",
    config: str = "",
) -> str:
    """Files of the champion's index for other systems."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("export", **given)


@component
def follow_champion(
    run: str,
    promotion: Input[Artifact],
    followed: Output[Artifact],
    path: str = "",
    config: str = "",
) -> str:
    """The champion's collection in a vector database, and the alias that refers to it."""
    given = {**locals()}
    from multiview.kubeflow.component import execute

    return execute("follow-champion", **given)
