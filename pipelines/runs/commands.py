"""The commands that run pipelines on this machine: `run`, `compare` and `study`."""

import time
from dataclasses import replace
from typing import Annotated

import typer

from multiview import names, tracking
from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store, open_store
from multiview.cli.console import Console
from multiview.cli.options import Debug, DryRun, EarlierStoreUrl, Presets, Settings, StoreUrl, TrackingUri
from multiview.config.documents import document_names
from multiview.config.overrides import Overrides, gather, merge, preset_label, validate
from multiview.errors import counted, naming
from multiview.evaluation.costs import check_alike
from multiview.evaluation.tables import baseline_of
from multiview.model.systems import shared
from multiview.plans import PIPELINES
from multiview.plans.comparison import comparison_of_evaluations
from multiview.plans.request import Request, describe
from multiview.refresh.champion import check_champion
from multiview.steps.runs import StepState
from pipelines.runs import results
from pipelines.runs.local import dry_run_lines, run_here
from pipelines.runs.study import comparison_settings, evaluation_paths, read_study, rows_of_runs, unevaluated

console = Console(soft_wrap=True)

PipelineName = Annotated[str, typer.Argument(metavar="PIPELINE", help=f"One of: {', '.join(PIPELINES)}.")]


def run(
    pipeline: PipelineName,
    presets: Presets = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Run a pipeline here, in this process. The same command continues or finds its run."""
    request, opened = Request.from_settings(pipeline, presets, settings), open_store(store)
    if dry_run:
        console.print(*dry_run_lines(request.plan, opened), sep="\n")
        return
    if pipeline == "refresh":
        check_champion(opened, shared(request.overrides))
    run_and_show(request, opened, tracking_uri, debug)


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="MLflow, KFP or multiview run ids.")],
    baseline: Annotated[
        str | None, typer.Option(metavar="ROW", help="What the others are tested against; else the first.")
    ] = None,
    store: EarlierStoreUrl = None,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Compare the systems of earlier runs, found in MLflow, in one table and one report."""
    uri = tracking_uri or tracking.tracking_uri(open_store(store or names.DEFAULT_STORE))
    earlier = [tracking.find_run(uri, run, open_store(store).url if store else None) for run in runs]
    rows = rows_of_runs(earlier, open_store(store) if store else None)
    for run in earlier:
        if missing := unevaluated(run):
            left = (
                f"warning: run {run.run.id}: left out {', '.join(missing)}, which MLflow has no evaluation of"
            )
            console.print(
                f"{left}: not evaluated, not finished, or not sent (multiview sync)", style="yellow"
            )
    changes: Overrides = {"comparison": {"rows": list(rows), "baseline": baseline}}
    settings = validate(changes).comparison
    baseline_of(baseline, settings.rows)
    evaluations = {name: evaluation for name, (evaluation, _) in rows.items()}
    architectures = {name: architecture for name, (_, architecture) in rows.items() if architecture}
    plan = comparison_of_evaluations("compare", evaluations, settings, architectures)
    request = Request(plan, changes, compares=tuple(dict.fromkeys(run.run.id for run in earlier)))
    run_and_show(request, open_store(store or earlier[0].store), uri, debug)


def study(
    name: Annotated[
        str,
        typer.Argument(
            metavar="STUDY", help=f"A YAML file, or one of: {', '.join(document_names('study'))}."
        ),
    ],
    rows: Annotated[
        list[str] | None,
        typer.Option("--row", metavar="NAME", help="Only this row; repeatable. Default: all."),
    ] = None,
    seeds: Annotated[
        list[int] | None,
        typer.Option(
            "--seed", metavar="N", help="Run every row with this seed; repeatable. Default: the study's."
        ),
    ] = None,
    presets: Presets = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Run one pipeline several times with the settings that a study varies, and print one table of the rows."""
    document = read_study(name).chosen(rows or [], seeds or [])
    given = presets or document.systems_of
    base, preset = gather(given, settings or []), preset_label(given)
    document.check_given(settings or [])
    shared, opened = merge(base, document.settings), open_store(store)
    requests: dict[str, Request] = {}
    for row, overrides in document.overrides(base).items():
        with naming(f"row {row}"):
            requests[row] = replace(Request.make(document.pipeline, overrides, preset), study=document.name)
    paths = {row: evaluation_paths(row, request.plan) for row, request in requests.items()}
    compared = [evaluation for row in paths.values() for evaluation in row]
    comparison = comparison_settings(document, compared, shared)
    console.print(f"{document.name}: {document.about}")
    if dry_run:
        for row, request in requests.items():
            console.print(row, *dry_run_lines(request.plan, opened), sep="\n")
        return
    evaluations: dict[str, Reference] = {}
    for row, request in requests.items():
        console.print(f"\n{row}", style="bold")
        states = run_and_show(request, opened, tracking_uri, debug, show=False)
        made = {state.path: state.outputs for state in states}
        evaluations |= {name: made[str(path)][names.EVALUATION] for name, path in paths[row].items()}
        check_alike({name: evaluation.address for name, evaluation in evaluations.items()})
    plan = comparison_of_evaluations("study", evaluations, comparison)
    about: Overrides = {"comparison": comparison.model_dump(include={"seeds_of", "paper"}, mode="json")}
    about["comparison"]["rows"] = list(evaluations)
    console.print()
    request = Request(plan, merge(shared, about), preset, study=document.name)
    run_and_show(request, opened, tracking_uri, debug)


def run_and_show(
    request: Request, store: Store, uri: str | None, debug: bool, show: bool = True
) -> list[StepState]:
    """Runs a request on this machine and returns the states of all steps; with `show`, prints their results."""
    uri = uri or tracking.tracking_uri(store)
    run = describe(request, store)
    started = time.time()
    states = run_here(request.plan, run, store, uri, debug)
    done = sum(state.status != "found" for state in states)
    console.print(
        f"{run.id}: {counted(done, 'step')} done, {len(states) - done} found, {time.time() - started:.0f} s\n"
    )
    if show:
        results.show_results(console, states, uri)
    return states
