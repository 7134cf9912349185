"""Submissions: requests that are checked before Kubeflow is contacted, and compiled for its version."""

import contextlib
import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from multiview import environment, names
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore, Store, open_store
from multiview.config import Config, text_sha256
from multiview.config.overrides import flatten
from multiview.data.reading.beir import is_beir
from multiview.errors import InputError
from multiview.plans.plan import Node, Output, Plan
from multiview.plans.pod_settings import check_gpus
from multiview.plans.request import Request, describe
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState, write_run, write_state
from pipelines.kubeflow.versions import takes
from pipelines.runs.local import found_states

READ_SECONDS = 20.0
"""Seconds within which a store must answer to count as readable from here."""
FILES = (
    "corpus.source", "questions.source", "questions.dev_source", "refresh.model", "make_questions.llm.prompt"
)  # fmt: skip
"""Settings that name files, folders and artifacts."""
MODELS = ("model.base", "train.model", "generation.model", "mining.cross_encoder", "search.rerank")
"""Settings that name models; a name without a protocol may be a hub's."""

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
"""Bytes of an empty workflow, and per byte of the compiled pipeline: each task is in it twice, as text within text.
Derived from KFP 2.17.0's example workflows and their pipelines, and from ours; 3% above what Argo 4.0.5 measured for a
comparison of 20 systems."""

STATUS_SIZE = 6_000
"""Bytes of packed status per step, and per shard of a step, as computed: six Argo nodes with KFP 2.17, twelve for a
shard, in the order of their hashes, most with the whole command of the step's pod, addresses and digests."""


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
    """A checked run, ready to be compiled for a server and started."""

    run: Run
    store: str
    request: Request
    checked: float = field(default_factory=time.time)
    """When it was checked, in seconds since 1970. Existing steps are found after that."""
    pages: str | None = None
    """The address of Kubeflow's pages for links in notices, unless the settings name one. It is not part of `run`: a
    run or schedule must not depend on the machine that submits it."""

    @property
    def config(self) -> Config:
        return self.request.config

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the compiled pipeline."""
        run = self.run
        if self.pages:
            notify = {"kubeflow": self.pages, **run.config.get("notify", {})}
            run = run.model_copy(update={"config": {**run.config, "notify": notify}})
        return {"store": self.store, "described": run.model_dump_json()}

    def found(self) -> dict[StepPath, StepState]:
        """Returns the states of the steps whose outputs the store has, and writes these states into it. If the store
        cannot be read and written from here, returns none unless every step was found."""
        found: dict[StepPath, StepState] = {}
        with contextlib.suppress(Exception):
            if (store := readable(self.store)) and (found := found_states(self.request.plan, store)):
                write_run(store, self.run)
                for state in found.values():
                    write_state(store, self.run.id, state)
            return found
        return found if len(found) == len(self.run.steps) else {}

    def rest(self, found: Mapping[StepPath, StepState]) -> Self:
        """Returns the submission of the same run without the steps, and the shards of steps, that are `found`."""
        plan = self.request.plan
        nodes = {}
        for path, node in plan.nodes.items():
            states = [found.get(each) for each in node.paths()]
            if all(states):
                continue
            nodes[path] = node
            if any(states):
                first = node.step.outputs[0]
                there = tuple(state and state.outputs[first].address for state in states)
                missing = [shard for shard, state in zip(node.shards, states, strict=True) if not state]
                nodes[path] = replace(node, shards=tuple(missing), there=there)

        def made(_: Node, source: Output) -> list[Reference]:
            return [found[path].outputs[source.kind] for path in plan.nodes[source.path].paths()]

        left_out = tuple(str(path) for path in plan.paths() if path in found)
        return replace(self, request=replace(self.request, plan=plan.part(nodes, made), there=left_out))

    def compiled(self, tag: str) -> Package:
        """Compiles the pipeline, whose runs' default is the store, with the defaults that a server of this version
        accepts. Raises InputError for invalid pod settings."""
        from pipelines.kubeflow.compile import compile_request
        from pipelines.kubeflow.pods import TAKES_POLICY

        given = {"run_as_non_root": True} | ({"retry_policy": "Always"} if TAKES_POLICY else {})
        taken = {name: value for name, value in given.items() if takes(tag, name)}
        request = self.request.over({"kubeflow": taken}) if taken else self.request
        with tempfile.TemporaryDirectory() as folder:
            file = compile_request(request, Path(folder) / "pipeline.yaml", self.store)
            text = file.read_text(encoding="utf-8")
        name = request.plan.name
        return Package(f"multiview-{name}", f"{name}-{text_sha256(text)[:12]}", text)

    def package(self, tag: str) -> Package:
        """Compiles a pipeline that is about to be sent. Raises InputError for a run that is too large for Argo."""
        made, schedule = self.compiled(tag), self.request.schedule
        size = estimate_size(made.text, self.request.plan)
        given = os.environ.get(environment.WORKFLOW_LIMIT) or str(2**20)
        if not given.isdecimal():
            raise InputError(
                f"{environment.WORKFLOW_LIMIT}: {given!r} is no number of bytes, such as {2**20}"
            )
        limit = int(given)
        if size > limit:
            raise InputError(
                f"{f'schedule {schedule}: ' if schedule else ''}this run would be a workflow of about {size / 2**20:.1f} MB, "
                f"and Argo takes {limit / 2**20:.1f} (its {environment.WORKFLOW_LIMIT}, which may be set here too): "
                f"{self._way_out(size // limit + 2)}"
            )
        return made

    def _way_out(self, parts: int) -> str:
        """Returns the end of an error line about a run that is too large for Argo, but whose `parts` should fit."""
        request, systems = self.request, len(self.config.comparison.systems)
        if request.plan.name != "comparison" or systems < 2:
            return "set a smaller corpus.shards"
        if parts > systems or request.part or request.schedule or request.rerun_of:
            return "set a smaller corpus.shards, or compare fewer systems at a time"
        return (
            f"give the same command with each of --part 1/{parts} to --part {parts}/{parts}, then join their runs by "
            f"python -m pipelines compare RUN RUN --store {self.store}"
        )


def prepare(request: Request, store: str | None, pages: str | None = None) -> Submission:
    """Checks a request as far as this machine can. Raises InputError for what a cluster could not run."""
    opened = open_store(check_store(store))
    check_sources(request.plan)
    check_devices(request.plan, request.config)
    return Submission(describe(request, opened), opened.url, request, pages=pages)


def readable(url: str) -> Store | None:
    """Returns a store if it can be read from here within seconds: libraries try for minutes if no bucket answers."""
    read: list[Store] = []

    def look() -> None:
        with contextlib.suppress(Exception):
            store = open_store(url)
            store.folders(names.RUNS)
            read.append(store)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(READ_SECONDS)
    return read[0] if read else None


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
        for name, given in flatten(json.loads(node.config)):
            for address in given if isinstance(given, list) else [given]:
                if address and name in FILES + MODELS and _is_local(str(address), name in FILES):
                    raise InputError(
                        f"{name}: {address} is on this machine, which no pod reaches: copy it to a bucket and "
                        "give its URL"
                    )


def _is_local(address: str, always_file: bool) -> bool:
    protocol, separator, _ = address.partition("://")
    if is_beir(address):
        return False
    if separator:
        return protocol in ("file", "local")
    return always_file or Path(address).expanduser().exists()


def check_devices(plan: Plan, config: Config) -> None:
    """Raises InputError for missing image names, and for pods whose GPUs do not suit their steps' settings."""
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
    """Returns the bytes that a compiled pipeline's run will need as a workflow once all of its steps are done."""
    steps = sum(max(len(node.shards), 1) for node in plan.nodes.values())
    return round(WORKFLOW_SIZE + SIZE_PER_BYTE * len(compiled.encode()) + STATUS_SIZE * steps)
