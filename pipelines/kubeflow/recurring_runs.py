"""Kubeflow's recurring runs, made those of a file of schedules.

A recurring run is ours if its description ends with our mark: the file's owner and a digest of all that was
asked for. Kubeflow has no update, and does not mind two of one name: what differs is deleted and made anew.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from multiview.artifacts.store import open_store
from multiview.config import Config, canonical_json
from multiview.config.overrides import gather, merge, validate
from multiview.errors import InputError, nearest
from multiview.steps.runs import Run
from pipelines.kubeflow import submission
from pipelines.kubeflow.client import explained, pages
from pipelines.kubeflow.connection import Profile, below
from pipelines.kubeflow.schedule_file import Schedule
from pipelines.plans import make_plan
from pipelines.runs.description import describe

MARK = re.compile(r"\[multiview schedule of ([\w.-]+): ([0-9a-f]{12})\]$")


@dataclass(frozen=True)
class Entry:
    """A recurring run of Kubeflow's."""

    id: str
    name: str
    cron: str
    enabled: bool
    owner: str | None = None
    """The file of schedules that it is of; none: not ours."""
    digest: str | None = None


@dataclass(frozen=True)
class Wanted:
    """A schedule, checked and compiled."""

    schedule: Schedule
    package: submission.Package
    run: Run
    store: str
    config: Config
    description: str
    digest: str


@dataclass(frozen=True)
class Action:
    """One change: what becomes of a schedule, and the recurring runs that go for it."""

    kind: Literal["create", "replace", "delete", "keep"]
    name: str
    deleted: tuple[str, ...] = ()


def prepare(schedule: Schedule, owner: str, profile: Profile, store: str | None) -> Wanted:
    """Check a schedule and compile its pipeline; nothing is sent. Raises InputError that names it."""
    try:
        if schedule.time_zone != profile.time_zone:
            raise InputError(
                f"time_zone {schedule.time_zone}: this Kubeflow reads every cron in {profile.time_zone}: write the "
                "cron in that zone, or set cronScheduleTimezone of Kubeflow's pipeline-install-config and --time-zone"
            )
        overrides = below(profile, merge(gather(schedule.preset, []), schedule.settings))
        plan, config = make_plan(schedule.pipeline, overrides), validate(overrides)
        store = open_store(submission.check(plan, config, schedule.store or store or profile.store)).url
        run = describe(plan, overrides, open_store(store), schedule.preset, schedule=schedule.name)
        package = submission.package(plan, config)
    except InputError as error:
        raise InputError(f"schedule {schedule.name}: {error}") from error
    asked = {
        "schedule": schedule.model_dump(mode="json"),
        "run": run.model_dump(mode="json", exclude={"git_sha", "created"}),
        "version": [package.pipeline, package.version],
        "store": store,
        "place": [profile.experiment, profile.pipeline_root, config.kubeflow.service_account],
    }
    digest = hashlib.sha256(canonical_json(asked).encode()).hexdigest()[:12]
    with_preset = f", preset {schedule.preset}" if schedule.preset else ""
    description = f"{schedule.pipeline}{with_preset}, into {store} [multiview schedule of {owner}: {digest}]"
    return Wanted(schedule, package, run, store, config, description, digest)


def entries(client: Any, profile: Profile) -> list[Entry]:
    """All recurring runs of the namespace, ours and others'."""
    with explained(profile):
        namespace = client.get_user_namespace() or None
        found = pages(client.list_recurring_runs, "recurring_runs", namespace=namespace)
    return [_entry(one) for one in found]


def _entry(one: Any) -> Entry:
    mark = MARK.search(one.description or "")
    cron = one.trigger and one.trigger.cron_schedule and one.trigger.cron_schedule.cron
    return Entry(
        one.recurring_run_id,
        one.display_name,
        cron or "",
        one.mode != "DISABLE",
        mark[1] if mark else None,
        mark[2] if mark else None,
    )


def reconcile(wanted: Mapping[str, Wanted], found: Iterable[Entry], owner: str) -> list[Action]:
    """What turns the recurring runs `found` into those `wanted`; nothing for what is as it should be.

    Raises InputError for a name that a recurring run of someone else's has.
    """
    by_name: dict[str, list[Entry]] = {}
    for entry in found:
        by_name.setdefault(entry.name, []).append(entry)
    for name in wanted:
        for entry in by_name.get(name, ()):
            if entry.owner != owner:
                whose = f"the file of schedules {entry.owner}" if entry.owner else "no file of schedules"
                raise InputError(
                    f"schedule {name}: Kubeflow has a recurring run of this name, {entry.id}, of {whose}: "
                    "delete it, or choose another name"
                )
    actions = []
    for name, one in wanted.items():
        there = by_name.get(name, [])
        good = [e.id for e in there if e.digest == one.digest and e.enabled == one.schedule.enabled][:1]
        surplus = tuple(entry.id for entry in there if entry.id not in good)
        if good:
            actions.append(Action("keep", name, surplus))
        else:
            actions.append(Action("replace" if there else "create", name, surplus))
    for name, there in by_name.items():
        ours = tuple(entry.id for entry in there if entry.owner == owner)
        if name not in wanted and ours:
            actions.append(Action("delete", name, ours))
    return actions


NEW = ("create", "replace")
DONE = {"create": "created", "replace": "replaced", "delete": "deleted", "keep": "unchanged"}


def apply(
    client: Any, profile: Profile, owner: str, wanted: Mapping[str, Wanted], dry_run: bool
) -> Iterator[str]:
    """Reconcile; a line for each schedule. Raises InputError for what Kubeflow refuses."""
    for action in reconcile(wanted, entries(client, profile), owner):
        told = action.kind if dry_run and action.kind != "keep" else DONE[action.kind]
        doubles = (
            f", and {len(action.deleted)} double deleted" if action.kind == "keep" and action.deleted else ""
        )
        if not dry_run:
            with explained(profile):
                # What may fail comes before the old one goes; the new one comes after, as both would run.
                new = _uploaded(client, profile, wanted[action.name]) if action.kind in NEW else None
                for identity in action.deleted:
                    _delete(client, identity)
                if new:
                    client.create_recurring_run(**new)
        yield f"{action.name}: {told}{doubles}"


def delete(client: Any, profile: Profile, name: str) -> Iterator[str]:
    """Delete a schedule of ours, all of its name. Raises InputError for one that is not there or not ours."""
    found = entries(client, profile)
    ours = [entry for entry in found if entry.owner and entry.name == name]
    if not ours:
        if any(entry.name == name for entry in found):
            raise InputError(
                f"recurring run {name} is of no file of schedules: delete it in Kubeflow's pages"
            )
        raise InputError(
            f"there is no schedule {name!r}{nearest(name, sorted({e.name for e in found if e.owner}))}"
        )
    with explained(profile):
        for entry in ours:
            _delete(client, entry.id)
    yield f"{name}: deleted"


def _delete(client: Any, identity: str) -> None:
    from kfp_server_api import ApiException

    try:
        client.delete_recurring_run(identity)
    except ApiException as error:
        if error.status != 404:  # gone is what was wanted
            raise


def _uploaded(client: Any, profile: Profile, wanted: Wanted) -> dict[str, Any]:
    """Upload a schedule's pipeline; what its recurring run is made with."""
    pipeline, version = submission.upload(client, wanted.package)
    return {
        "experiment_id": submission.experiment_of(client, profile).experiment_id,
        "job_name": wanted.schedule.name,
        "description": wanted.description,
        "cron_expression": wanted.schedule.cron,
        "max_concurrency": 1,
        "no_catchup": True,
        "params": submission.arguments(wanted.run, wanted.store),
        "pipeline_id": pipeline,
        "version_id": version,
        "enabled": wanted.schedule.enabled,
        "pipeline_root": profile.pipeline_root,
        "service_account": wanted.config.kubeflow.service_account,
    }
