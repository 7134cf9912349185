"""The commands that speak to Kubeflow: `submit`, what `rerun --submit` needs, and `schedule`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from multiview.artifacts.store import open_store
from multiview.cli.options import BucketUrl, Debug, DryRun, Preset, Settings, Wait
from multiview.config import Config
from multiview.config.overrides import Overrides, gather, validate
from multiview.steps.runs import Run
from pipelines.kubeflow.connection import Profile, below, connected
from pipelines.plans import PIPELINES, make_plan
from pipelines.plans.plan import Plan
from pipelines.runs.description import describe

console = Console(highlight=False, soft_wrap=True)
schedule = typer.Typer(no_args_is_help=True, help="Recurring runs of a file in the repository.")

PipelineName = Annotated[str, typer.Argument(metavar="PIPELINE", help=f"One of: {', '.join(PIPELINES)}.")]


@connected
def submit(
    pipeline: PipelineName,
    preset: Preset = None,
    settings: Settings = None,
    store: BucketUrl = None,
    wait: Wait = False,
    debug: Debug = False,
    *,
    connection: Profile,
) -> None:
    """Run a pipeline on Kubeflow. The same command continues or finds its run."""
    overrides = below(connection, gather(preset, settings or []))
    launch(make_plan(pipeline, overrides), overrides, preset, store, connection, wait)


def launch(
    plan: Plan,
    overrides: Overrides,
    preset: str | None,
    store: str | None,
    connection: Profile,
    wait: bool,
    tracking_uri: str | None = None,
    rerun_of: Run | None = None,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Check a plan, `before` last of all, then start it on Kubeflow; follow it to its end if told to `wait`.

    Raises InputError before anything is sent for what can be told here, StepFailed for a run that fails.
    """
    from pipelines.kubeflow import client as kfp_client
    from pipelines.kubeflow import submission

    kfp_client.check_connection(connection)
    config = validate(overrides)
    store = submission.check(plan, config, store or connection.store)
    described = describe(
        plan,
        overrides,
        open_store(store),
        preset,
        rerun_of=rerun_of.id if rerun_of else None,
        architectures=rerun_of.architectures if rerun_of else None,
    )
    package = submission.package(plan, config)
    before()
    client = kfp_client.connect(connection)
    started, words = submission.start(client, connection, package, described, store, config)
    page = kfp_client.run_address(client, started.run_id)
    console.print(f"{described.id} {words}: {page}", markup=False)
    if wait:
        _follow(connection, started, described, plan, store, tracking_uri, config)


def _follow(
    connection: Profile,
    started: Any,
    described: Run,
    plan: Plan,
    store: str,
    uri: str | None,
    config: Config,
) -> None:
    from pipelines.kubeflow.follow import follow
    from pipelines.runs import results

    begun = time.time()
    states = follow(connection, started, described.id, plan.paths(), open_store(store))
    done = sum(state.status != "found" for state in states)
    counted = f"{done} steps done, {len(states) - done} found, " if states else ""
    console.print(f"{described.id}: {counted}{time.time() - begun:.0f} s\n", markup=False)
    if states:
        results.show(console, states, uri or config.kubeflow.mlflow_uri)


ScheduleFile = Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file with a list of schedules.")]


@schedule.command("apply")
@connected
def apply(
    file: ScheduleFile,
    store: BucketUrl = None,
    dry_run: DryRun = False,
    debug: Debug = False,
    *,
    connection: Profile,
) -> None:
    """Make Kubeflow's recurring runs those of a file: create, replace what differs, delete what is gone."""
    from pipelines.kubeflow import client as kfp_client
    from pipelines.kubeflow import recurring_runs, schedule_file

    kfp_client.check_connection(connection)
    found = schedule_file.read_schedules(file)
    wanted = {
        one.name: recurring_runs.prepare(one, found.owner, connection, store) for one in found.schedules
    }
    client = kfp_client.connect(connection)
    told = False
    for line in recurring_runs.apply(client, connection, found.owner, wanted, dry_run):
        console.print(line, markup=False)
        told = True
    if not told:
        console.print("no schedules")


@schedule.command("list")
@connected
def list_(debug: Debug = False, *, connection: Profile) -> None:
    """The recurring runs that a file of schedules has made."""
    from pipelines.kubeflow import client as kfp_client
    from pipelines.kubeflow import recurring_runs

    client = kfp_client.connect(connection)
    found = [entry for entry in recurring_runs.entries(client, connection) if entry.owner]
    for entry in sorted(found, key=lambda entry: entry.name):
        state = "" if entry.enabled else "  (disabled)"
        console.print(
            f"{entry.name}  {entry.cron}  {connection.time_zone}  of {entry.owner}{state}", markup=False
        )
    if not found:
        console.print("no schedules")


@schedule.command("delete")
@connected
def delete(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A schedule's name.")],
    debug: Debug = False,
    *,
    connection: Profile,
) -> None:
    """Delete a schedule; its next apply makes it again unless the file has lost it too."""
    from pipelines.kubeflow import client as kfp_client
    from pipelines.kubeflow import recurring_runs

    client = kfp_client.connect(connection)
    for line in recurring_runs.delete(client, connection, name):
        console.print(line, markup=False)
