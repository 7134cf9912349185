"""The commands that use Kubeflow: `submit`, `rerun --submit` and `schedule`."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from multiview import environment
from multiview.artifacts.store import open_store
from multiview.cli.console import Console
from multiview.cli.options import Again, BucketUrl, Debug, DryRun, Presets, Settings, Wait
from multiview.config.kubeflow import reached_by_people
from multiview.errors import InputError, counted
from multiview.plans.request import Request
from multiview.steps.runs import StepState
from pipelines.kubeflow import recurring_runs
from pipelines.kubeflow.client import ApiObject, Client, check_connection, connect, explained, run_address
from pipelines.kubeflow.connection import Profile, connected
from pipelines.kubeflow.follow import follow
from pipelines.kubeflow.recurring_runs import CompiledSchedule
from pipelines.kubeflow.schedules import corpora, read_schedules, read_statuses
from pipelines.kubeflow.start import going, start
from pipelines.kubeflow.submission import Submission, prepare
from pipelines.kubeflow.versions import SINCE, check_version, server_tag
from pipelines.runs import results
from pipelines.runs.commands import PipelineName
from pipelines.runs.local import dry_run_lines, ship_or_say

console = Console(soft_wrap=True)
schedule = typer.Typer(no_args_is_help=True, help="Recurring runs of a file in the repository.")


@connected
def submit(
    pipeline: PipelineName,
    presets: Presets = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    store: BucketUrl = None,
    part: Annotated[
        str | None, typer.Option(metavar="K/N", help="Only the K-th of N parts of a comparison's systems.")
    ] = None,
    wait: Wait = False,
    again: Again = False,
    debug: Debug = False,
    *,
    connection: Profile,
) -> None:
    """Run a pipeline on Kubeflow. The same command continues or finds its run."""
    request = Request.from_settings(pipeline, presets, settings).over(connection.settings)
    if part:
        request = _part(request, part)
    submission = check(request, store, connection)
    if dry_run:
        console.print(*dry_run_lines(request.plan, open_store(submission.store)), sep="\n")
        return
    launch(submission, connection, wait, again=again)


def _part(request: Request, part: str) -> Request:
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise InputError(f"--part {part}: expected one part of some, as in 1/3")
    return request.parts(int(count))[int(number) - 1]


def check(request: Request, store: str | None, connection: Profile) -> Submission:
    """Returns the submission of a request. Raises InputError for every mistake that can be found without Kubeflow."""
    check_connection(connection)
    return prepare(request, store or connection.store, connection.pages)


def launch(
    submission: Submission,
    connection: Profile,
    wait: bool,
    tracking_uri: str | None = None,
    again: bool = False,
) -> None:
    """Starts what is left of a submission on Kubeflow, with `again` also beside a silent run; with `wait` follows it to
    its end. Raises InputError if Kubeflow refuses, StepFailed if the run fails."""
    client, run = connect(connection), submission.run
    server = tracking_uri or os.environ.get(environment.MLFLOW_TRACKING_URI)
    tracking_uri = server or connection.mlflow_ui or reached_by_people(submission.config.kubeflow.mlflow_uri)
    tag = _check_server(client, connection, submission)
    if found_going := going(client, connection, submission, tag, again):
        kfp_run, words, package = found_going
    else:
        found = submission.found()
        if len(found) == len(run.steps):
            console.print(f"{run.id}: {counted(len(found), 'step')} found, nothing to start\n")
            if server and (unshipped := ship_or_say(open_store(submission.store), run, server)):
                console.warn(unshipped)
            _show(submission, connection, list(found.values()), tracking_uri)
            return
        submission = submission.rest(found)
        package, there = submission.package(tag), len(submission.request.there)
        words = f"started without {counted(there, 'step')} that the store has already" if there else "started"
        kfp_run = start(client, connection, submission, package)
    console.print(f"{run.id} {words}: {run_address(connection, kfp_run.run_id)}")
    if wait:
        _follow(submission, connection, kfp_run, package.text, tracking_uri)


def _check_server(client: Client, connection: Profile, *submissions: Submission) -> str:
    """Returns the server's version as it names it; warns of an unknown one. Raises InputError for an unsupported one."""
    with explained(connection):
        tag, pipeline_store = server_tag(client)
    given = {name for each in submissions for name in SINCE if getattr(each.config.kubeflow, name)}
    if warning := check_version(tag, given, pipeline_store=pipeline_store):
        Console(stderr=True, soft_wrap=True).warn(warning)
    return tag


def _follow(
    submission: Submission, connection: Profile, kfp_run: ApiObject, compiled: str, tracking_uri: str | None
) -> None:
    run, begun = submission.run, time.time()
    states = follow(connection, kfp_run, submission, compiled, tracking_uri)
    done = sum(state.status != "found" for state in states)
    counts = f"{counted(done, 'step')} done, {len(states) - done} found, " if states else ""
    console.print(f"{run.id}: {counts}{time.time() - begun:.0f} s\n")
    if states:
        _show(submission, connection, states, tracking_uri)


def _show(
    submission: Submission, connection: Profile, states: list[StepState], tracking_uri: str | None
) -> None:
    page = connection.mlflow_ui or tracking_uri
    results.show_results(console, states, page)
    if submission.config.kubeflow.mlflow_uri and not page:
        console.print("Look at it:   --mlflow-ui, or mlflow_ui of the profile, names MLflow's page")


@schedule.command("apply")
@connected
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file with a list of schedules.")],
    store: BucketUrl = None,
    dry_run: DryRun = False,
    debug: Debug = False,
    *,
    connection: Profile,
) -> None:
    """Bring Kubeflow's recurring runs in line with a file: create, replace what differs, delete what is gone."""
    document = read_schedules(file)
    check_connection(connection)
    submissions = [recurring_runs.prepare(each, connection, store) for each in document.schedules]
    client = connect(connection)
    tag = _check_server(client, connection, *submissions)
    wanted = {
        each.name: CompiledSchedule.of(each, submission, document.owner, connection, tag)
        for each, submission in zip(document.schedules, submissions, strict=True)
    }
    for line in recurring_runs.apply(client, connection, document.owner, wanted, dry_run):
        console.print(line)


@schedule.command("status")
@connected
def status(debug: Debug = False, *, connection: Profile) -> None:
    """List the schedules that Kubeflow has: cron, latest run and why it failed, next time; and how old the champions'
    corpora are. Exit status 1 if one is overdue, stuck or older than `refresh.oldest`, if its latest run failed, or if a
    store cannot be read."""
    client = connect(connection)
    entries = [entry for entry in recurring_runs.read_entries(client, connection) if entry.owner]
    if not entries:
        console.print("no schedules")
    said = []
    for entry, found in read_statuses(client, connection, sorted(entries, key=lambda entry: entry.name)):
        console.print(f"{entry.name}  {entry.cron}  of owner {entry.owner}: {found.text}")
        said.append(found)
    for found in corpora(each.store for each in said):
        console.print(found.text)
        said.append(found)
    if any(each.alarm for each in said):
        raise typer.Exit(1)


@schedule.command("delete")
@connected
def delete(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A schedule's name.")],
    debug: Debug = False,
    *,
    connection: Profile,
) -> None:
    """Delete a schedule; the next apply creates it again, unless it is removed from the file as well."""
    recurring_runs.delete(connect(connection), connection, name)
    console.print(f"{name}: deleted")
