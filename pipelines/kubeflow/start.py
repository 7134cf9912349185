"""Starting a submission on Kubeflow: its experiment, its pipeline's version, its run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.kubeflow.client import ENDED, ApiObject, display_name_filter, explained, list_all
from pipelines.kubeflow.connection import Connection
from pipelines.kubeflow.submission import Package, Submission

if TYPE_CHECKING:
    from kfp.client import Client


def start(client: Client, connection: Connection, submission: Submission) -> tuple[ApiObject, str]:
    """Returns Kubeflow's run of a submission, and in words whether it is new.

    A run that is still going into the same store is not started a second time, whatever its experiment.
    Raises InputError for what Kubeflow refuses.
    """
    with explained(connection):
        import kfp_server_api as api

        package, run = submission.package, submission.run
        # All experiments of the namespace: a run writes into the same store whichever experiment shows it.
        namespace = client.get_user_namespace() or None
        for other in list_all(
            client.list_runs, "runs", namespace=namespace, filter=display_name_filter(run.id)
        ):
            if other.state not in ENDED and _store_of(other) == submission.store:
                return other, _going(client, package, other)
        experiment = find_experiment(client, connection)
        pipeline, version = upload(client, package)
        wanted = api.V2beta1Run(
            experiment_id=experiment.experiment_id,
            display_name=run.id,
            pipeline_version_reference=api.V2beta1PipelineVersionReference(
                pipeline_id=pipeline, pipeline_version_id=version
            ),
            runtime_config=api.V2beta1RuntimeConfig(
                parameters=submission.parameters, pipeline_root=connection.pipeline_root
            ),
            service_account=submission.config.kubeflow.service_account,
        )
        return client._run_api.run_service_create_run(run=wanted), "started"


def _store_of(run: ApiObject) -> str | None:
    parameters = run.runtime_config and run.runtime_config.parameters
    return (parameters or {}).get("store")


def _going(client: Client, package: Package, run: ApiObject) -> str:
    """Words for a run that is going: also that it is being cancelled, or has another version of the pipeline."""
    words = "is being cancelled" if run.state == "CANCELING" else "is going already"
    pipeline = _known_pipeline(client, package.pipeline)
    version = _known_version(client, pipeline, package.version) if pipeline else None
    used = run.pipeline_version_reference
    if version and used and used.pipeline_version_id == version:
        return words
    return f"{words}, with another version of the pipeline than {package.version}"


def find_experiment(client: Client, connection: Connection) -> ApiObject:
    """Returns the connection's experiment, made if there is none."""
    from kfp_server_api import ApiException, V2beta1Experiment

    name, namespace = connection.experiment, client.get_user_namespace() or None

    def look_up() -> ApiObject | None:
        experiments = list_all(
            client.list_experiments, "experiments", namespace=namespace, filter=display_name_filter(name)
        )
        return experiments[0] if experiments else None

    if experiment := look_up():
        return experiment
    try:
        return client._experiment_api.experiment_service_create_experiment(
            experiment=V2beta1Experiment(display_name=name, namespace=namespace)
        )
    except ApiException as error:
        if error.status == 409 and (experiment := look_up()):
            return experiment
        raise


def upload(client: Client, package: Package) -> tuple[str, str]:
    """Returns the ids of a package's pipeline and version, uploaded unless they are known already."""
    pipeline = _pipeline(client, package.pipeline)

    def look_up() -> str | None:
        return _known_version(client, pipeline, package.version)

    return pipeline, look_up() or _new_version(client, pipeline, package) or look_up() or ""


def _known_pipeline(client: Client, name: str) -> str | None:
    namespace = client.get_user_namespace() or None
    pipelines = list_all(
        client.list_pipelines, "pipelines", namespace=namespace, filter=display_name_filter(name)
    )
    return pipelines[0].pipeline_id if pipelines else None


def _known_version(client: Client, pipeline: str, name: str) -> str | None:
    versions = list_all(
        client.list_pipeline_versions,
        "pipeline_versions",
        pipeline_id=pipeline,
        filter=display_name_filter(name),
    )
    return versions[0].pipeline_version_id if versions else None


def _pipeline(client: Client, name: str) -> str:
    """The id of the pipeline, made if there is none."""
    from kfp_server_api import ApiException, V2beta1Pipeline

    if identity := _known_pipeline(client, name):
        return identity
    # By display name alone: servers before 2.14 refuse a body with `name`.
    wanted = V2beta1Pipeline(display_name=name, namespace=client.get_user_namespace() or None)
    try:
        made: ApiObject = client._pipelines_api.pipeline_service_create_pipeline(pipeline=wanted)
        return made.pipeline_id
    except ApiException as error:
        if error.status == 409 and (identity := _known_pipeline(client, name)):
            return identity
        raise


def _new_version(client: Client, pipeline: str, package: Package) -> str | None:
    """The new version's id; None if somebody else has uploaded it just now."""
    from kfp_server_api import ApiException

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{package.version}.yaml"
        file.write_text(package.text, encoding="utf-8")
        try:
            version: ApiObject = client._upload_api.upload_pipeline_version(
                str(file), name=package.version, pipelineid=pipeline
            )
        except ApiException as error:
            if error.status == 409:
                return None
            raise
    return version.pipeline_version_id
