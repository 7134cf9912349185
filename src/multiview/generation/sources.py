"""Sources of a query generator: a generator in a store, or a base model by its content. Needs no torch."""

from __future__ import annotations

from multiview import names
from multiview.artifacts.record import Reference, read_record, split_address
from multiview.artifacts.store import open_store
from multiview.config import Config
from multiview.errors import InputError
from multiview.model.base_model.checkpoint import base_fingerprint

SETTING = "generation.model"


def published(model: str) -> Reference | None:
    """Returns the artifact if `generation.model` is the address of a generator in a store; None for a base model.

    Raises InputError for the address of another kind of artifact.
    """
    try:
        url, kind, key = split_address(model)
        record = read_record(open_store(url), kind, key)
    except InputError:  # a hub name, or a file system that cannot hold a store
        return None
    if record is None:
        return None
    if kind != names.GENERATOR:
        raise InputError(f"{SETTING}: {model} is the address of {kind}, not of a generator")
    return Reference(address=model.rstrip("/"), digest=record.digest)


def generator_fingerprint(settings: Config) -> dict[str, str]:
    """Returns the content fingerprint of `settings.generation.model`: part of the key of the generator made from it."""
    return base_fingerprint(settings.generation.model, SETTING)
