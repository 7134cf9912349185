"""What is used of KFP's client that is not public: two names, in one module."""

import re

from kfp.client import Client
from kfp_server_api import ApiClient

from pipelines.kubeflow.client import RETRY, api_client, connect
from pipelines.kubeflow.connection import Connection
from tests.fixtures.project import ROOT


def test_private_names_of_kfp_s_client_are_where_they_were(kubeflow):
    client = connect(Connection(host=kubeflow.url))
    assert isinstance(api_client(client), ApiClient)
    assert "_load_config" in vars(Client), "by which the client gets its retries"
    assert api_client(client).configuration.retries is RETRY


def test_no_other_private_name_is_used():
    found = []
    for file in sorted((ROOT / "pipelines" / "kubeflow").glob("*.py")):
        found += re.findall(r"\bclient\._\w+|super\(\)\._[a-z]\w+", file.read_text())
    assert found == ["super()._load_config", "client._healthz_api"]
