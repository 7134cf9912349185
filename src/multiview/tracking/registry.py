"""The model registry: each version of a registered model is an index, named by the tags `multiview.index` (address) and
`sha256` (digest). Aliases only mirror decisions made elsewhere: MLflow sets them one by one and keeps no history, so
they are always brought in line with a whole mapping."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from multiview import names
from multiview.artifacts.champions import champion_numbers, current, read_champion
from multiview.artifacts.record import Record, Reference, load_reference, read_record, split_address
from multiview.artifacts.store import Store
from multiview.errors import InputError, counted
from multiview.lineage.trace import corpus_name, corpus_of, trace
from multiview.refresh.champion import challenger_of
from multiview.tracking.client import connect, database, explained, our_experiment
from multiview.tracking.mlflow_runs import every_page, short_digest

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

OURS = (names.CHAMPION, names.CHALLENGER, names.PREVIOUS)
"""Aliases that this module sets; other aliases of the same model are left alone."""
DESCRIPTION = """Each version is an index. Ask one, or see where it comes from:

    multiview search QUESTION --index models:/{name}@champion
    multiview lineage models:/{name}@champion
"""

MODEL_URI = re.compile(r"models:/(?P<name>[^/@]+)(@(?P<alias>[^/@]+)|/(?P<version>\d+))")
"""One version of a registered model, by an alias or its number: `models:/NAME@ALIAS` or `models:/NAME/VERSION`."""


def registered_index(uri: str, model: str) -> str:
    """Returns the address of the index that a `MODEL_URI` refers to. Raises InputError if MLflow has no such version,
    or one without an address."""
    named = MODEL_URI.fullmatch(model)
    assert named is not None
    with explained(uri):
        client = connect(uri, writes=False)
        if named["alias"]:
            version = client.get_model_version_by_alias(named["name"], named["alias"])
        else:
            version = client.get_model_version(named["name"], named["version"])
    address = version.tags.get(names.TAG_INDEX) or version.source
    if not address:
        raise InputError(
            f"{model}: version {version.version} has neither a tag {names.TAG_INDEX} nor a source: "
            "set the tag to the index's address"
        )
    return address


def model_name(index: Reference) -> str:
    """Returns the default name to register an index under: `multiview-` and the corpus that it answers from."""
    corpus = corpus_of(trace([index]))
    return _name_of(corpus_name(corpus) if corpus else "")


def _name_of(corpus: str) -> str:
    # MLflow allows neither / nor : in a name, and other punctuation is a nuisance on a command line.
    return "-".join(["multiview", *re.findall(r"[\w.]+", corpus)])


def mirror(store: Store, uri: str) -> dict[str, str]:
    """Sets the aliases in MLflow to the store's champion, its predecessor, and the index last refused against it, where
    there are such; returns the version of each alias. Raises InputError as `repair` does."""
    now = current(store)
    if now is None:
        return {}
    before = read_champion(store, now.predecessor).index if now.predecessor is not None else None
    indexes = {names.CHAMPION: now.index, names.PREVIOUS: before, names.CHALLENGER: challenger_of(store, now)}
    existing = {  # an index that was collected can no longer be registered
        alias: index for alias, index in indexes.items() if index is not None and index.record_in(store)
    }
    # Named by the corpus of the first champion, so that the name stays the same.
    first = read_champion(store, champion_numbers(store)[0])
    _, passages = load_reference(first.passages, "the first champion", store)
    name = _name_of(corpus_name(passages))
    with explained(uri):
        if not _is_of(store, connect(uri), name):
            name = f"{name}-{short_digest(store.url)}"
    versions = repair(uri, name, existing, store)
    # A promotion or rollback meanwhile may have set its aliases before these.
    return versions if current(store) == now else mirror(store, uri)


def _is_of(store: Store, client: MlflowClient, name: str) -> bool:
    """Whether a store may set the aliases of a registered model: another store with a corpus of that name may have its
    champion there."""
    models = client.search_registered_models(f"name = '{name}'")
    version = models[0].aliases.get(names.CHAMPION) if models else None
    index = version and client.get_model_version(name, version).tags.get(names.TAG_INDEX)
    if not index:
        return True
    _, kind, key = split_address(index)
    champions = (read_champion(store, number) for number in champion_numbers(store))
    ours = any(champion.index.key == key for champion in champions)
    return ours or read_record(store, kind, key) is not None


def aliased_indexes(uri: str) -> list[str]:
    """Returns the addresses of all indexes that an alias of any registered model refers to; none without a database.
    Raises InputError if MLflow cannot be reached."""
    if database(uri) == "absent":
        return []
    with explained(uri):
        client = connect(uri, writes=False)
        models = every_page(client.search_registered_models)
        versions = [(model.name, version) for model in models for version in set(model.aliases.values())]
        addresses = [client.get_model_version(*version).tags.get(names.TAG_INDEX) for version in versions]
        return [address for address in addresses if address]


def register(
    uri: str, index: Reference, name: str, aliases: Iterable[str] = (), near: Store | None = None
) -> str:
    """Returns the version of the registered model `name` that refers to an index, perhaps a new one, and sets the
    aliases to it. Raises InputError if there is no such index, or MLflow refuses a name or cannot be reached."""
    found = load_reference(index, "register", near)
    record, address = found.record, found.address
    if record.kind != names.INDEX:
        raise InputError(f"{index.address} is the address of {record.kind}: only an index can be registered")
    with explained(uri):
        client = connect(uri)
        existing = _version(client, name, record) or _new_version(client, name, address, record)
        if existing.tags[names.TAG_INDEX] != address:  # the store was moved
            client.set_model_version_tag(name, existing.version, names.TAG_INDEX, address)
        version = str(existing.version)
        _set_aliases(client, name, dict.fromkeys(aliases, version))
        return version


def repair(
    uri: str, name: str, indexes: Mapping[str, Reference], near: Store | None = None
) -> dict[str, str]:
    """Sets the aliases `OURS` of a registered model to `indexes`, alias to index, and deletes those that it does not
    name; returns the version of each. Raises InputError as `register` does."""
    versions = {alias: register(uri, index, name, near=near) for alias, index in indexes.items()}
    with explained(uri):
        _set_aliases(connect(uri), name, {**dict.fromkeys(OURS), **versions})
    return versions


def _version(client: MlflowClient, name: str, record: Record) -> ModelVersion | None:
    """The oldest version of an index, so that two processes that race to create one take the same; None if there is
    none. Found by digest and key: indexes with equal views may answer from passages that differ in other columns."""
    found = client.search_model_versions(f"name = '{name}' and tags.{names.TAG_SHA256} = '{record.digest}'")
    same = [version for version in found if split_address(version.tags[names.TAG_INDEX])[2] == record.key]
    return min(same, key=lambda version: int(version.version), default=None)


def _new_version(client: MlflowClient, name: str, address: str, record: Record) -> ModelVersion:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name, description=DESCRIPTION.format(name=name))
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    run = _run_of(client, record)
    facts = record.facts
    made = client.create_model_version(
        name,
        # A server refuses a folder as a source, but accepts a run.
        f"runs:/{run}/{names.INDEX}" if run else address,
        run_id=run,
        tags={names.TAG_INDEX: address, names.TAG_SHA256: record.digest},
        description=f"{counted(facts['passages'], 'passage')}, {counted(facts['views'], 'view')} of width {facts['dim']}",
    )
    return _version(client, name, record) or made


def _run_of(client: MlflowClient, record: Record) -> str | None:
    """The MLflow run of the step that built an index."""
    experiment = our_experiment(client)
    if experiment is None:
        return None
    condition = f"tags.`{names.OUTPUT_TAG}{names.INDEX}` LIKE '%/{record.folder}\"%{record.digest}%'"
    found = client.search_runs([experiment.experiment_id], condition, order_by=["attributes.start_time ASC"])
    return found[0].info.run_id if found else None


def _set_aliases(client: MlflowClient, name: str, versions: Mapping[str, str | None]) -> None:
    """Sets aliases to versions; an alias without a version is deleted."""
    aliases = client.get_registered_model(name).aliases if versions else {}
    for alias, version in versions.items():
        if version is None and alias in aliases:
            client.delete_registered_model_alias(name, alias)
        elif version is not None and str(aliases.get(alias)) != version:
            client.set_registered_model_alias(name, alias, version)
