"""The steps `gate`, which compares champion and challenger and writes the verdict, and `promote`, which carries it out."""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter

from multiview import metric_names, names
from multiview.artifacts.champions import Champion, champion_numbers, crown, current, read_champion
from multiview.artifacts.record import Artifact, Record, Reference, load_record
from multiview.artifacts.staging import LocalArtifact, stage
from multiview.artifacts.store import Store
from multiview.config.kubeflow import notified
from multiview.data.questions import read_lost_questions
from multiview.errors import InputError, one_line
from multiview.evaluation.costs import SEARCH_SECONDS
from multiview.evaluation.evaluate import best_ranks_of, values_of
from multiview.evaluation.files import METRICS_FILE, question_ids, write_json
from multiview.evaluation.significance import RESAMPLES
from multiview.evaluation.tables import escaped
from multiview.index.ranker import RERANKER_FOLDER
from multiview.refresh.champion import read_champion_found
from multiview.refresh.freshness import TITLES
from multiview.refresh.gate_rules import Measurements, Verdict, decide
from multiview.steps import webhook
from multiview.steps.context import StepContext


def gate(context: StepContext) -> None:
    """Step: decide whether `index` becomes the champion (`gate_rules.decide`).

    Inputs: `champion` (as the step `champion` found it), `index` (the challenger) and its `passages`, the evaluations of
    both, and `lost_questions`, the questions that were left out. Writes `verdict.json`, and `verdict.md` for people to
    read. Raises InputError where the two evaluations are of different questions.
    """
    champion = read_champion_found(context.input("champion").path)
    champion_evaluation = context.input("champion_evaluation")
    challenger_evaluation = context.input("challenger_evaluation")
    qids = question_ids(challenger_evaluation.path)
    if qids != question_ids(champion_evaluation.path):
        raise InputError(
            "champion and challenger were not evaluated on the same questions: run the refresh whole"
        )
    held = champion and champion.load(context.store)
    given = {
        kind: load_record(context.recorded_input(kind).address) for kind in (names.INDEX, names.PASSAGES)
    }
    verdict = decide(
        context.settings.gate,
        measurements(held, champion_evaluation) if held else None,
        measurements(given, challenger_evaluation),
        qids,
        read_lost_questions(context.input(names.LOST_QUESTIONS).path),
        RESAMPLES,
        context.settings.comparison.seed,
    )
    folder = context.output(names.VERDICT)
    write_json(folder / names.VERDICT_FILE, verdict)
    (folder / names.VERDICT_TEXT_FILE).write_text(text(verdict), encoding="utf-8")
    context.events.fact(decision=verdict.decision, says=verdict.says)
    for name, difference in verdict.metrics.items():
        context.events.metric(metric_names.of_group(names.CHALLENGER, name), difference.challenger)
        if difference.champion is not None:
            context.events.metric(metric_names.of_group(names.CHAMPION, name), difference.champion)
    for check in verdict.checks:
        if check.name == "keep_columns" and check.passed:
            context.events.warning(f"columns: {check.says}; conditions on them fail")
        if check.name == "ranking":
            context.events.warning(f"ranking: {check.says} (search.mode, search.rerank)")
    if verdict.decision == "refuse":
        context.events.warning(f"refused: {verdict.says}")


def measurements(artifacts: Mapping[str, Artifact], evaluation: LocalArtifact) -> Measurements:
    """Returns the measurements of an index by its evaluation; `artifacts` are the index and its passages, by kind."""
    index, passages = artifacts[names.INDEX].record, artifacts[names.PASSAGES].record
    metrics = json.loads((evaluation.path / METRICS_FILE).read_text())
    changes = artifacts[names.INDEX].remembered_input(names.CHANGES)
    return Measurements(
        digests=(
            index.digest,
            *(index.inputs[name][0].digest for name in (names.MODEL, names.PASSAGES)),
            str(index.config.get("encode", {}).get("question_length")),
        ),
        passages=index.facts["passages"],
        bytes=sum(file.bytes for file in index.files),
        seconds_per_question=load_record(evaluation.address).record.facts[SEARCH_SECONDS],
        values=values_of(evaluation.path, metrics),
        ranks=best_ranks_of(evaluation.path),
        columns=passages.facts.get("columns"),
        ranking=index.config.get("search", {}).get("mode", "dense")
        + ", reranked" * any(file.path.startswith(RERANKER_FOLDER) for file in index.files),
        known=changes and changes.record.facts["passages"] - changes.record.facts["added"],
    )


def read_verdict(folder: Path) -> Verdict:
    """Returns the verdict that the step wrote into `folder`."""
    return TypeAdapter(Verdict).validate_json((folder / names.VERDICT_FILE).read_bytes())


def figures(store: Store, record: Record) -> dict[str, float]:
    """Returns whether the challenger is promoted (1 or 0), how many checks it failed, and the metrics of both sides."""
    verdict = read_verdict(stage(store, record, names.VERDICT_FILE).path)
    metrics = metric_names.figures(verdict.metrics)
    sides = {
        metric_names.of_group(side, name): getattr(difference, side)
        for name, difference in metrics.items()
        for side in (names.CHAMPION, names.CHALLENGER)
    }
    return {
        "promoted": float(verdict.decision == "promote"),
        "failed_checks": float(len(verdict.failed)),
        **{name: value for name, value in sides.items() if value is not None},
    }


def text(verdict: Verdict) -> str:
    """Returns a verdict as Markdown."""
    lines = [f"**{TITLES[verdict.decision]}**: {escaped(verdict.says)}", ""]
    if verdict.checks:
        lines += ["| check | | measured |", "|---|---|---|"]
        lines += [
            f"| {escaped(check.name)} | {'passed' if check.passed else '**refused**'} | {escaped(check.says)} |"
            for check in verdict.checks
        ]
    return "\n".join(lines).rstrip() + "\n"


# --- carrying out the verdict ------------------------------------------------------------------------


def promote(context: StepContext) -> None:
    """Step: make the challenger the champion where the verdict says so.

    Inputs: `champion` (the one it was compared with), `verdict`, and `index`, `model` and `passages` of the
    challenger. Writes `promotion.json`: the verdict and the current champion. Every outcome is sent to `notify.url`;
    a failure to send it is a warning, and the decision holds. Raises InputError where another refresh or a rollback
    made the next champion meanwhile.
    """
    before = read_champion_found(context.input("champion").path)
    given = context.input("verdict")
    verdict = read_verdict(given.path)
    made = None
    if verdict.decision == "promote":
        made = crown(
            context.store,
            Champion(
                number=before.number + 1 if before else 1,
                predecessor=before and before.number,
                why="refresh" if before else "first",
                verdict=Reference(address=given.address, digest=given.digest),
                index=context.recorded_input("index"),
                model=context.recorded_input("model"),
                passages=context.recorded_input("passages"),
            ),
        )
    now = made or current(context.store)  # another refresh or a rollback may have come meanwhile
    outcome = {
        "decision": verdict.decision,
        "says": verdict.says,
        "champion": now and now.model_dump(mode="json"),
        "challenger": context.recorded_input(names.INDEX).address,
        "failed": [{"check": check.name, "says": check.says} for check in verdict.failed],
    }
    write_json(context.output(names.PROMOTION) / names.PROMOTION_FILE, outcome)
    compared = made or before
    context.events.fact(decision=verdict.decision, champion=compared.number if compared else 0)
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
