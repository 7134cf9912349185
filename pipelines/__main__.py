"""`python -m pipelines`: run, compile, submit, rerun, compare, study and schedule pipelines, and take promotions back."""

from pathlib import Path
from typing import Annotated

import typer

from multiview import environment, names, tracking
from multiview.artifacts.champions import address_of
from multiview.artifacts.store import open_store
from multiview.cli.app import run_app
from multiview.cli.console import Console
from multiview.cli.options import (
    Again,
    Debug,
    DryRun,
    EarlierStoreUrl,
    Presets,
    Settings,
    StoreUrl,
    TrackingUri,
    Wait,
    check_folder,
)
from multiview.config import Export
from multiview.config.overrides import Overrides, merge, parse_setting
from multiview.errors import InputError
from multiview.plans import PIPELINES
from multiview.plans.request import Request
from pipelines.kubeflow import commands as kubeflow
from pipelines.kubeflow.connection import Profile, connected
from pipelines.kubeflow.submission import check_store
from pipelines.runs import commands as runs
from pipelines.runs.rerun import cut, verify

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Run pipelines here or on Kubeflow, rerun their steps, schedule them.",
)
console = Console(soft_wrap=True)

app.command()(runs.run)
app.command()(runs.compare)
app.command()(runs.study)
app.command()(kubeflow.submit)
app.add_typer(kubeflow.schedule, name="schedule")


@app.command("compile")
def compile_(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="[PIPELINE]", help="All, if none is named.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the YAML files.")] = Path("compiled"),
    presets: Presets = None,
    settings: Settings = None,
    store: Annotated[
        str | None, typer.Option(help="gs:// or s3:// URL of the artifacts, the default of its runs.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Write the IR of a pipeline, or of all, as YAML. No server is asked, so pods promise not to run as root only with
    kubeflow.run_as_non_root=true, which needs Kubeflow Pipelines 2.16 or later."""
    from pipelines.kubeflow.compile import compile_request

    store = store and check_store(store)
    check_folder("--out", out)
    names = [pipeline] if pipeline else PIPELINES
    for request in [Request.from_settings(name, presets, settings) for name in names]:
        print(compile_request(request, out / f"{request.plan.name}.yaml", store))


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
    again: Again = False,
    debug: Debug = False,
    *,
    connection: Profile,
) -> None:
    """Run one step of an earlier run again, with its inputs from MLflow, verified."""
    uri = tracking_uri or tracking.tracking_uri(open_store(store or names.DEFAULT_STORE))
    run = tracking.find_run(uri, earlier, open_store(store).url if store else None)
    places = connection.settings if submit else {}
    changes: Overrides = merge(places, *(parse_setting(setting) for setting in settings or []))
    request = cut(run, step, changes, downstream, open_store(store) if store else None)
    for node, name, source in request.plan.artifacts():
        console.print(f"  reads  {node.path} {name}: {source.address}")
    for path in request.plan.paths():
        console.print(f"  runs   {path}")
    if dry_run:
        return
    if not submit:
        verify(request.plan)
        runs.run_and_show(request, open_store(store or run.store), uri, debug)
        return
    submission = kubeflow.check(request, store or run.store, connection)
    verify(request.plan)
    kubeflow.launch(submission, connection, wait, uri, again)


@app.command()
def rollback(
    to: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="A champion's number; else the one before.")
    ] = None,
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    qdrant_url: Annotated[
        str | None,
        typer.Option(envvar=environment.QDRANT_URL, help="Qdrant server whose alias follows the champion."),
    ] = None,
    qdrant_alias: Annotated[str, typer.Option(help="That alias.")] = Export().alias,
    debug: Debug = False,
) -> None:
    """Make an earlier champion's index the next champion. No champion is deleted."""
    from multiview.export.step import try_to_follow
    from multiview.lineage import garbage

    opened = open_store(store)
    champion = garbage.rollback(opened, to)
    console.print(f"champion {champion.number} answers, with the index of champion {champion.restores}:")
    console.print(f"  {address_of(opened, champion)}")
    uri = tracking_uri or tracking.tracking_uri(opened)
    try:
        if tracking.database(uri) == "absent":
            raise InputError(f"there is no MLflow database at {uri}: name yours with --tracking-uri")
        for alias, version in tracking.mirror(opened, uri).items():
            console.print(f"  MLflow: {alias} is version {version}")
    except InputError as error:  # not raised: a second rollback would go back once more
        console.warn(
            f"{error}; the rollback holds, and the next sync brings the aliases up to date: multiview sync"
        )
    if qdrant_url:
        # How many collections refreshes keep for rollbacks is not known here, so no champion's is deleted.
        settings = Export(qdrant_url=qdrant_url, alias=qdrant_alias, keep=champion.number)
        if loaded := try_to_follow(opened, qdrant_url, settings, console.warn):
            console.print(f"  Qdrant: {qdrant_alias} is collection {loaded.name}")


if __name__ == "__main__":
    run_app(app)
