"""The step `promote`: carries out a verdict, and reports the outcome."""

from __future__ import annotations

import json

from multiview import names
from multiview.artifacts.champions import Champion, champion_numbers, crown, read_champion
from multiview.artifacts.record import Record, Reference
from multiview.artifacts.staging import Recorded, Staged, stage
from multiview.artifacts.store import Store
from multiview.config.notify import notified
from multiview.errors import one_line
from multiview.refresh.champion import read_champion_found
from multiview.refresh.gate import TITLES, read_verdict
from multiview.steps import webhook
from multiview.steps.context import StepContext


def promote(context: StepContext) -> None:
    """Step: make the challenger the champion where the verdict says so.

    Inputs: `champion` (the one it was compared with), `verdict`, and `index`, `model` and `passages` of the
    challenger. Writes `promotion.json`: the verdict and the current champion. Every outcome is sent to `notify.url`;
    a failure to send it is a warning, and the decision holds. Raises InputError where another refresh or a rollback
    made the next champion meanwhile.
    """
    before, verdict = (
        read_champion_found(context.input("champion").path),
        read_verdict(context.input("verdict").path),
    )
    now = before
    if verdict.decision == "promote":
        now = crown(
            context.store,
            Champion(
                number=before.number + 1 if before else 1,
                predecessor=before and before.number,
                why="refresh" if before else "first",
                verdict=_reference(context.input("verdict")),
                index=_reference(context.recorded_input("index")),
                model=_reference(context.recorded_input("model")),
                passages=_reference(context.recorded_input("passages")),
            ),
        )
    outcome = {
        "decision": verdict.decision,
        "says": verdict.says,
        "champion": now and now.model_dump(mode="json"),
        "challenger": context.recorded_input(names.INDEX).address,
        "failed": [{"check": check.name, "says": check.says} for check in verdict.failed],
    }
    (context.output(names.PROMOTION) / names.PROMOTION_FILE).write_text(
        json.dumps(outcome, indent=1, ensure_ascii=False) + "\n"
    )
    context.events.fact("decision", verdict.decision)
    context.events.fact("champion", now.number if now else 0)
    notify = context.settings.notify
    if address := notified(notify):
        status, pages = f"refresh {TITLES[verdict.decision]}", context.pages
        mlflow, kubeflow = pages.mlflow, pages.kubeflow or notify.kubeflow
        text = webhook.chat_text(
            f"{status}: {verdict.says}",
            f"champion: {now.number if now else 'none'}, of {context.store.url}",
            mlflow and f"MLflow: {mlflow}",
            kubeflow and f"Kubeflow: {kubeflow}",
        )
        try:
            webhook.post(address, {"text": text, "status": status, "store": context.store.url, **outcome})
        except OSError as error:  # requests' errors are OSErrors
            context.events.warning(f"notify.url was not notified: {one_line(error)}")


def still_holds(store: Store, record: Record) -> bool:
    """Returns whether the champion that a promotion made, if it made one, is still in the store."""
    outcome = json.loads((stage(store, record).path / names.PROMOTION_FILE).read_bytes())
    if outcome["decision"] != "promote":
        return True
    promoted = Champion.model_validate(outcome["champion"])
    return (
        promoted.number in champion_numbers(store)
        and read_champion(store, promoted.number).references() == promoted.references()
    )


def _reference(staged: Staged | Recorded) -> Reference:
    return Reference(address=staged.address, digest=staged.digest)
