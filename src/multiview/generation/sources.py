"""Where a query generator comes from: a generator in a store, or a base by its content. Without torch."""

from __future__ import annotations

from multiview import names
from multiview.artifacts.record import Reference, read_record, split_address
from multiview.artifacts.store import open_store
from multiview.config import Config
from multiview.errors import InputError
from multiview.model.bases import base_fingerprint

SETTING = "generation.model"


def published(model: str) -> Reference | None:
    """The artifact, if `generation.model` is the address of a generator in a store; none for a base model.

    Raises InputError for the address of another kind of artifact.
    """
    try:
        url, kind, key = split_address(model)
        record = read_record(open_store(url), kind, key)
    except InputError:  # a hub name, or on a file system that no store can be on
        return None
    if record is None:
        return None
    if kind != names.GENERATOR:
        raise InputError(f"{SETTING}: {model} is the address of {kind}, not of a generator")
    return Reference(address=model.rstrip("/"), digest=record.digest)


def fingerprint(settings: Config) -> dict[str, str]:
    """What `settings.generation.model` is by content: part of the key of the generator made from it."""
    return base_fingerprint(settings.generation.model, SETTING)
