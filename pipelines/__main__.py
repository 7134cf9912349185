"""`python -m pipelines`: run, compile, submit, rerun and schedule pipelines."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from multiview import environment, tracking
from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store, open_store
from multiview.cli.folders import check_folder
from multiview.cli.options import (
    Debug,
    DryRun,
    EarlierStoreUrl,
    Preset,
    Settings,
    StoreUrl,
    TrackingUri,
    Wait,
)
from multiview.config import Export
from multiview.config.overrides import Overrides, gather, merge, parse_setting, validate
from multiview.errors import counted
from multiview.estimates.rates import default_rates
from multiview.evaluation.tables import baseline_of
from multiview.model.systems import resolve
from multiview.plans import PIPELINES
from multiview.plans.description import describe
from multiview.plans.request import Request
from multiview.steps.runs import StepState
from multiview.terminal import Console
from pipelines.kubeflow import commands
from pipelines.kubeflow.commands import PipelineName
from pipelines.kubeflow.connection import Profile, connected
from pipelines.runs.study import read_study, study_names

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Run pipelines here or on Kubeflow, rerun their steps, schedule them.",
)
console = Console(highlight=False, soft_wrap=True)

app.command("submit")(commands.submit)
app.add_typer(commands.schedule, name="schedule")


@app.command()
def run(
    pipeline: PipelineName,
    preset: Preset = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    store: StoreUrl = "store",
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Run a pipeline here, through KFP's local runner. The same command continues or finds its run."""
    request, opened = Request.from_settings(pipeline, preset, settings), open_store(store)
    if dry_run:
        from pipelines.runs import dry_run as forecasts

        for line in forecasts.estimate_lines(request, opened, forecasts.this_machine(default_rates())):
            console.print(line, markup=False)
        return
    if pipeline == "refresh":
        from multiview.refresh.champion import check_champion

        check_champion(opened, resolve(request.overrides))
    _run(request, opened, tracking_uri, debug)


@app.command("compile")
def compile_(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="[PIPELINE]", help="All, if none is named.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the YAML files.")] = Path("compiled"),
    manifests: Annotated[
        bool, typer.Option("--manifests", help="As Pipeline and PipelineVersion objects of Kubernetes.")
    ] = False,
    components: Annotated[
        bool, typer.Option("--components", help="Each step as a component for pipelines of others, instead.")
    ] = False,
    preset: Preset = None,
    settings: Settings = None,
    store: Annotated[
        str | None, typer.Option(help="gs:// or s3:// URL of the artifacts, the default of its runs.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Write the IR of a pipeline, or of all, as YAML. No server is asked: pods promise not to run as root only with
    kubeflow.run_as_non_root=true, which Kubeflow Pipelines takes from 2.16."""
    from pipelines.kubeflow.compile import compile_request
    from pipelines.kubeflow.manifests import write_manifests
    from pipelines.kubeflow.submission import check_store

    if components:
        from pipelines.kubeflow.published import refuse_beside, write_components

        refuse_beside(
            {
                "PIPELINE": pipeline,
                "--manifests": manifests,
                "--preset": preset,
                "--set": settings,
                "--store": store,
            }
        )
        check_folder("--out", out)
        print(*write_components(out), sep="\n")
        return
    store = store and check_store(store)
    check_folder("--out", out)
    for name in [pipeline] if pipeline else PIPELINES:
        request, target = Request.from_settings(name, preset, settings), out / f"{name}.yaml"
        if manifests:
            print(write_manifests(request, target, store))
        else:
            print(compile_request(request, target, store))


@app.command()
@connected
def rerun(
    step: Annotated[str, typer.Argument(metavar="STEP", help="A step's path, such as camvr/round-2/encode.")],
    earlier: Annotated[
        str, typer.Option("--from", metavar="RUN", help="An MLflow, KFP or multiview run id.")
    ],
    settings: Settings = None,
    downstream: Annotated[
        bool, typer.Option("--downstream", help="Also all steps that need its output.")
    ] = False,
    dry_run: DryRun = False,
    store: EarlierStoreUrl = None,
    tracking_uri: TrackingUri = None,
    submit: Annotated[bool, typer.Option("--submit", help="On Kubeflow, instead of here.")] = False,
    wait: Wait = False,
    debug: Debug = False,
    *,
    connection: Profile,
) -> None:
    """Run one step of an earlier run again, with its inputs from MLflow, verified."""
    from pipelines.runs.rerun import cut

    uri = tracking_uri or tracking.tracking_uri(open_store(store or "store"))
    run = tracking.find_run(uri, earlier, open_store(store).url if store else None)
    changes: Overrides = merge(*(parse_setting(setting) for setting in settings or []))
    part = cut(run, step, changes, downstream)
    for read in part.imported:
        console.print(f"  reads  {read.reader}: {read.reference.address}", markup=False)
    for path in part.request.plan.paths():
        console.print(f"  runs   {path}", markup=False)
    if dry_run:
        return
    if submit:
        request = part.request.over(connection.settings)
        submission = commands.check(request, store or run.store, connection)
        part.verify()
        commands.launch(submission, connection, wait, uri)
        return
    part.verify()
    _run(part.request, open_store(store or run.store), uri, debug)


@app.command()
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
    from multiview.plans.comparison import comparison_of_evaluations
    from pipelines.runs.comparison_rows import rows_of_runs

    uri = tracking_uri or tracking.tracking_uri(open_store(store or "store"))
    earlier = [tracking.find_run(uri, run, open_store(store).url if store else None) for run in runs]
    rows = rows_of_runs(earlier)
    changes: Overrides = {"comparison": {"rows": list(rows), "baseline": baseline}}
    settings = validate(changes).comparison
    baseline_of(baseline, settings.rows)
    evaluations = {name: row.evaluation for name, row in rows.items()}
    architectures = {name: row.architecture for name, row in rows.items() if row.architecture}
    plan = comparison_of_evaluations("compare", evaluations, settings, architectures)
    request = Request(plan, changes, compares=tuple(dict.fromkeys(run.run.id for run in earlier)))
    _run(request, open_store(store or earlier[0].store), uri, debug)


@app.command()
def rollback(
    to: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="A champion's number; else the one before.")
    ] = None,
    store: StoreUrl = "store",
    tracking_uri: TrackingUri = None,
    qdrant_url: Annotated[
        str | None,
        typer.Option(envvar=environment.QDRANT_URL, help="Qdrant server whose alias follows the champion."),
    ] = None,
    qdrant_alias: Annotated[str, typer.Option(help="That alias.")] = Export().alias,
    debug: Debug = False,
) -> None:
    """Make an earlier champion's index the next champion. No champion is deleted."""
    from multiview.artifacts import champions
    from multiview.export.following import try_to_follow

    opened = open_store(store)
    champion = champions.rollback(opened, to)
    console.print(
        f"champion {champion.number} answers, with the index of champion {champion.restores}:", markup=False
    )
    console.print(f"  {champions.address_of(opened, champion)}", markup=False)
    uri = tracking_uri or tracking.tracking_uri(opened)
    for alias, version in tracking.mirror(opened, uri).items():
        console.print(f"  MLflow: {alias} is version {version}", markup=False)
    if qdrant_url:
        settings = Export(qdrant_url=qdrant_url, alias=qdrant_alias)
        if loaded := try_to_follow(opened, qdrant_url, settings, _print_warning):
            console.print(f"  Qdrant: {qdrant_alias} is collection {loaded.name}", markup=False)


@app.command()
def study(
    name: Annotated[
        str, typer.Argument(metavar="STUDY", help=f"A YAML file, or one of: {', '.join(study_names())}.")
    ],
    rows: Annotated[
        list[str] | None,
        typer.Option("--row", metavar="NAME", help="Only this row; repeatable. Default: all."),
    ] = None,
    seeds: Annotated[
        list[int] | None,
        typer.Option("--seed", metavar="N", help="Run every row with this seed; repeatable. Default: the study's."),
    ] = None,
    preset: Preset = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    store: StoreUrl = "store",
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Run one pipeline several times with the settings that a study varies, and print one table of the rows."""
    from multiview.plans.comparison import comparison_of_evaluations
    from pipelines.runs import study_comparison, study_forecast

    document, base = read_study(name).chosen(rows or [], seeds or []), gather(preset, settings or [])
    shared, opened = document.shared(base), open_store(store)
    requests = {
        row: replace(Request.make(document.pipeline, overrides, preset), study=document.name)
        for row, overrides in document.overrides(base).items()
    }
    paths = {row: study_comparison.evaluation_paths(row, request.plan) for row, request in requests.items()}
    compared = [evaluation for row in paths.values() for evaluation in row]
    comparison = study_comparison.comparison_settings(document, compared, shared)
    console.print(f"{document.name}: {document.about}", markup=False)
    if dry_run:
        plans = {row: request.plan for row, request in requests.items()}
        for line in study_forecast.summary(study_forecast.forecast(plans, opened)):
            console.print(line, markup=False)
        return
    evaluations: dict[str, Reference] = {}
    for row, request in requests.items():
        console.print(f"\n{row}", style="bold", markup=False)
        states = _run(request, opened, tracking_uri, debug, show=False)
        evaluations |= study_comparison.evaluations(paths[row], states)
    plan = comparison_of_evaluations("study", evaluations, comparison)
    about: Overrides = {"comparison": comparison.model_dump(include={"seeds_of", "paper"}, mode="json")}
    about["comparison"]["rows"] = list(evaluations)
    console.print()
    request = Request(plan, merge(shared, about), preset, study=document.name)
    states = _run(request, opened, tracking_uri, debug)
    if document.seeds:
        console.print(study_comparison.seeds_table(states), markup=False)


def _run(request: Request, store: Store, uri: str | None, debug: bool, show: bool = True) -> list[StepState]:
    """Runs a request on this machine and returns the states of all steps; with `show`, prints their results."""
    from pipelines.runs import results
    from pipelines.runs.local import run_here

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


def _print_warning(line: str) -> None:
    console.print(f"warning: {line}", style="yellow", markup=False)


def main() -> NoReturn:
    """Run the command line. An error is one line; bad input exits with status 2."""
    from multiview.cli.app import run_app

    run_app(app)


if __name__ == "__main__":
    sys.exit(main())
