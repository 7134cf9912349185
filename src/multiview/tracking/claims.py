"""Claims: files in the store that say which MLflow run belongs to what, so that several shippers share one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multiview.artifacts.store import Store
from multiview.tracking.tags import Tags, identity

if TYPE_CHECKING:
    from mlflow import MlflowClient


class Claims:
    """The claimed MLflow runs of one run of a store, in one experiment; `folder` of the store holds a file for each."""

    def __init__(self, store: Store, client: MlflowClient, experiment: str, folder: str):
        self.store, self.client, self.experiment, self.folder = store, client, experiment, folder

    def claimed(self, name: str, run_name: str, tags: Tags, started: float | None) -> str:
        """Returns the id of the MLflow run claimed under a name, which is created if there is none; of several shippers
        that race, the first one's.

        A run that a shipper created and was killed before claiming is found by its tags. Where an answer was lost,
        MLflow's client has created a run twice: those that are not claimed are deleted. `started` is in seconds.
        """
        path = f"{self.folder}/{name}"
        if (claimed := self.store.read(path)) is not None:
            return claimed.decode()
        found = self.client.search_runs([self.experiment], identity(tags))
        if not found:
            run = self.client.create_run(
                self.experiment,
                start_time=None if started is None else round(started * 1000),
                tags={tag: value for tag, value in tags.items() if value},
                run_name=run_name,
            )
            found = self.client.search_runs([self.experiment], identity(tags)) or [run]
        self.store.create(path, found[0].info.run_id.encode())
        claimed = self.store.read(path)
        assert claimed is not None, "claims are only removed with their run"
        for run in found:
            if run.info.run_id != claimed.decode():
                self.client.delete_run(run.info.run_id)
        return claimed.decode()

    def release(self, name: str) -> None:
        """Removes the claim of a run that was deleted."""
        self.store.remove(f"{self.folder}/{name}")
