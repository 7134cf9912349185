"""The steps `champion` and `champion-now`, which forward the champion that a refresh finds, and the one after it.

Where a store has no champion yet, a refresh starts from an empty index over an empty corpus.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq

from multiview import names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.champions import Champion, current
from multiview.artifacts.record import Artifact, Record, Reference, load_record, load_reference, read_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Entry, Store
from multiview.config import Config
from multiview.data import passages
from multiview.encoding.embeddings import ROWS_SCHEMA, VIEWS_FILE
from multiview.errors import InputError
from multiview.index.approximate import EXACT
from multiview.index.stored_views import LONGEST_VIEW
from multiview.index.view_index import HEADER_FILE, PASSAGES_FILE
from multiview.model.base_model.checkpoint import SETTINGS_FILE
from multiview.model.systems import check_first_views, check_saved, load_settings
from multiview.steps.context import StepContext
from multiview.steps.path import shard_file, shard_name
from multiview.steps.runs import read_state
from multiview.steps.step import FORWARDED_FILE
from multiview.steps.table import step

CHAMPION_FILE = "champion.json"

Artifacts = dict[str, Artifact]


def champion(context: StepContext) -> None:
    """Step: forward the champion's index and passages, and the model to encode with: `refresh.model`, else the champion's.

    Writes `champion.json`, null if the store has no champion; an empty index and corpus are forwarded then. Raises
    InputError if an artifact of the champion is gone, if there is no model, or if its settings are not those that are
    given.
    """
    now = current(context.store)
    forwarded = _forwarded(context.store, now, context.settings)
    if now is None:
        forwarded |= empty_artifacts(context.store, forwarded[names.MODEL])
    folder = context.output(names.CHAMPION)
    (folder / CHAMPION_FILE).write_text(json.dumps(now and now.model_dump(mode="json"), indent=1) + "\n")
    _forward(forwarded, folder)
    context.events.fact(champion=now.number if now else 0)


def champion_now(context: StepContext) -> None:
    """Step: forward the index and passages of the champion that `promotion` names; empty ones without a champion.

    A refused refresh forwards them too, so that later steps reuse their outputs. Raises InputError if one is gone.
    """
    outcome = json.loads((context.input(names.PROMOTION).path / names.PROMOTION_FILE).read_bytes())
    now = outcome["champion"] and Champion.model_validate(outcome["champion"])
    held = (
        now.load(context.store) if now else empty_artifacts(context.store, _model_of(outcome["challenger"]))
    )
    forwarded = {name: held[name] for name in (names.INDEX, names.PASSAGES)}
    _forward(forwarded, context.output(names.CHAMPION_NOW))
    context.events.fact(champion=now.number if now else 0)


def _model_of(index: str) -> Artifact:
    """Returns the model of the index at an address."""
    store, record = load_record(index)
    return load_reference(record.inputs[names.MODEL][0], index, store)


def _forward(artifacts: Artifacts, folder: Path) -> None:
    """Writes references to the artifacts that a step forwards into its output `folder`."""
    references = {name: artifact.reference.model_dump(mode="json") for name, artifact in artifacts.items()}
    (folder / FORWARDED_FILE).write_text(json.dumps(references, indent=1) + "\n")


def check_champion(store: Store, settings: Config) -> None:
    """Raises InputError, before a run begins, where the step `champion` would refuse the store or the settings."""
    _forwarded(store, current(store), settings)


def _forwarded(store: Store, now: Champion | None, settings: Config) -> Artifacts:
    """Returns the champion's artifacts and the model to encode with, by kind; the model alone without a champion."""
    address = settings.refresh.model
    if now is None and not address:
        known = [f", such as {store.url}/{names.MODEL}/{key}" for key in store.folders(names.MODEL)[:1]]
        raise InputError(
            f"store {store.url} has no champion yet: name the model whose index is to be the first, "
            f"with --set refresh.model=ADDRESS{''.join(known)}"
        )
    forwarded = now.load(store) if now else {}
    if now:
        forwarded[names.CHAMPION_MODEL] = forwarded[names.MODEL]
    if address:
        forwarded[names.MODEL] = load_record(address, "refresh.model", names.MODEL)
    saved = load_settings(stage(*forwarded[names.MODEL], SETTINGS_FILE).path)
    check_saved(saved, settings.model, f"refresh.model: {address}" if address else "the champion's model")
    check_first_views(settings, saved)
    return forwarded


def read_champion_found(folder: Path) -> Champion | None:
    """Returns the champion that the step found; None where the store had none."""
    content = json.loads((folder / CHAMPION_FILE).read_text())
    return content and Champion.model_validate(content)


def challenger_of(store: Store, champion: Champion) -> Reference | None:
    """Returns the index that a gate last refused in favour of `champion`; None if there is none."""
    states = (
        file for file in store.entries(names.RUNS) if file.path.split("/")[2:] == ["steps", "promote.json"]
    )
    refusals = filter(None, (_refusal(store, state) for state in states))
    of_champion = [(ended, index) for number, ended, index in refusals if number == champion.number]
    return max(of_champion, key=lambda refusal: refusal[0], default=(0.0, None))[1]


@cache
def _refusal(store: Store, file: Entry) -> tuple[int, float, Reference] | None:
    """Returns the champion's number, the time and the refused index of a refresh whose gate refused it, by its state's
    `file`; cached until that is written again, because a store has thousands of refreshes after a year."""
    state = read_state(store, file.path.split("/")[1], "promote")
    record = read_record(store, names.PROMOTION, state.key) if state and state.ended else None
    if state is None or record is None or record.facts["decision"] != "refuse":
        return None
    return record.facts["champion"], state.ended or 0.0, state.inputs[names.INDEX][0]


# --- a store without a champion -------------------------------------------------------------------


def empty_artifacts(store: Store, model: Artifact) -> Artifacts:
    """Returns an empty index, its empty corpus, and the model that encodes its questions, by kind of artifact."""
    # The length of the model's vectors is in its settings if it has dense layers, else in its encoder's configuration.
    settings = load_settings(stage(*model, SETTINGS_FILE).path)
    file = next(file.path for file in model.record.files if file.path.endswith("/config.json"))
    config = stage(*model, file).path / file
    dim = settings.dense[-1].width if settings.dense else json.loads(config.read_text()).get("hidden_size")
    if dim is None:  # transformers knows the other names of `hidden_size`
        from transformers import AutoConfig

        dim = AutoConfig.from_pretrained(config).hidden_size
    corpus = Artifact(store, empty_corpus(store))
    index = Artifact(store, empty_index(store, model.reference, corpus.reference, dim))
    return {names.INDEX: index, names.PASSAGES: corpus, names.CHAMPION_MODEL: model}


def empty_corpus(store: Store) -> Record:
    """Returns the corpus without passages, published in `store` if it is not there yet."""

    def fill(folder: Path) -> None:
        pq.write_table(passages.SCHEMA.empty_table(), folder / shard_file(shard_name(0)))

    return _published(store, names.PASSAGES, {}, {"passages": 0}, fill)


def empty_index(store: Store, model: Reference, corpus: Reference, dim: int) -> Record:
    """Returns the index without passages over `corpus`, for questions that `model` encodes into vectors [dim]."""

    def fill(folder: Path) -> None:
        header = {"kind": EXACT, "model": model.digest, "dim": dim, "passages": 0, "views": 0}
        header[LONGEST_VIEW] = 0.0
        (folder / VIEWS_FILE).touch()
        pq.write_table(ROWS_SCHEMA.empty_table(), folder / PASSAGES_FILE)
        (folder / HEADER_FILE).write_text(json.dumps(header, indent=1, sort_keys=True) + "\n")

    inputs = {names.MODEL: model, names.PASSAGES: corpus}
    return _published(store, names.INDEX, inputs, {"passages": 0, "views": 0, "dim": dim}, fill)


def _published(
    store: Store, kind: str, read: dict[str, Reference], facts: dict[str, int], fill: Callable[[Path], None]
) -> Record:
    """Returns an artifact of the step `champion`; `fill` writes its files if it is not in the store yet."""
    made_by = step("champion")
    key = made_by.key(Config.partial({}), {name: each.digest for name, each in read.items()}, {})
    if record := read_record(store, kind, key):
        return record
    attempt = Attempt(store, kind, key)
    fill(attempt.path)
    inputs = {name: [reference] for name, reference in read.items()}
    about = {"step": made_by.name, "step_version": made_by.version, "config": {}}
    return attempt.publish(**about, inputs=inputs, facts=facts)[0]
