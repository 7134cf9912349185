"""The connection to the cluster for trainings on several nodes, and what it has of Kubeflow Trainer."""

from __future__ import annotations

import os
import sys
from typing import Any, TypeAlias

from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from multiview import environment, names
from multiview.config import JsonObject
from multiview.errors import InputError, one_line
from multiview.steps.backends.trainjob import GROUP, VERSION

KubernetesObject: TypeAlias = Any
"""An object, a result or an error of Kubernetes's generated client, which is not typed."""

RETRY = Retry(total=6, backoff_factor=1, status_forcelist=(429, 500, 502, 503, 504))

NOT_INSTALLED = "install Kubeflow Trainer, or set nodes to 1"
TOO_OLD = (
    "the cluster's Kubeflow Trainer knows no runtimePatches, so its pods would be on any node, without their account: "
    "install 2.2 or later, or set nodes to 1"
)


def api_client() -> KubernetesObject:
    """Returns a client of the cluster that this process is in, or that its kubeconfig names.

    Raises InputError where there is neither a cluster nor the package of the client, and for a token that no header can
    hold, which the client would repeat.
    """
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise InputError(
            "training on several nodes needs the Kubernetes client: "
            f"pip install '{names.DISTRIBUTION}[kubeflow]'"
        ) from error
    configuration = client.Configuration()
    try:
        if environment.KUBERNETES_HOST in os.environ:
            config.load_incluster_config(client_configuration=configuration)
        else:
            config.load_kube_config(client_configuration=configuration)
    except config.ConfigException as error:
        raise InputError(
            f"training on several nodes needs a cluster, and none is configured here: {error}"
        ) from error
    if not str(configuration.api_key.get("authorization", "")).isprintable():
        raise InputError(
            "the token for Kubernetes has a line end or another character that no header can hold"
        )
    configuration.retries = RETRY  # pyright: ignore[reportAttributeAccessIssue]
    return client.ApiClient(configuration)


def check_trainer() -> None:
    """Raises InputError where the cluster has no Kubeflow Trainer, or one before 2.2.

    What it asks, Kubernetes tells every account (the cluster role `system:discovery`). Where it does not, a warning
    says so, and the training itself finds out.
    """
    from kubernetes.client import ApiException

    api = api_client()
    try:
        spec = _train_job(_get(api, f"/openapi/v3/apis/{GROUP}/{VERSION}"))
    except (ApiException, HTTPError) as error:
        if isinstance(error, ApiException) and error.status == 404:
            raise InputError(f"training on several nodes: {NOT_INSTALLED}") from error
        words = f"{error.status} {error.reason}" if isinstance(error, ApiException) else one_line(error)
        print(f"warning: the cluster does not say whether it has Kubeflow Trainer: {words}", file=sys.stderr)
        return
    if "runtimePatches" not in spec:
        raise InputError(f"training on several nodes: {TOO_OLD}")


def _get(api: KubernetesObject, path: str) -> JsonObject:
    found: JsonObject = api.call_api(
        path,
        "GET",
        header_params={"Accept": "application/json"},
        response_type="object",
        auth_settings=["BearerToken"],
        _return_http_data_only=True,
    )
    return found


def _train_job(document: JsonObject) -> JsonObject:
    """Returns the fields of a TrainJob's `spec`, from the OpenAPI document of its group; empty where it has no such kind."""
    for schema in document["components"]["schemas"].values():
        if any(kind["kind"] == "TrainJob" for kind in schema.get("x-kubernetes-group-version-kind", ())):
            fields: JsonObject = schema["properties"]["spec"]["properties"]
            return fields
    return {}
