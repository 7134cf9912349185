"""What is used of KFP's client beside its own methods: the generated API, in one module, and no private name."""

import ast

from kfp_server_api import ApiClient, HealthzServiceApi, PipelineServiceApi
from kfp_server_api.models import V2beta1Pipeline

from pipelines.kubeflow.client import FOLLOWING_RETRY, RETRY, ApiObject, api_client, connect
from pipelines.kubeflow.connection import Connection
from tests.fixtures.project import ROOT


def test_the_generated_api_is_where_it_was(kubeflow):
    client: ApiObject = connect(Connection(host=kubeflow.url))
    methods = client.healthzs.healthz_service_get_healthz, client.pipelines.pipeline_service_create_pipeline
    assert [type(method.__self__) for method in methods] == [HealthzServiceApi, PipelineServiceApi]
    assert client.api_models.V2beta1Pipeline is V2beta1Pipeline
    below = api_client(client)
    assert isinstance(below, ApiClient) and {method.__self__.api_client for method in methods} == {below}


def test_every_request_has_the_retries_of_its_client(kubeflow):
    for namespace in (None, "team"):
        for retries in (RETRY, FOLLOWING_RETRY):
            below = api_client(connect(Connection(host=kubeflow.url, namespace=namespace), retries))
            assert below.rest_client.pool_manager.connection_pool_kw["retries"] is retries


def test_no_private_name_of_kfp_or_another_library_is_used():
    for file in sorted((ROOT / "pipelines").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        assert not {name for name in used - own if name.startswith("_") and not name.endswith("__")}, file
