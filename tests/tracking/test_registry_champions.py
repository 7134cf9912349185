"""MLflow's aliases follow the champions of a store."""

from __future__ import annotations

from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.champions import current, rollback
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


def after_version(client: MlflowClient, name: str, digest: str) -> str:
    """The version of an index."""
    (found,) = client.search_model_versions(f"name = '{name}' and tags.sha256 = '{digest}'")
    return str(found.version)
