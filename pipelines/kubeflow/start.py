"""Starting a submission on Kubeflow: its experiment, its pipeline's version, its run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.kubeflow.client import (
    ENDED,
    ApiObject,
    api_client,
    display_name_filter,
    explained,
    list_all,
)
from pipelines.kubeflow.connection import Connection
from pipelines.kubeflow.submission import Package, Submission

if TYPE_CHECKING:
    from kfp.client import Client


def start(
    client: Client, connection: Connection, submission: Submission, package: Package
) -> tuple[ApiObject, str]:
    """Returns Kubeflow's run of a submission, and in words whether it is new.

    A run that is still going into the same store is not started a second time, whatever its experiment.
    Raises InputError for what Kubeflow refuses.
    """
    with explained(connection):
        import kfp_server_api as api

        run = submission.run
        # All experiments of the namespace: a run writes into the same store whichever experiment shows it.
        for other in _named(client, client.list_runs, "runs", run.id):
            if other.state not in ENDED and _store_of(other) == submission.store:
                return other, _going(client, package, other)
        pipeline, version = upload(client, package)
        wanted = api.V2beta1Run(
            experiment_id=experiment_id(client, connection),
            display_name=run.id,
            pipeline_version_reference=api.V2beta1PipelineVersionReference(
                pipeline_id=pipeline, pipeline_version_id=version
            ),
            runtime_config=api.V2beta1RuntimeConfig(
                parameters=submission.parameters, pipeline_root=connection.pipeline_root
            ),
            service_account=submission.config.kubeflow.service_account,
        )
        return api.RunServiceApi(api_client(client)).run_service_create_run(run=wanted), "started"


def _store_of(run: ApiObject) -> str | None:
    parameters = run.runtime_config and run.runtime_config.parameters
    return (parameters or {}).get("store")


def _going(client: Client, package: Package, run: ApiObject) -> str:
    """Words for a run that is going: also that it is being cancelled, or has another version of the pipeline."""
    words = "is being cancelled" if run.state == "CANCELING" else "is going already"
    pipeline = _pipeline_id(client, package.pipeline)
    version = _version_id(client, pipeline, package.version) if pipeline else None
    used = run.pipeline_version_reference
    if version and used and used.pipeline_version_id == version:
        return words
    return f"{words}, with another version of the pipeline than {package.version}"


def experiment_id(client: Client, connection: Connection) -> str:
    """Returns the id of the connection's experiment, made if there is none."""
    import kfp_server_api as api

    name = connection.experiment

    def find() -> str | None:
        found = _named(client, client.list_experiments, "experiments", name)
        return found[0].experiment_id if found else None

    def make() -> str:
        wanted = api.V2beta1Experiment(display_name=name, namespace=_namespace(client))
        experiments = api.ExperimentServiceApi(api_client(client))
        made: ApiObject = experiments.experiment_service_create_experiment(experiment=wanted)
        return made.experiment_id

    return _found_or_made(find, make)


def upload(client: Client, package: Package) -> tuple[str, str]:
    """Returns the ids of a package's pipeline and version, uploaded unless they are known already."""
    import kfp_server_api as api

    def make_pipeline() -> str:
        # By display name alone: servers before 2.14 refuse a body with `name`.
        wanted = api.V2beta1Pipeline(display_name=package.pipeline, namespace=_namespace(client))
        pipelines = api.PipelineServiceApi(api_client(client))
        made: ApiObject = pipelines.pipeline_service_create_pipeline(pipeline=wanted)
        return made.pipeline_id

    pipeline = _found_or_made(lambda: _pipeline_id(client, package.pipeline), make_pipeline)

    def make_version() -> str:
        uploads = api.PipelineUploadServiceApi(api_client(client))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{package.version}.yaml"
            file.write_text(package.text, encoding="utf-8")
            made: ApiObject = uploads.upload_pipeline_version(
                str(file), name=package.version, pipelineid=pipeline
            )
        return made.pipeline_version_id

    return pipeline, _found_or_made(lambda: _version_id(client, pipeline, package.version), make_version)


def _found_or_made(find: Callable[[], str | None], make: Callable[[], str]) -> str:
    """Returns the id of what is found, else made; found again where somebody else has made it just now."""
    from kfp_server_api import ApiException

    if identity := find():
        return identity
    try:
        return make()
    except ApiException as error:
        if error.status == 409 and (identity := find()):
            return identity
        raise


def _pipeline_id(client: Client, name: str) -> str | None:
    found = _named(client, client.list_pipelines, "pipelines", name)
    return found[0].pipeline_id if found else None


def _version_id(client: Client, pipeline: str, name: str) -> str | None:
    found = list_all(
        client.list_pipeline_versions,
        "pipeline_versions",
        pipeline_id=pipeline,
        filter=display_name_filter(name),
    )
    return found[0].pipeline_version_id if found else None


def _named(client: Client, list_page: Callable[..., ApiObject], attribute: str, name: str) -> list[ApiObject]:
    """Returns the objects of a name in the client's namespace."""
    return list_all(list_page, attribute, namespace=_namespace(client), filter=display_name_filter(name))


def _namespace(client: Client) -> str | None:
    return client.get_user_namespace() or None
