"""The empty index and the empty corpus that the first refresh begins with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from multiview import names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record, Reference, read_record
from multiview.artifacts.store import Store
from multiview.config import Config
from multiview.data import passages
from multiview.encoding.embeddings import ROWS_SCHEMA, VIEWS_FILE
from multiview.index.approximate import EXACT
from multiview.index.stored_views import ViewNorms
from multiview.index.view_index import HEADER_FILE, PASSAGES_FILE
from multiview.steps.path import shard_file, shard_name
from multiview.steps.table import step


def empty_corpus(store: Store) -> Record:
    """Returns the corpus without passages, published in `store` if it is not there yet."""

    def fill(folder: Path) -> None:
        pq.write_table(passages.SCHEMA.empty_table(), folder / shard_file(shard_name(0)))

    return _published(store, names.PASSAGES, {}, {"passages": 0}, fill)


def empty_index(store: Store, model: Reference, corpus: Reference, dim: int) -> Record:
    """Returns the index without passages over `corpus`, for questions that `model` encodes into vectors [dim]."""

    def fill(folder: Path) -> None:
        header = {"kind": EXACT, "model": model.digest, "dim": dim, "passages": 0, "views": 0}
        header |= ViewNorms().fields()
        (folder / VIEWS_FILE).touch()
        pq.write_table(ROWS_SCHEMA.empty_table(), folder / PASSAGES_FILE)
        (folder / HEADER_FILE).write_text(json.dumps(header, indent=1, sort_keys=True) + "\n")

    inputs = {names.MODEL: model, names.PASSAGES: corpus}
    return _published(store, names.INDEX, inputs, {"passages": 0, "views": 0, "dim": dim}, fill)


def _published(
    store: Store,
    kind: str,
    inputs: dict[str, Reference],
    facts: dict[str, int],
    fill: Callable[[Path], None],
) -> Record:
    """Returns an artifact of the step `champion`; `fill` writes its files if it is not in the store yet."""
    made_by = step("champion")
    digests = {name: reference.digest for name, reference in inputs.items()}
    key = made_by.key(Config.partial({}), digests, {})
    if record := read_record(store, kind, key):
        return record
    attempt = Attempt(store, kind, key)
    fill(attempt.path)
    return attempt.publish(
        step=made_by.name,
        step_version=made_by.version,
        config={},
        inputs={name: [reference] for name, reference in inputs.items()},
        facts=facts,
    )[0]
