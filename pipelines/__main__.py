"""`python -m pipelines`: run, compile, submit, rerun and schedule pipelines."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from multiview import tracking
from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store, open_store
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
from multiview.config.overrides import Overrides, gather, parse_setting, validate
from multiview.config.overrides import merge as merged
from multiview.evaluation.tables import baseline_of
from multiview.steps.runs import StepState
from pipelines.kubeflow import commands
from pipelines.kubeflow.commands import PipelineName
from pipelines.kubeflow.connection import Profile, below, connected
from pipelines.plans import PIPELINES, make_plan
from pipelines.plans.plan import Plan
from pipelines.runs.description import describe
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
    store: StoreUrl = "store",
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Run a pipeline here, through KFP's local runner. The same command continues or finds its run."""
    overrides = gather(preset, settings or [])
    plan = make_plan(pipeline, overrides)
    _run(plan, overrides, preset, open_store(store), tracking_uri, debug)


@app.command("compile")
def compile_(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="[PIPELINE]", help="All, if none is named.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the YAML files.")] = Path("compiled"),
    manifests: Annotated[
        bool, typer.Option("--manifests", help="As Pipeline and PipelineVersion objects of Kubernetes.")
    ] = False,
    preset: Preset = None,
    settings: Settings = None,
    debug: Debug = False,
) -> None:
    """Write the IR of a pipeline, or of all, as YAML."""
    from pipelines.kubeflow.compile import compile_plan
    from pipelines.kubeflow.manifests import write_resources

    write = write_resources if manifests else compile_plan
    overrides = gather(preset, settings or [])
    for name in [pipeline] if pipeline else PIPELINES:
        print(write(make_plan(name, overrides), out / f"{name}.yaml", validate(overrides)))


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
    from pipelines.runs.rerun import cut, verify

    uri = tracking_uri or tracking.tracking_uri(open_store(store or "store"))
    found = tracking.find_run(uri, earlier, open_store(store).url if store else None)
    changes: Overrides = merged(*(parse_setting(setting) for setting in settings or []))
    part = cut(found, step, changes, downstream)
    for where, reference in part.imported:
        console.print(f"  reads  {where}: {reference.address}", markup=False)
    for path in part.plan.paths():
        console.print(f"  runs   {path}", markup=False)
    if dry_run:
        return
    if submit:
        commands.launch(
            part.plan,
            below(connection, part.overrides),
            found.run.preset,
            store or found.store,
            connection,
            wait,
            uri,
            rerun_of=found.run,
            before=lambda: verify(part),
        )
        return
    verify(part)
    _run(
        part.plan,
        part.overrides,
        found.run.preset,
        open_store(store or found.store),
        uri,
        debug,
        rerun_of=found.run.id,
        architectures=found.run.architectures,
    )


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
    from pipelines.runs import comparison_rows as compare

    uri = tracking_uri or tracking.tracking_uri(open_store(store or "store"))
    found = [tracking.find_run(uri, run, open_store(store).url if store else None) for run in runs]
    rows = compare.rows_of_runs(found)
    changes: Overrides = {"comparison": {"rows": list(rows), "baseline": baseline}}
    settings = validate(changes).comparison
    baseline_of(baseline, settings.rows)
    plan = compare.comparison_of("compare", {row: of.evaluation for row, of in rows.items()}, settings)
    architectures = {row: of.architecture for row, of in rows.items() if of.architecture}
    compares = [run.run.id for run in found]
    opened = open_store(store or found[0].store)
    _run(plan, changes, None, opened, uri, debug, architectures=architectures, compares=compares)


@app.command()
def rollback(
    to: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="A champion's number; else the one before.")
    ] = None,
    store: StoreUrl = "store",
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Make an earlier champion's index answer again: as the next champion, so that nothing is lost."""
    from multiview.artifacts import champions

    opened = open_store(store)
    now = champions.rollback(opened, to)
    console.print(f"champion {now.number} answers, with the index of champion {now.restores}:", markup=False)
    console.print(f"  {champions.address_of(opened, now)}", markup=False)
    uri = tracking_uri or tracking.tracking_uri(opened)
    for alias, version in tracking.mirror(opened, uri).items():
        console.print(f"  MLflow: {alias} is version {version}", markup=False)


@app.command()
def study(
    name: Annotated[
        str, typer.Argument(metavar="STUDY", help=f"A YAML file, or one of: {', '.join(study_names())}.")
    ],
    preset: Preset = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    store: StoreUrl = "store",
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Run one pipeline several times with the settings that a study varies, and table the rows."""
    from pipelines.runs import comparison_rows as compare
    from pipelines.runs import study_forecast as study

    found, base = read_study(name), gather(preset, settings or [])
    opened = open_store(store)
    plans = {row: make_plan(found.pipeline, own) for row, own in found.overrides(base).items()}
    rows = {row: study.rows_of(row, plan) for row, plan in plans.items()}
    settings_of_rows = study.comparison_settings(found, [name for of in rows.values() for name in of], base)
    console.print(f"{found.name}: {found.about}", markup=False)
    if dry_run:
        for line in study.summary(study.forecast(plans, opened)):
            console.print(line, markup=False)
        return
    evaluations: dict[str, Reference] = {}
    for row, own in found.overrides(base).items():
        console.print(f"\n{row}", style="bold", markup=False)
        states = _run(plans[row], own, preset, opened, tracking_uri, debug, study=found.name, show=False)
        evaluations |= study.evaluations_of(rows[row], states)
    plan = compare.comparison_of("study", evaluations, settings_of_rows)
    console.print()
    compared: Overrides = {"comparison": {"rows": list(evaluations), "seeds_of": settings_of_rows.seeds_of}}
    states = _run(plan, merged(base, compared), preset, opened, tracking_uri, debug, study=found.name)
    if found.seeds:
        console.print(study.seeds_page(states), markup=False)


def _run(
    plan: Plan,
    overrides: Overrides,
    preset: str | None,
    store: Store,
    uri: str | None,
    debug: bool,
    show: bool = True,
    **about: Any,
) -> list[StepState]:
    """States of all steps; `about` is more of what `describe` takes."""
    from pipelines.runs import results
    from pipelines.runs.local import run_here

    uri = uri or tracking.tracking_uri(store)
    described = describe(plan, overrides, store, preset, **about)
    started = time.time()
    states = run_here(plan, described, store, uri, debug)
    done = sum(state.status != "found" for state in states)
    console.print(
        f"{described.id}: {done} steps done, {len(states) - done} found, {time.time() - started:.0f} s\n"
    )
    if show:
        results.show(console, states, uri)
    return states


def main() -> NoReturn:
    """Errors are one line; bad input exits with status 2."""
    from multiview.cli.app import run_app

    run_app(app)


if __name__ == "__main__":
    sys.exit(main())
