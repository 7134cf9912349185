"""The step `champion`: what is refreshed, and with which model."""

from __future__ import annotations

import json
from pathlib import Path

from multiview import names
from multiview.artifacts.champions import Champion, current
from multiview.artifacts.record import Record, Reference, load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.config import Model
from multiview.errors import InputError
from multiview.model.bases import SETTINGS_FILE
from multiview.refresh.empty_index import empty_corpus, empty_index
from multiview.steps.context import StepContext
from multiview.steps.step import FORWARDED_FILE

CHAMPION_FILE = "champion.json"


def champion(context: StepContext) -> None:
    """Step: hand on the champion's index and passages, and the model to encode with.

    Writes `champion.json`, null where there is none, whose index and passages are then empty ones. The model is that
    of `refresh.model`, else the champion's. Raises InputError where an artifact of the champion is gone, there is no
    model, or it is of another architecture than the pipeline was made for.
    """
    now = current(context.store)
    wanted = context.settings.refresh.model
    if now is None and not wanted:
        raise InputError(
            f"store {context.store.url} has no champion yet: name the model whose index is to be the first, "
            f"with --set refresh.model=ADDRESS{_known_models(context.store)}"
        )
    found = now.load(context.store) if now else {}
    if now:
        found[names.CHAMPION_MODEL] = found[names.MODEL]
    if wanted:
        found[names.MODEL] = _model(wanted)
    _check_architecture(found[names.MODEL], context.settings.model.architecture, wanted)
    if now is None:
        found |= _nothing(context.store, found[names.MODEL])
    folder = context.output(names.CHAMPION)
    (folder / CHAMPION_FILE).write_text(json.dumps(now and now.model_dump(mode="json"), indent=1) + "\n")
    handed = {kind: Reference.to(*of).model_dump(mode="json") for kind, of in found.items()}
    (folder / FORWARDED_FILE).write_text(json.dumps(handed, indent=1) + "\n")
    context.events.fact("champion", now.number if now else 0)


def read_champion_found(folder: Path) -> Champion | None:
    """The champion that the step found; none where there was none."""
    told = json.loads((folder / CHAMPION_FILE).read_text())
    return told and Champion.model_validate(told)


def _model(address: str) -> tuple[Store, Record]:
    where, record = load_record(address)
    if record.kind != names.MODEL:
        raise InputError(f"refresh.model: {address} is the address of {record.kind}, not of a model")
    return where, record


def _check_architecture(model: tuple[Store, Record], wanted: str, named: str | None) -> None:
    folder = stage(*model, SETTINGS_FILE).path
    found = Model.model_validate_json((folder / SETTINGS_FILE).read_bytes()).architecture
    if found != wanted:
        whose = f"refresh.model: {named}" if named else "the champion's model"
        raise InputError(f"{whose} is a {found} model: set model.architecture={found}")


def _known_models(store: Store) -> str:
    keys = store.folders(names.MODEL)[:3]
    return f", such as {store.url}/{names.MODEL}/{keys[0]}" if keys else ""


def _nothing(store: Store, model: tuple[Store, Record]) -> dict[str, tuple[Store, Record]]:
    """An index of nothing, its corpus, and the model that its questions are encoded with."""
    corpus = empty_corpus(store)
    index = empty_index(store, Reference.to(*model), Reference.to(store, corpus), _width(model))
    return {names.INDEX: (store, index), names.PASSAGES: (store, corpus), names.CHAMPION_MODEL: model}


def _width(model: tuple[Store, Record]) -> int:
    """Length of a model's vectors, by the configuration of its encoder."""
    file = next(file.path for file in model[1].files if file.path.endswith("/config.json"))
    return int(json.loads((stage(*model, file).path / file).read_text())["hidden_size"])
