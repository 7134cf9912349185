"""Starts a submission on Kubeflow: makes its experiment, its pipeline's version and its run."""

import contextlib
import io
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pipelines.kubeflow.client import ApiObject, Client, create_pipeline, explained, filter_of, list_all
from pipelines.kubeflow.connection import Connection
from pipelines.kubeflow.run_view import RunView, silence_of, store_of
from pipelines.kubeflow.submission import Package, Submission, readable


def going(
    client: Client, connection: Connection, submission: Submission, tag: str, again: bool = False
) -> tuple[ApiObject, str, Package] | None:
    """Returns Kubeflow's run of a submission that is still going into the same store, in any experiment, with words
    about it and the whole pipeline, so that it is not started twice. None if there is none, and with `again` if it has
    been silent for a while."""
    with explained(connection):
        # All experiments of the namespace: a run writes into the same store whichever experiment shows it.
        named = _named(client.list_runs, "runs", submission.run.id, namespace=_namespace(client))
        runs = [run for run in named if not RunView(run).ended and store_of(run) == submission.store]
        if not runs:
            return None
        other = max(runs, key=lambda run: run.created_at)
        silence, _ = silence_of(RunView(other), partial(readable, submission.store), submission)
        if again and silence:
            return None
        package = submission.compiled(tag)
        return other, _words(client, package, other) + (f"; {silence}" if silence else ""), package


def start(client: Client, connection: Connection, submission: Submission, package: Package) -> ApiObject:
    """Starts a submission and returns Kubeflow's run of it. Raises InputError if Kubeflow refuses. The rest of
    an earlier run is not uploaded as a version, which people could start from Kubeflow's pages."""
    with explained(connection), tempfile.TemporaryDirectory() as folder:
        if submission.request.there:
            file = Path(folder) / f"{package.version}.yaml"
            file.write_text(package.text, encoding="utf-8")
            source = {"pipeline_package_path": str(file)}
        else:
            source = dict(zip(("pipeline_id", "version_id"), upload(client, package), strict=True))
        return _quietly(
            client.run_pipeline,
            experiment_id=experiment_id(client, connection),
            job_name=submission.run.id,
            params=submission.parameters,
            pipeline_root=connection.pipeline_root,
            service_account=submission.config.kubeflow.service_account,
            **source,
        )


def _words(client: Client, package: Package, run: ApiObject) -> str:
    """Words about a run that is going, also if it is being cancelled or has another version of the pipeline."""
    words = "is being cancelled" if RunView(run).cancelled else "is going already"
    if (used := run.pipeline_version_reference) is None:  # it was started as the rest of an earlier run
        return words
    pipeline = _pipeline_id(client, package)
    if pipeline and _version_id(client, pipeline, package) == used.pipeline_version_id:
        return words
    return f"{words}, with another version of the pipeline than {package.version}"


def experiment_id(client: Client, connection: Connection) -> str:
    """Returns the id of the connection's experiment, made if there is none."""

    def make() -> str:
        made = _quietly(client.create_experiment, connection.experiment, namespace=_namespace(client))
        return made.experiment_id

    return _made(make, make)  # KFP's method looks for it first


def upload(client: Client, package: Package) -> tuple[str, str]:
    """Returns the ids of a package's pipeline and version; uploads them unless they exist already."""

    def make_version() -> str:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{package.version}.yaml"
            file.write_text(package.text, encoding="utf-8")
            made = _quietly(client.upload_pipeline_version, str(file), package.version, pipeline_id=pipeline)
        return made.pipeline_version_id

    find_pipeline = partial(_pipeline_id, client, package)
    make_pipeline = partial(create_pipeline, client, package.pipeline, _namespace(client))
    pipeline = find_pipeline() or _made(make_pipeline, find_pipeline)
    find_version = partial(_version_id, client, pipeline, package)
    return pipeline, find_version() or _made(make_version, find_version)


def _made(make: Callable[[], str], find: Callable[[], str | None]) -> str:
    """Returns the id of what `make` makes, or `find` finds if somebody else has just made it."""
    from kfp_server_api import ApiException

    try:
        return make()
    except ApiException as error:
        if error.status == 409 and (identity := find()):
            return identity
        raise


def _quietly(call: Callable[..., ApiObject], *words: str, **options: object) -> ApiObject:
    """Calls a method of KFP's client without the link that it prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return call(*words, **options)


def _pipeline_id(client: Client, package: Package) -> str | None:
    found = _named(client.list_pipelines, "pipelines", package.pipeline, namespace=_namespace(client))
    return found[0].pipeline_id if found else None


def _version_id(client: Client, pipeline: str, package: Package) -> str | None:
    found = _named(client.list_pipeline_versions, "pipeline_versions", package.version, pipeline_id=pipeline)
    return found[0].pipeline_version_id if found else None


def _named(
    list_page: Callable[..., ApiObject], attribute: str, name: str, **query: object
) -> list[ApiObject]:
    """Returns the objects of a name, listed by `list_page` in the `attribute` of its pages."""
    return list_all(list_page, attribute, filter=filter_of("display_name", name), **query)


def _namespace(client: Client) -> str | None:
    return client.get_user_namespace() or None
