"""What a run on Kubeflow is checked for before Kubeflow is contacted: its store, sources, images, devices and size."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from multiview import environment
from multiview.artifacts.store import LocalStore, open_store
from multiview.config import Config
from multiview.data.reading.beir import is_beir
from multiview.errors import InputError
from multiview.plans.plan import Plan
from multiview.plans.pod_settings import check_gpus

PLACES_READ = {
    "corpus": ("source",),
    "questions": ("source", "dev_source"),
    "model": ("base",),
    "train": ("model",),
    "generation": ("model",),
    "mining": ("cross_encoder",),
}
"""Settings that name sources, by section."""

ALWAYS_FILES = {"corpus", "questions"}
"""Sections whose sources without a protocol are files; elsewhere such a name may be a hub's."""

IMAGE_VARIABLES = {False: environment.CPU_IMAGE, True: environment.GPU_IMAGE}
"""The environment variable that names the image of CPU steps (False) or GPU steps (True)."""

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_WORDS = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REFERENCE = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?/)?{_WORDS}(?:/{_WORDS})*"
    r"(?::[A-Za-z0-9_][\w.-]{0,127})?(?:@[A-Za-z][\w+.-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
"""[HOST[:PORT]/]PATH[:TAG][@DIGEST], as container registries define it (github.com/distribution/reference)."""

WORKFLOW_SIZE, SIZE_PER_BYTE = 35_000, 1.17
"""Bytes of a workflow of KFP's, and bytes of it per byte of the compiled pipeline: a task is in it twice, as text in
text. From the workflows that KFP 2.17.0 keeps beside the pipelines that they were compiled from, and ours; 3% above what
Argo 4.0.5 has measured of a comparison of 20 systems."""

STATUS_SIZE = 6_000
"""Bytes of packed status per step, and per shard of a step, as computed: six nodes of Argo's with KFP 2.17, twelve of a
shard, in the order of their hashes, most with the whole command of the step's pod, addresses and digests."""


def check_store(store: str | None) -> str:
    """Returns the store's address. Raises InputError for a missing address, and for a store that pods do not reach."""
    way_out = "give --store gs://BUCKET/PREFIX or s3://BUCKET/PREFIX (MULTIVIEW_STORE)"
    if store is None:
        raise InputError(f"a run on Kubeflow needs a store that its pods reach: {way_out}")
    if isinstance(open_store(store), LocalStore):
        raise InputError(f"store {store} is a folder of this machine, which no pod reaches: {way_out}")
    if not store.partition("://")[2].strip("/"):
        raise InputError(f"store {store} names no bucket: {way_out}")
    return store


def check_sources(plan: Plan) -> None:
    """Raises InputError for sources of a plan that only this machine can read."""
    for node, _, source in plan.artifacts():
        if _is_local(source.address, always_file=True):
            raise InputError(
                f"{node.path} reads {source.address}, a folder of this machine that no pod reaches"
            )
    for node in plan.nodes.values():
        for section, values in json.loads(node.config).items():
            for name in PLACES_READ.get(section, ()):
                given = values.get(name) or []
                for address in given if isinstance(given, list) else [given]:
                    if _is_local(address, section in ALWAYS_FILES):
                        raise InputError(
                            f"{section}.{name}: {address} is on this machine, which no pod reaches: copy it to "
                            "a bucket and give its URL"
                        )


def _is_local(address: str, always_file: bool) -> bool:
    protocol, separator, _ = address.partition("://")
    if is_beir(address):
        return False
    if separator:
        return protocol in ("file", "local")
    return always_file or Path(address).expanduser().exists()


def check_devices(plan: Plan, config: Config) -> None:
    """Raises InputError for missing names of images, and for pods with other GPUs than their steps' settings need."""
    from pipelines.kubeflow.pods import Pods

    pods = Pods(config)
    check_gpus(plan, config)
    check_images({False, *(pods.pod(node.step.name).gpus > 0 for node in plan.nodes.values())})


def check_images(needed: Iterable[bool]) -> None:
    """Raises InputError for a missing or invalid image name. `needed` holds keys of IMAGE_VARIABLES."""
    for gpu in sorted(needed):
        kind, variable = "gpu" if gpu else "cpu", IMAGE_VARIABLES[gpu]
        image, example = os.environ.get(variable), f"{variable}=REGISTRY/multiview-{kind}@sha256:DIGEST"
        if not image:
            raise InputError(
                f"the image of {kind.upper()} steps is not named: set {variable}, as in {example}"
            )
        if not REFERENCE.fullmatch(image):
            raise InputError(f"{variable}: {image!r} is no name of an image; it is like {example}")


def estimate_size(compiled: str, plan: Plan) -> int:
    """Returns the bytes that a run of a compiled pipeline will need as a workflow, all of its steps done."""
    steps = sum(max(len(node.shards), 1) for node in plan.nodes.values())
    return round(WORKFLOW_SIZE + SIZE_PER_BYTE * len(compiled.encode()) + STATUS_SIZE * steps)
