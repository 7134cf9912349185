"""The step `champion`: the index that a refresh starts from, and the model that it encodes with."""

from __future__ import annotations

import json
from pathlib import Path

from multiview import names
from multiview.artifacts.champions import Champion, current
from multiview.artifacts.record import Record, Reference, load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.config import Config, Model
from multiview.errors import InputError
from multiview.model.bases import SETTINGS_FILE
from multiview.refresh.empty_index import empty_corpus, empty_index
from multiview.steps.context import StepContext
from multiview.steps.step import FORWARDED_FILE

CHAMPION_FILE = "champion.json"


def champion(context: StepContext) -> None:
    """Step: forward the champion's index and passages, and the model to encode with.

    Writes `champion.json`. It is null where the store has no champion; an empty index and an empty corpus are
    forwarded then. The model is the one of `refresh.model`, else the champion's. Raises InputError where an artifact
    of the champion is gone, there is no model, or its architecture is not the one that the pipeline was made for.
    """
    now = current(context.store)
    forwarded = _forwarded(context.store, now, context.settings)
    if now is None:
        forwarded |= empty_artifacts(context.store, forwarded[names.MODEL])
    folder = context.output(names.CHAMPION)
    (folder / CHAMPION_FILE).write_text(json.dumps(now and now.model_dump(mode="json"), indent=1) + "\n")
    references = {
        kind: Reference.to(*artifact).model_dump(mode="json") for kind, artifact in forwarded.items()
    }
    (folder / FORWARDED_FILE).write_text(json.dumps(references, indent=1) + "\n")
    context.events.fact("champion", now.number if now else 0)


def check_champion(store: Store, settings: Config) -> None:
    """Raises InputError, before a run begins, where the step `champion` would refuse the store or the settings."""
    _forwarded(store, current(store), settings)


def _forwarded(store: Store, now: Champion | None, settings: Config) -> dict[str, tuple[Store, Record]]:
    """Returns the champion's artifacts and the model to encode with, by kind; the model alone without a champion."""
    address = settings.refresh.model
    if now is None and not address:
        raise InputError(
            f"store {store.url} has no champion yet: name the model whose index is to be the first, "
            f"with --set refresh.model=ADDRESS{_known_models(store)}"
        )
    forwarded = now.load(store) if now else {}
    if now:
        forwarded[names.CHAMPION_MODEL] = forwarded[names.MODEL]
    if address:
        forwarded[names.MODEL] = _model(address)
    _check_architecture(forwarded[names.MODEL], settings.model.architecture, address)
    return forwarded


def read_champion_found(folder: Path) -> Champion | None:
    """Returns the champion that the step found; None where the store had none."""
    content = json.loads((folder / CHAMPION_FILE).read_text())
    return content and Champion.model_validate(content)


def _model(address: str) -> tuple[Store, Record]:
    store, record = load_record(address, "refresh.model")
    if record.kind != names.MODEL:
        raise InputError(f"refresh.model: {address} is the address of {record.kind}, not of a model")
    return store, record


def _check_architecture(model: tuple[Store, Record], expected: str, address: str | None) -> None:
    folder = stage(*model, SETTINGS_FILE).path
    architecture = Model.model_validate_json((folder / SETTINGS_FILE).read_bytes()).architecture
    if architecture != expected:
        subject = f"refresh.model: {address}" if address else "the champion's model"
        raise InputError(f"{subject} is a {architecture} model: set model.architecture={architecture}")


def _known_models(store: Store) -> str:
    keys = store.folders(names.MODEL)[:3]
    return f", such as {store.url}/{names.MODEL}/{keys[0]}" if keys else ""


def empty_artifacts(store: Store, model: tuple[Store, Record]) -> dict[str, tuple[Store, Record]]:
    """Returns an empty index, its empty corpus, and the model that encodes its questions, by kind of artifact."""
    corpus = empty_corpus(store)
    index = empty_index(store, Reference.to(*model), Reference.to(store, corpus), _width(model))
    return {names.INDEX: (store, index), names.PASSAGES: (store, corpus), names.CHAMPION_MODEL: model}


def _width(model: tuple[Store, Record]) -> int:
    """Length of a model's vectors, as its encoder's configuration says."""
    file = next(file.path for file in model[1].files if file.path.endswith("/config.json"))
    return int(json.loads((stage(*model, file).path / file).read_text())["hidden_size"])
