"""MLflow's aliases follow the champions of a store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.champions import address_of, champion_of, current, rollback
from multiview.artifacts.store import LocalStore
from multiview.tracking import registry
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.shipped_refresh import aliases, ship


def test_aliases_follow_the_champions_and_are_repaired(promoted_corpus: ChangingCorpus) -> None:
    promoted_corpus.add("new-2")
    shipped = ship(promoted_corpus)
    champion = current(promoted_corpus.store)
    assert champion is not None and champion.number == 3
    for run in MlflowClient(promoted_corpus.tracking_uri).search_runs(
        ["1"], f"tags.multiview.run = '{shipped}'"
    ):
        if run.data.tags[names.TAG_LEVEL] != "step":
            assert run.data.tags[names.TAG_CORPUS].endswith(champion.passages.digest[:8])
    before = aliases(promoted_corpus)
    assert before["champion"] == champion.index.digest and set(before) == {"champion", "previous"}
    promoted_corpus.rows = promoted_corpus.rows[: len(promoted_corpus.rows) // 2]
    refused = ship(promoted_corpus)
    after = aliases(promoted_corpus)
    assert {name: after[name] for name in before} == before and after["challenger"] not in before.values()
    client = MlflowClient(promoted_corpus.tracking_uri)
    (model,) = client.search_registered_models()
    client.set_registered_model_alias(
        model.name, "champion", after_version(client, model.name, after["challenger"])
    )
    client.delete_registered_model_alias(model.name, "challenger")
    client.delete_registered_model_alias(model.name, "previous")
    tracking.sync(promoted_corpus.store, promoted_corpus.tracking_uri)
    assert aliases(promoted_corpus) == after
    rollback(promoted_corpus.store)
    tracking.sync(promoted_corpus.store, promoted_corpus.tracking_uri)
    assert set(aliases(promoted_corpus)) == {"champion", "previous"}, (
        "it was measured against another champion"
    )
    experiment = client.get_experiment_by_name("multiview")
    assert experiment is not None
    (parent,) = client.search_runs([experiment.experiment_id], "tags.decision = 'refuse'")
    assert parent.data.tags["multiview.run"] == refused
    assert parent.data.tags["mlflow.note.content"].count("largest_shrinkage") == 2


def test_a_first_refresh_has_no_figures_of_an_index_of_nothing(tmp_path) -> None:
    corpus = ChangingCorpus.make(tmp_path)
    shipped = ship(corpus, refresh={"model": corpus.with_model()})
    runs = MlflowClient(corpus.tracking_uri).search_runs(["1"])
    figures = [
        f"{name}={value}" for run in runs for name, value in run.data.metrics.items() if "_at_" in name
    ]
    assert any("challenger" in figure for figure in figures)
    assert not [figure for figure in figures if "champion" in figure or figure.endswith("=0.0")]
    notes = [run.data.tags.get("mlflow.note.content", "") for run in runs]
    (note,) = (note for note in notes if "| challenger" in note)
    assert note.startswith("refresh of challenger, champion over") and "| champion" not in note
    (asked,) = (line for line in note.splitlines() if line.startswith("multiview search"))
    assert asked.endswith(f"{address_of(corpus.store, champion_of(corpus.store))}  # challenger")
    assert f"rerun challenger/evaluate --from {shipped}" in note
    assert f"challenger of {shipped}" in {run.info.run_name for run in runs}


def test_another_store_with_a_corpus_of_that_name_has_a_model_of_its_own(
    promoted_corpus: ChangingCorpus,
) -> None:
    uri = promoted_corpus.tracking_uri
    tracking.mirror(promoted_corpus.store, uri)
    other = replace(promoted_corpus, store=LocalStore(promoted_corpus.folder / "other"))
    other.change(1, 2)
    other.refresh(refresh={"model": promoted_corpus.with_model()})
    for _ in range(2):
        tracking.mirror(other.store, uri)
        tracking.mirror(promoted_corpus.store, uri)
    ours, theirs = sorted(MlflowClient(uri).search_registered_models(), key=lambda model: len(model.name))
    assert theirs.name.startswith(f"{ours.name}-")
    for model, corpus in ((ours, promoted_corpus), (theirs, other)):
        champion = current(corpus.store)
        assert (
            champion
            and tracking.registered_index(uri, f"models:/{model.name}@champion") == champion.index.address
        )


def test_a_rollback_while_aliases_are_set_is_what_they_say(
    promoted_corpus: ChangingCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, uri = promoted_corpus.store, promoted_corpus.tracking_uri

    def later(*given: Any) -> dict[str, str]:
        monkeypatch.setattr(registry, "repair", repair)
        rollback(store)
        tracking.mirror(store, uri)
        return repair(*given)

    repair = registry.repair
    monkeypatch.setattr(registry, "repair", later)
    tracking.mirror(store, uri)
    champion = current(store)
    assert champion is not None and champion.why == "rollback"
    assert aliases(promoted_corpus)["champion"] == champion.index.digest


def after_version(client: MlflowClient, name: str, digest: str) -> str:
    """The version of an index."""
    (found,) = client.search_model_versions(f"name = '{name}' and tags.sha256 = '{digest}'")
    return str(found.version)
