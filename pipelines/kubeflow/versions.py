"""Supported versions of Kubeflow Pipelines, and the check of a server's version."""

import json
import re
from collections.abc import Collection

from multiview.errors import InputError
from pipelines.kubeflow.client import Client, healthz

VERSIONS = ("2.14", "2.15", "2.16", "2.17", "2.18")
"""The supported minor versions, oldest first; docs/cluster.md says what belongs to each."""
SINCE = {"run_as_non_root": "2.16", "retry_policy": "2.18"}
"""Settings of `kubeflow` that make a pipeline that earlier versions refuse, with the first version that accepts it."""
RELEASE_TAG = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-?(?:alpha|beta|rc)[.\d]*)?")
"""A tag of kubeflow/pipelines itself; distributions have their own, and a build from a branch has the branch's name."""
NO_TAGS = ("", "unknown")
"""The tags of a build without a version, such as KFP's own images before 2.16."""


def server_tag(client: Client) -> tuple[str, bool]:
    """Returns the API server's tag, empty if it names none, and whether it says where it keeps pipelines."""
    # KFP's class of the answer has no field for the tag.
    answer = json.loads(healthz(client, _preload_content=False).data)
    return answer.get("tag_name") or "", "pipeline_store" in answer


def check_version(tag: str, given: Collection[str] = (), *, pipeline_store: bool = True) -> str | None:
    """Returns a warning for an unknown version, None for a supported one. Servers since 2.14 say where they keep
    pipelines (`pipeline_store`), which identifies older ones whose images have no tag. Raises InputError for a version
    that is too old, or that refuses one of the `given` settings of SINCE."""
    oldest, newest, version = VERSIONS[0], VERSIONS[-1], version_of(tag)
    known = f"pipelines are made for {oldest} to {newest}"
    too_old = version < _numbers(oldest) if version else not pipeline_store
    if too_old:
        named = f"Kubeflow Pipelines {tag}" if version else "this Kubeflow Pipelines"
        raise InputError(f"{named} is older than {oldest}, and would not run this: upgrade it; {known}")
    if not version:
        if tag not in NO_TAGS:
            return f"Kubeflow Pipelines does not say its version ({tag}); {known}"
        refused = " and ".join(f"one before {SINCE[name]} refuses kubeflow.{name}" for name in sorted(given))
        return f"this Kubeflow Pipelines does not say its version: {refused}" if refused else None
    if refused := [name for name in sorted(given) if not takes(tag, name)]:
        raise InputError(
            f"Kubeflow Pipelines {tag} refuses kubeflow.{refused[0]}, which {SINCE[refused[0]]} and later take: leave "
            "it out, or upgrade Kubeflow Pipelines"
        )
    if version > _numbers(newest):
        return f"Kubeflow Pipelines {tag} is newer than what is known here; {known}"
    return None


def takes(tag: str, setting: str) -> bool:
    """Whether a server is known, by its tag, to accept pipelines with a setting of SINCE."""
    return version_of(tag) >= _numbers(SINCE[setting])


def version_of(tag: str) -> tuple[int, ...]:
    """Returns the minor version that a tag names; empty for one that names none."""
    match = RELEASE_TAG.fullmatch(tag)
    return (int(match[1]), int(match[2])) if match else ()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
