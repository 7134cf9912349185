"""The step `promote`: what a verdict says is done, and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from multiview import names
from multiview.artifacts.champions import Champion, crown, numbers, read_champion
from multiview.artifacts.record import Record, Reference
from multiview.artifacts.staged import Staged
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.errors import one_line
from multiview.refresh.champion import read as read_standing
from multiview.refresh.gate import TITLES, read_verdict
from multiview.steps import webhook

PROMOTION_FILE = "promotion.json"


def promote(settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any, store: Store) -> None:
    """Step: make the challenger the champion where the verdict says so.

    Inputs `champion` (whom it was measured against), `verdict`, and `index`, `model` and `passages` of the challenger.
    Writes `promotion.json`: the verdict, and the champion that stands now. The outcome, either one, is sent to
    `notify.url`; where that fails, what was decided holds, with a warning. Raises InputError where another refresh
    or a rollback made the next champion meanwhile.
    """
    before, verdict = read_standing(inputs["champion"].path), read_verdict(inputs["verdict"].path)
    now = before
    if verdict.decision == "promote":
        now = crown(
            store,
            Champion(
                number=before.number + 1 if before else 1,
                predecessor=before and before.number,
                why="refresh" if before else "first",
                verdict=_reference(inputs["verdict"]),
                index=_reference(inputs["index"]),
                model=_reference(inputs["model"]),
                passages=_reference(inputs["passages"]),
            ),
        )
    told = {
        "decision": verdict.decision,
        "says": verdict.says,
        "champion": now and now.model_dump(mode="json"),
        "challenger": inputs[names.INDEX].address,
        "failed": [{"check": check.name, "says": check.says} for check in verdict.failed],
    }
    (output[names.PROMOTION] / PROMOTION_FILE).write_text(
        json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    )
    tell.fact("decision", verdict.decision)
    tell.fact("champion", now.number if now else 0)
    if url := settings.notify.url:
        try:
            webhook.post(url, {"status": f"refresh {TITLES[verdict.decision]}", "store": store.url, **told})
        except OSError as error:  # requests' errors are OSErrors
            tell.warning(f"notify.url: {url} was not told: {one_line(error)}")


def stands(store: Store, record: Record) -> bool:
    """Whether the champion that a promotion made, if it made one, is still there."""
    told = json.loads((stage(store, record).path / PROMOTION_FILE).read_bytes())
    if told["decision"] != "promote":
        return True
    made = Champion.model_validate(told["champion"])
    return (
        made.number in numbers(store) and read_champion(store, made.number).references() == made.references()
    )


def _reference(staged: Staged) -> Reference:
    return Reference(address=staged.address, digest=staged.digest)
