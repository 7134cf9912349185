"""Submissions: requests that are checked and compiled before Kubeflow is contacted."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore, open_store
from multiview.config import Config
from multiview.data.reading.beir import is_beir
from multiview.errors import InputError
from multiview.plans.description import describe
from multiview.plans.plan import Plan
from multiview.plans.pods import check_gpus
from multiview.plans.request import Request
from multiview.steps.runs import Run
from pipelines.kubeflow.images import check_images
from pipelines.kubeflow.workflow_size import warn_of_size

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


@dataclass(frozen=True)
class Package:
    """A compiled pipeline, ready to upload."""

    pipeline: str
    """The name of the pipeline in KFP."""
    version: str
    """The name of the pipeline's version: by content, so that the same pipeline is the same version."""
    text: str


@dataclass(frozen=True)
class Submission:
    """A run that is checked and compiled, ready to be started."""

    run: Run
    package: Package
    store: str
    """The URL of the store."""
    request: Request
    pages: str | None = None
    """The address of Kubeflow's pages that notices link to unless the settings name one. It is no part of `run`: where
    a person submits from changes neither the run nor a schedule."""

    @property
    def config(self) -> Config:
        return self.request.config

    def as_non_root(self) -> Submission:
        """Returns the submission to a server whose version takes `kubeflow.run_as_non_root`, compiled with it unless
        the settings say otherwise. The run is the same."""
        if self.config.kubeflow.run_as_non_root is not None:
            return self
        request = self.request.over({"kubeflow": {"run_as_non_root": True}})
        return replace(self, package=package(request, self.store), request=request)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the compiled pipeline."""
        run = self.run
        if self.pages:
            notify = {"kubeflow": self.pages, **run.config.get("notify", {})}
            run = run.model_copy(update={"config": {**run.config, "notify": notify}})
        return {"store": self.store, "described": run.model_dump_json()}


def prepare(request: Request, store: str | None, pages: str | None = None) -> Submission:
    """Checks a request as far as this machine can, and compiles it. Sends nothing.

    `pages` is that of the submission. Raises InputError for settings that a cluster would refuse, and for sources that
    do not exist.
    """
    opened = open_store(check_store(store))
    check_sources(request.plan)
    check_devices(request.plan, request.config)
    run, compiled = describe(request, opened), package(request, opened.url)
    warn_of_size(compiled.text, request.plan)
    return Submission(run, compiled, opened.url, request, pages)


def package(request: Request, store: str | None = None) -> Package:
    """Compiles the plan of a request, with `store` as the default of its runs.

    Raises InputError for invalid settings of pods.
    """
    from pipelines.kubeflow.compile import compile_request

    plan = request.plan
    with tempfile.TemporaryDirectory() as folder:
        text = compile_request(request, Path(folder) / "pipeline.yaml", store).read_text(encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Package(f"multiview-{plan.name}", f"{plan.name}-{digest}", text)


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
    for node in plan.nodes.values():
        for _, source in node.sources():
            if isinstance(source, Reference) and _is_local(source.address, always_file=True):
                raise InputError(
                    f"{node.path} reads {source.address}, a folder of this machine that no pod reaches"
                )
        for section, values in json.loads(node.config).items():
            for name in PLACES_READ.get(section, ()):
                for address in _listed(values.get(name)):
                    if _is_local(address, section in ALWAYS_FILES):
                        raise InputError(
                            f"{section}.{name}: {address} is on this machine, which no pod reaches: copy it to "
                            "a bucket and give its URL"
                        )


def _listed(value: str | list[str] | None) -> Iterable[str]:
    return value if isinstance(value, list) else [value] if value else []


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
    steps = {node.step.name for node in plan.nodes.values()}
    needed = {False, *(pods.pod(step).gpus > 0 for step in steps)}
    check_images(needed)
