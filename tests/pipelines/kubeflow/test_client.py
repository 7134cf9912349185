"""What is used of KFP's client beside its own methods: the generated API, in one module, and no private name."""

import ast

from pipelines.kubeflow.client import FOLLOWING_RETRY, RETRY, api_client, connect
from pipelines.kubeflow.connection import Connection
from tests.fixtures.project import ROOT


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
