"""Refresh: the changes of the corpus, the refreshed index, the gate and the promotion."""

from kfp.dsl import HTML, Artifact, Dataset, Input, Metrics, Model, Output

from components import component


@component
def champion(
    run: str,
    path: str,
    config: str,
    champion: Output[Artifact],
    index: Output[Artifact],
    passages: Output[Dataset],
    model: Output[Model],
    champion_model: Output[Model],
) -> str:
    """The champion's index and passages, and the model to encode with."""
    from multiview.kubeflow.component import execute

    return execute(
        "champion",
        run,
        path,
        config,
        champion=champion,
        index=index,
        passages=passages,
        model=model,
        champion_model=champion_model,
    )


@component
def changes(
    run: str,
    path: str,
    config: str,
    index: Input[Artifact],
    model: Input[Model],
    passages: Input[Dataset],
    changes: Output[Dataset],
) -> str:
    """Changes of the corpus since an index was built."""
    from multiview.kubeflow.component import execute

    return execute("changes", run, path, config, index=index, model=model, passages=passages, changes=changes)


@component
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
    """Changes of the corpus since an index of passages with generated queries was built."""
    from multiview.kubeflow.component import execute

    return execute(
        "changes-with-queries",
        run,
        path,
        config,
        index=index,
        model=model,
        passages=passages,
        generator=generator,
        changes=changes,
    )


@component
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
    """Index of the changed corpus, made from the old index and the embeddings of new passages."""
    from multiview.kubeflow.component import execute

    return execute(
        "refresh-index",
        run,
        path,
        config,
        old=old,
        changes=changes,
        model=model,
        passages=passages,
        embeddings=embeddings,
        index=index,
    )


@component
def gate(
    run: str,
    path: str,
    config: str,
    champion: Input[Artifact],
    index: Input[Artifact],
    passages: Input[Dataset],
    champion_evaluation: Input[Artifact],
    challenger_evaluation: Input[Artifact],
    lost_questions: Input[Artifact],
    verdict: Output[Artifact],
    metrics: Output[Metrics],
) -> str:
    """Verdict on whether the challenger becomes the champion."""
    from multiview.kubeflow.component import execute

    return execute(
        "gate",
        run,
        path,
        config,
        champion=champion,
        index=index,
        passages=passages,
        champion_evaluation=champion_evaluation,
        challenger_evaluation=challenger_evaluation,
        lost_questions=lost_questions,
        verdict=verdict,
        metrics=metrics,
    )


@component
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
    """Promotion of the challenger to champion, where the verdict says so."""
    from multiview.kubeflow.component import execute

    return execute(
        "promote",
        run,
        path,
        config,
        champion=champion,
        verdict=verdict,
        index=index,
        model=model,
        passages=passages,
        promotion=promotion,
    )


@component
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
    from multiview.kubeflow.component import execute

    return execute(
        "refresh-report",
        run,
        path,
        config,
        promotion=promotion,
        verdict=verdict,
        changes=changes,
        index=index,
        report=report,
    )


@component
def champion_now(
    run: str,
    path: str,
    config: str,
    promotion: Input[Artifact],
    champion_now: Output[Artifact],
    index: Output[Artifact],
    passages: Output[Dataset],
    replaced: Output[Artifact],
    replaced_passages: Output[Dataset],
) -> str:
    """The champion after the verdict, and the index that it replaced."""
    from multiview.kubeflow.component import execute

    return execute(
        "champion-now",
        run,
        path,
        config,
        promotion=promotion,
        champion_now=champion_now,
        index=index,
        passages=passages,
        replaced=replaced,
        replaced_passages=replaced_passages,
    )


@component
def export(
    run: str,
    path: str,
    config: str,
    index: Input[Artifact],
    passages: Input[Dataset],
    replaced: Input[Artifact],
    replaced_passages: Input[Dataset],
    export: Output[Artifact],
) -> str:
    """Files of the champion's index for other systems."""
    from multiview.kubeflow.component import execute

    return execute(
        "export",
        run,
        path,
        config,
        index=index,
        passages=passages,
        replaced=replaced,
        replaced_passages=replaced_passages,
        export=export,
    )


@component
def follow_champion(
    run: str,
    path: str,
    config: str,
    promotion: Input[Artifact],
    followed: Output[Artifact],
) -> str:
    """The champion's collection in a vector database, and the alias that refers to it."""
    from multiview.kubeflow.component import execute

    return execute("follow-champion", run, path, config, promotion=promotion, followed=followed)
