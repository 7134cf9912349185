"""From a plan to a run on Kubeflow: everything is checked here, then compiled, uploaded and started."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore, open_store
from multiview.config import Config
from multiview.errors import InputError
from multiview.steps.runs import Run
from pipelines.kubeflow.client import ENDED, explained, named, pages
from pipelines.kubeflow.connection import Connection
from pipelines.kubeflow.images import check_images
from pipelines.plans.plan import Plan

PLACES_READ = {
    "corpus": ("source",),
    "questions": ("source", "dev_source"),
    "model": ("base",),
    "train": ("model",),
    "generation": ("model",),
    "mining": ("cross_encoder",),
}
"""Settings that say where something is read from, by section."""

ALWAYS_FILES = {"corpus", "questions"}
"""Sections whose sources without a protocol are files; elsewhere such a name may be a hub's."""


@dataclass(frozen=True)
class Package:
    """A compiled pipeline, ready to upload."""

    pipeline: str
    """Name of the pipeline in KFP."""
    version: str
    """Name of the pipeline's version: by content, so that the same thing is the same version."""
    text: str


def check(plan: Plan, config: Config, store: str | None) -> str:
    """The store, if a plan can run on a cluster as far as it can be told here. Raises InputError."""
    checked = check_store(store)
    check_sources(plan)
    check_devices(plan, config)
    return checked


def package(plan: Plan, config: Config) -> Package:
    """Compile a plan. Raises InputError for settings of pods that cannot be had."""
    from pipelines.kubeflow.compile import compile_plan

    with tempfile.TemporaryDirectory() as folder:
        text = compile_plan(plan, Path(folder) / "pipeline.yaml", config).read_text(encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Package(f"multiview-{plan.name}", f"{plan.name}-{digest}", text)


def check_store(store: str | None) -> str:
    """The store's address. Raises InputError for none, and for one that pods do not reach."""
    way_out = "give --store gs://BUCKET/PREFIX or s3://BUCKET/PREFIX (MULTIVIEW_STORE)"
    if store is None:
        raise InputError(f"a run on Kubeflow needs a store that its pods reach: {way_out}")
    if isinstance(open_store(store), LocalStore):
        raise InputError(f"store {store} is a folder of this machine, which no pod reaches: {way_out}")
    if not store.partition("://")[2].strip("/"):
        raise InputError(f"store {store} names no bucket: {way_out}")
    return store


def check_sources(plan: Plan) -> None:
    """Raises InputError for what a plan reads from this machine."""
    for node in plan.nodes.values():
        for _, source in node.sources():
            if isinstance(source, Reference) and _is_here(source.address, always_file=True):
                raise InputError(
                    f"{node.path} reads {source.address}, a folder of this machine that no pod reaches"
                )
        for section, values in json.loads(node.config).items():
            for name in PLACES_READ.get(section, ()):
                for place in _listed(values.get(name)):
                    if _is_here(place, section in ALWAYS_FILES):
                        raise InputError(
                            f"{section}.{name}: {place} is on this machine, which no pod reaches: copy it to "
                            "a bucket and give its URL"
                        )


def _listed(value: Any) -> Iterable[str]:
    return value if isinstance(value, list) else [value] if value else []


def _is_here(place: str, always_file: bool) -> bool:
    protocol, separator, _ = place.partition("://")
    if separator:
        return protocol in ("file", "local")
    return always_file or Path(place).expanduser().exists()


def check_devices(plan: Plan, config: Config) -> None:
    """Raises InputError for images that are not named, and for a step that wants GPUs without having them."""
    from pipelines.kubeflow.pods import Pods

    pods = Pods(config)
    needed = {False}
    for node in plan.nodes.values():
        if not node.step.gpu:
            continue
        settings, gpus = json.loads(node.config), pods.of(node.step.name).gpus
        if gpus:
            needed.add(True)
            processes = settings["train"].get("processes") if node.step.multi_node else None
            if processes and processes > gpus:
                raise InputError(
                    f"{node.path}: train.processes={processes} needs a GPU for each, and its pod has {gpus}: set "
                    f"kubeflow.steps.{node.step.name}.gpus={processes}, or fewer processes"
                )
        elif wish := _gpu_wish(settings):
            raise InputError(
                f"{node.path}: {wish} needs a GPU, and its pod has none: set kubeflow.gpu.gpus=1, or another "
                f"{wish.split('=')[0]}"
            )
    check_images(needed)


def _gpu_wish(settings: dict[str, Any]) -> str | None:
    """A setting that only a GPU can meet."""
    for section in ("encode", "generation"):
        device = str(settings.get(section, {}).get("device", ""))
        if device.startswith("cuda"):
            return f"{section}.device={device}"
    if settings.get("train", {}).get("precision") == "float16":
        return "train.precision=float16"
    return None


def experiment_of(client: Any, connection: Connection) -> Any:
    """The connection's experiment, made if it is not there."""
    from kfp_server_api import ApiException, V2beta1Experiment

    name, namespace = connection.experiment, client.get_user_namespace() or None

    def found() -> Any:
        known = pages(client.list_experiments, "experiments", namespace=namespace, filter=named(name))
        return known[0] if known else None

    if (experiment := found()) is not None:
        return experiment
    try:
        return client._experiment_api.experiment_service_create_experiment(
            experiment=V2beta1Experiment(display_name=name, namespace=namespace)
        )
    except ApiException as error:
        if error.status == 409 and (experiment := found()) is not None:
            return experiment
        raise


def upload(client: Any, package: Package) -> tuple[str, str]:
    """Ids of the pipeline and its version, uploaded unless they are there."""
    pipeline = _pipeline(client, package.pipeline)

    def known() -> str | None:
        return _known_version(client, pipeline, package.version)

    return pipeline, known() or _new_version(client, pipeline, package) or known() or ""


def _known_pipeline(client: Any, name: str) -> str | None:
    namespace = client.get_user_namespace() or None
    found = pages(client.list_pipelines, "pipelines", namespace=namespace, filter=named(name))
    return found[0].pipeline_id if found else None


def _known_version(client: Any, pipeline: str, name: str) -> str | None:
    found = pages(
        client.list_pipeline_versions, "pipeline_versions", pipeline_id=pipeline, filter=named(name)
    )
    return found[0].pipeline_version_id if found else None


def _pipeline(client: Any, name: str) -> str:
    from kfp_server_api import ApiException, V2beta1Pipeline

    if identity := _known_pipeline(client, name):
        return identity
    # By display name alone: servers before 2.14 refuse a body with `name`.
    wanted = V2beta1Pipeline(display_name=name, namespace=client.get_user_namespace() or None)
    try:
        return client._pipelines_api.pipeline_service_create_pipeline(pipeline=wanted).pipeline_id
    except ApiException as error:
        if error.status == 409 and (identity := _known_pipeline(client, name)):
            return identity
        raise


def _new_version(client: Any, pipeline: str, package: Package) -> str | None:
    """The new version's id; none if another has uploaded it just now."""
    from kfp_server_api import ApiException

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{package.version}.yaml"
        file.write_text(package.text, encoding="utf-8")
        try:
            made = client._upload_api.upload_pipeline_version(
                str(file), name=package.version, pipelineid=pipeline
            )
        except ApiException as error:
            if error.status == 409:
                return None
            raise
    return made.pipeline_version_id


def start(
    client: Any, connection: Connection, package: Package, run: Run, store: str, config: Config
) -> tuple[Any, str]:
    """KFP's run of `run`, and in words whether it is new: one that is still going into the same store is not
    started a second time, whatever its experiment.

    Raises InputError for what Kubeflow refuses.
    """
    with explained(connection):
        import kfp_server_api as api

        given = arguments(run, store)
        # Of a namespace: a run writes into the same store whichever experiment shows it.
        namespace = client.get_user_namespace() or None
        for other in pages(client.list_runs, "runs", namespace=namespace, filter=named(run.id)):
            if other.state not in ENDED and _store_of(other) == given["store"]:
                return other, _going(client, package, other)
        experiment = experiment_of(client, connection).experiment_id
        pipeline, version = upload(client, package)
        wanted = api.V2beta1Run(
            experiment_id=experiment,
            display_name=run.id,
            pipeline_version_reference=api.V2beta1PipelineVersionReference(
                pipeline_id=pipeline, pipeline_version_id=version
            ),
            runtime_config=api.V2beta1RuntimeConfig(parameters=given, pipeline_root=connection.pipeline_root),
            service_account=config.kubeflow.service_account,
        )
        return client._run_api.run_service_create_run(run=wanted), "started"


def _store_of(kfp_run: Any) -> str | None:
    parameters = kfp_run.runtime_config and kfp_run.runtime_config.parameters
    return (parameters or {}).get("store")


def _going(client: Any, package: Package, kfp_run: Any) -> str:
    """Words for a run that is going: also that it is being cancelled, or of another version of the pipeline."""
    words = "is being cancelled" if kfp_run.state == "CANCELING" else "is going already"
    pipeline = _known_pipeline(client, package.pipeline)
    version = _known_version(client, pipeline, package.version) if pipeline else None
    used = kfp_run.pipeline_version_reference
    if version and used and used.pipeline_version_id == version:
        return words
    return f"{words}, with another version of the pipeline than {package.version}"


def arguments(run: Run, store: str) -> dict[str, str]:
    """The parameters of a compiled pipeline."""
    return {"store": open_store(store).url, "described": run.model_dump_json()}
