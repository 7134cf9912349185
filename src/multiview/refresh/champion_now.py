"""The step `champion-now`: the champion after a verdict was carried out, and the index that it replaced."""

from __future__ import annotations

import json

from multiview import names
from multiview.artifacts.champions import Champion, read_champion
from multiview.artifacts.record import Record, Reference, load_record, load_reference
from multiview.artifacts.store import Store
from multiview.refresh.champion import empty_artifacts
from multiview.refresh.promote import PROMOTION_FILE
from multiview.steps.context import StepContext
from multiview.steps.step import FORWARDED_FILE

Artifacts = dict[str, tuple[Store, Record]]


def champion_now(context: StepContext) -> None:
    """Step: forward index and passages of the champion that `promotion` names, and of the champion before it.

    So the champion of a refused refresh is forwarded too, and the steps behind find what they made of it earlier.
    Forwards an empty index and corpus in place of a champion that there is not, and in place of the one before where no
    delta is exported. Raises InputError where an artifact of a champion is gone.
    """
    outcome = json.loads((context.input(names.PROMOTION).path / PROMOTION_FILE).read_text())
    now = outcome["champion"] and Champion.model_validate(outcome["champion"])
    empty = empty_artifacts(context.store, _model(outcome["challenger"]))
    before = None
    if now and now.predecessor is not None and "delta" in context.settings.export.formats:
        before = read_champion(context.store, now.predecessor)
    current, replaced = (champion.load(context.store) if champion else empty for champion in (now, before))
    forwarded: Artifacts = {
        names.INDEX: current[names.INDEX],
        names.PASSAGES: current[names.PASSAGES],
        names.REPLACED: replaced[names.INDEX],
        names.REPLACED_PASSAGES: replaced[names.PASSAGES],
    }
    references = {
        name: Reference.to(*artifact).model_dump(mode="json") for name, artifact in forwarded.items()
    }
    folder = context.output(names.CHAMPION_NOW)
    (folder / FORWARDED_FILE).write_text(json.dumps(references, indent=1) + "\n")
    context.events.fact("champion", now.number if now else 0)


def _model(index: str) -> tuple[Store, Record]:
    """The model of the index at an address."""
    store, record = load_record(index)
    return load_reference(record.inputs[names.MODEL][0], index, store)
