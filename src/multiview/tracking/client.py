"""Talking to MLflow."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from multiview.artifacts.store import LocalStore, Store

RUN_FILE = "run.json"
"""The MLflow artifact of a parent run that holds its description."""


def tracking_uri(store: Store) -> str:
    """`MLFLOW_TRACKING_URI`, or an SQLite file in a local store, or one in this folder."""
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        return uri
    folder = store.root if isinstance(store, LocalStore) else Path.cwd()
    return f"sqlite:///{folder}/mlflow.db"


def connect(uri: str) -> Any:
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    from mlflow import MlflowClient

    for chatty in ("alembic", "mlflow"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    return MlflowClient(uri)


def children_of(client: Any, experiments: list[str], parent: str) -> list[Any]:
    children, token = [], None
    while True:
        page = client.search_runs(
            experiments, f"tags.`mlflow.parentRunId` = '{parent}'", max_results=1000, page_token=token
        )
        children += page
        token = page.token
        if not token:
            return children
