"""Reconciles Kubeflow's recurring runs with a file of schedules. A recurring run is ours if its description ends with our
mark: the file's owner and a digest of everything it is made from. Kubeflow cannot update one, and allows two with the
same name, so one that differs is deleted and created again."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

from multiview.config import canonical_json, text_sha256
from multiview.config.overrides import gather, merge
from multiview.errors import InputError, naming, nearest
from multiview.plans.request import Request
from pipelines.kubeflow import start, submission
from pipelines.kubeflow.client import ApiObject, Client, delete_recurring_run, explained, list_all
from pipelines.kubeflow.connection import Profile
from pipelines.kubeflow.schedules import Entry, Schedule
from pipelines.kubeflow.submission import Package, Submission

MARK = re.compile(r"\[multiview schedule of ([\w.-]+): ([0-9a-f]{12})\]$")


@dataclass(frozen=True)
class CompiledSchedule:
    """A schedule, checked and compiled."""

    schedule: Schedule
    submission: Submission
    package: Package
    description: str
    digest: str
    """Digest of everything its recurring run is made from, except the address of the pages."""

    @classmethod
    def of(cls, schedule: Schedule, submission: Submission, owner: str, profile: Profile, tag: str) -> Self:
        """Compiles a schedule's pipeline for a server of this version."""
        package, account = submission.package(tag), submission.config.kubeflow.service_account
        made_from = {
            "schedule": schedule.model_dump(mode="json"),
            "run": submission.run.model_dump(mode="json", exclude={"git_sha", "created"}),
            "version": [package.pipeline, package.version],
            "store": submission.store,
            "place": [profile.experiment, profile.pipeline_root, account],
        }
        digest = text_sha256(canonical_json(made_from))[:12]
        what = f"{schedule.pipeline}{f', preset {schedule.preset}' if schedule.preset else ''}"
        mark = f"[multiview schedule of {owner}: {digest}]"
        return cls(schedule, submission, package, f"{what}, into {submission.store} {mark}", digest)


class Action(NamedTuple):
    """One change: a schedule's new state, and the ids of the recurring runs to delete."""

    kind: Literal["create", "replace", "delete", "keep"]
    name: str
    deleted: list[str]


def prepare(schedule: Schedule, profile: Profile, store: str | None) -> Submission:
    """Checks a schedule; nothing is sent. Raises InputError that names the schedule."""
    with naming(f"schedule {schedule.name}"):
        if schedule.time_zone != profile.time_zone:
            raise InputError(
                f"time_zone {schedule.time_zone}: this Kubeflow reads every cron in {profile.time_zone}: write the "
                "cron in that zone, or set cronScheduleTimezone of Kubeflow's pipeline-install-config and --time-zone"
            )
        overrides = merge(profile.settings, gather(schedule.preset, []), schedule.settings)
        request = Request.make(schedule.pipeline, overrides, schedule.preset)
        request = replace(request, schedule=schedule.name)
        return submission.prepare(request, schedule.store or store or profile.store, profile.pages)


def read_entries(client: Client, profile: Profile) -> list[Entry]:
    """Returns all recurring runs of the namespace, ours or not."""
    with explained(profile):
        namespace = client.get_user_namespace() or None
        recurring = list_all(client.list_recurring_runs, "recurring_runs", namespace=namespace)
    return [_entry(run) for run in recurring]


def _entry(run: ApiObject) -> Entry:
    mark, schedule = MARK.search(run.description or ""), run.trigger and run.trigger.cron_schedule
    owner, digest = mark.groups() if mark else (None, None)
    cron, enabled = (schedule and schedule.cron) or "", run.mode != "DISABLE"
    return Entry(run.recurring_run_id, run.display_name, cron, enabled, owner, digest, run.created_at)


def reconcile(wanted: Mapping[str, CompiledSchedule], entries: Iterable[Entry], owner: str) -> list[Action]:
    """Returns the actions that turn `entries` into the `wanted` ones. Raises InputError for another owner's name."""
    by_name: dict[str, list[Entry]] = {name: [] for name in wanted}
    for entry in entries:
        if entry.owner == owner:
            by_name.setdefault(entry.name, []).append(entry)
        elif entry.name in wanted:
            whose = f"the file of schedules {entry.owner}" if entry.owner else "no file of schedules"
            raise InputError(
                f"schedule {entry.name}: Kubeflow has a recurring run of this name, {entry.id}, of {whose}: "
                "delete it, or choose another name"
            )
    actions = []
    for name, current in by_name.items():
        want = wanted.get(name)
        state = want and (want.digest, want.schedule.enabled)
        good = [entry.id for entry in current if (entry.digest, entry.enabled) == state]
        kind = "delete" if not want else "keep" if good else "replace" if current else "create"
        actions.append(Action(kind, name, [entry.id for entry in current if entry.id not in good[:1]]))
    return actions


DONE_WORDS = {"create": "created", "replace": "replaced", "delete": "deleted", "keep": "unchanged"}


def apply(
    client: Client, profile: Profile, owner: str, wanted: Mapping[str, CompiledSchedule], dry_run: bool
) -> Iterator[str]:
    """Reconciles Kubeflow with `wanted`; yields a line per schedule. Raises InputError if Kubeflow refuses."""
    actions = reconcile(wanted, read_entries(client, profile), owner)
    if not actions:
        yield "no schedules"
    for action in actions:
        kept = action.kind == "keep"
        if not dry_run:
            with explained(profile):
                if action.kind in ("create", "replace"):
                    _create(client, profile, wanted[action.name])
                _delete(client, action.deleted)  # last, so that a refused replacement leaves the old one
        doubles = f", and {len(action.deleted)} double deleted" if kept and action.deleted else ""
        yield f"{action.name}: {action.kind if dry_run and not kept else DONE_WORDS[action.kind]}{doubles}"


def delete(client: Client, profile: Profile, name: str) -> None:
    """Deletes all of a schedule's recurring runs. Raises InputError if there is none, or it is not ours."""
    entries = read_entries(client, profile)
    scheduled = [entry for entry in entries if entry.owner and entry.name == name]
    if not scheduled:
        if any(entry.name == name for entry in entries):
            raise InputError(
                f"recurring run {name} is of no file of schedules: delete it in Kubeflow's pages"
            )
        names = sorted({entry.name for entry in entries if entry.owner})
        raise InputError(f"there is no schedule {name!r}{nearest(name, names)}")
    with explained(profile):
        _delete(client, [entry.id for entry in scheduled])


def _delete(client: Client, recurring_runs: Iterable[str]) -> None:
    from kfp_server_api import ApiException

    for identity in recurring_runs:
        try:
            delete_recurring_run(client, identity)
        except ApiException as error:
            if error.status != 404:  # already gone
                raise


def _create(client: Client, profile: Profile, wanted: CompiledSchedule) -> None:
    """Uploads a schedule's pipeline and makes its recurring run."""
    pipeline, version = start.upload(client, wanted.package)
    client.create_recurring_run(
        experiment_id=start.experiment_id(client, profile),
        job_name=wanted.schedule.name,
        description=wanted.description,
        cron_expression=wanted.schedule.cron,
        max_concurrency=1,
        no_catchup=True,
        params=wanted.submission.parameters,
        pipeline_id=pipeline,
        version_id=version,
        enabled=wanted.schedule.enabled,
        pipeline_root=profile.pipeline_root,
        service_account=wanted.submission.config.kubeflow.service_account,
    )
