"""Ways to reach Kubeflow and to say who one is, besides a host with a token (test_start.py)."""

import json
import socket
from math import inf
from pathlib import Path

import pytest

from pipelines.kubeflow import client
from tests.fixtures.kubeflow_server import FakeKubeflow, serving
from tests.fixtures.schedules import NIGHTLY, write
from tests.pipelines.kubeflow.conftest import LOCATION

LIST = "schedule status"
SUBMIT = "submit training --preset small.yaml --store gs://bucket/store"


def test_a_kube_context_goes_through_the_kubernetes_api(kubeflow, command, kubernetes):
    assert command(f"{LIST} --kube-context training-cluster") == "no schedules\n"
    assert kubeflow.asked("list_recurring_runs") == 1


def test_a_kube_context_alone_knows_no_page(kubeflow, command, kubernetes):
    submit = f"{SUBMIT} --kube-context training-cluster"
    printed = command(submit)
    (run,) = kubeflow.runs
    assert (
        f" started: run {run} of Kubeflow; --ui-host (KF_PIPELINES_UI_ENDPOINT) gives its page\n" in printed
    )
    printed = command(f"{submit} --ui-host http://localhost:8080")
    assert f"is going already: http://localhost:8080/#/runs/details/{run}\n" in printed


def test_a_kube_context_cannot_say_who_one_is_where_there_are_several_users(kubeflow, command, kubernetes):
    """The Kubernetes API's proxy drops the Authorization header."""
    kubeflow.namespaces = ("mine",)
    printed = command(f"{LIST} --kube-context training-cluster --namespace kubeflow", status=2)
    assert "has several users, and the Kubernetes API does not tell it which one you are" in printed
    assert "--host with --token, --token-file or --cookie" in printed


def test_a_session_s_cookie_is_sent(kubeflow, command, monkeypatch):
    kubeflow.cookie = "oauth2_proxy_kubeflow=abc"
    assert command(f"{LIST} --host {kubeflow.url} --cookie {kubeflow.cookie}") == "no schedules\n"
    monkeypatch.setenv("MULTIVIEW_KUBEFLOW_COOKIE", kubeflow.cookie)
    assert command(f"{LIST} --host {kubeflow.url}") == "no schedules\n"


@pytest.mark.parametrize("cookie", ["", "--cookie oauth2_proxy_kubeflow=old"])
def test_a_page_to_sign_in_on_is_told(kubeflow, command, cookie):
    kubeflow.cookie = "oauth2_proxy_kubeflow=abc"
    printed = command(f"{LIST} --host {kubeflow.url} {cookie}", status=2)
    assert "sends requests on to /oauth2/start, perhaps to sign in: give a fresh --cookie" in printed


def test_a_wrong_address_names_no_profile_where_there_is_none(command):
    assert "error: host: expected" in command(f"{LIST} --host kubeflow.example.org", status=2)


def test_an_answer_of_another_service_is_told(kubeflow, command, monkeypatch):
    monkeypatch.setattr(FakeKubeflow, "_healthz", lambda self, request: {"status": "ok"})
    assert "is not Kubeflow's" in command(f"{LIST} --host {kubeflow.url}", status=2)


def test_a_page_that_needs_no_redirect_is_told_too(kubeflow, command):
    """As of Kubeflow's own pages, for any path that they do not know."""
    kubeflow.cookie = "oauth2_proxy_kubeflow=abc"
    printed = command(f"{LIST} --host {kubeflow.url}/oauth2", status=2)
    assert "answers with a page that is not Kubeflow's" in printed
    assert "or the right --host, as in https://HOST/pipeline" in printed


@pytest.mark.parametrize("line", [SUBMIT, "schedule apply refresh.yaml", LIST, "schedule delete nightly"])
def test_a_session_that_ends_at_any_request_is_told(command, line):
    """Where a redirect is followed, the page is taken for an object without attributes, or for an empty list."""
    cookie = "oauth2_proxy_kubeflow=abc"

    def asked(session: float, status: int) -> int:
        with serving(FakeKubeflow()) as server:
            write(NIGHTLY)
            command(f"schedule apply refresh.yaml --host {server.url}")
            write({**NIGHTLY, "cron": "0 0 5 * * *"})  # which replaces it
            server.cookie, server.session, before = cookie, session, len(server.requests)
            printed = command(f"{line} --host {server.url} --cookie {cookie}", status)
            assert ("sends requests on to /oauth2/start" in printed) == (status == 2)
            return len(server.requests) - before

    needed = asked(inf, 0)
    assert [asked(session, 2) for session in range(needed)] == [*range(needed)]


def test_a_server_that_never_answers_is_a_line(command, monkeypatch):
    monkeypatch.setattr(client, "REQUEST_SECONDS", (0.1, 0.1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        printed = command(f"{LIST} --host http://127.0.0.1:{silent.getsockname()[1]}", status=2)
    assert "does not answer: " in printed and "timed out" in printed


def test_an_unknown_kube_context_names_those_there_are(kubeflow, command, kubernetes):
    assert "did you mean training-cluster?" in command(f"{LIST} --kube-context trainig-cluster", status=2)
    assert not kubeflow.requests


@pytest.fixture
def pod(monkeypatch):
    """This process is in a pod that has its service account, as KFP's client looks for it."""
    for name in ("TOKEN", "CERT"):
        Path(name).write_text("of this pod")
        monkeypatch.setattr(f"kubernetes.config.incluster_config.SERVICE_{name}_FILENAME", name)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")


def test_a_pod_s_own_cluster_is_not_taken_for_a_kube_context(kubeflow, command, kubernetes, pod, monkeypatch):
    printed = command(f"{LIST} --kube-context training-cluster", status=2)
    assert "in a pod KFP's client takes the pod's own cluster: give --host" in printed
    options = f"--host {kubeflow.url}{kubeflow.below} --token {kubeflow.token}"
    assert command(f"{LIST} --kube-context training-cluster {options}") == "no schedules\n"
    Path("TOKEN").unlink()
    assert "Kubeflow's address is not known: give --host" in command(f"{LIST} --token-file CERT", status=2)


@pytest.mark.parametrize("variable", ["KFP_EXISTING_TOKEN", "KF_PIPELINES_IAP_OAUTH2_CLIENT_ID"])
@pytest.mark.parametrize("options", ["", "--kube-context training-cluster"])
def test_a_credential_without_a_host_is_refused(
    kubeflow, command, kubernetes, pod, monkeypatch, variable, options
):
    monkeypatch.setenv(variable, "left-from-another-cluster")
    printed = command(f"{LIST} {options}", status=2)
    assert f": give --host (KF_PIPELINES_ENDPOINT) with it, or unset {variable}\n" in printed


def test_without_a_kubeconfig_it_is_one_line(kubeflow, command, monkeypatch):
    monkeypatch.setattr(LOCATION, "nowhere")
    assert "kube_context: " in command(f"{LIST} --kube-context training-cluster", status=2)


def test_iap_s_token_is_asked_for_with_both_clients_and_sent(kubeflow, command, monkeypatch):
    """Google's part is all that is not real here."""
    asked = []

    def get_auth_token(*clients: str) -> tuple[str, bool]:
        asked.append(clients)
        return "of-iap", False

    monkeypatch.setattr("kfp.client.auth.get_auth_token", get_auth_token)
    monkeypatch.setenv("KF_PIPELINES_IAP_OAUTH2_CLIENT_ID", "iap")
    monkeypatch.setenv("KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET", "secret")
    kubeflow.token = "of-iap"
    assert command(f"{LIST} --host {kubeflow.url} --app-client-id app") == "no schedules\n"
    assert asked == [("iap", "app", "secret")]


def test_signing_in_that_fails_is_one_line(kubeflow, command, monkeypatch):
    from google.auth.exceptions import DefaultCredentialsError

    def get_auth_token(*clients: str) -> None:
        raise DefaultCredentialsError("no credentials\nwere found")

    monkeypatch.setattr("kfp.client.auth.get_auth_token", get_auth_token)
    printed = command(f"{LIST} --host {kubeflow.url} --iap-client-id iap", status=2)
    assert "signing in failed: no credentials were found" in printed


def test_the_environment_s_proxy_is_asked_unless_the_host_is_among_the_exceptions(
    kubeflow, command, monkeypatch
):
    for proxy in kubeflow.url, kubeflow.url.removeprefix("http://"):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        assert command(f"{LIST} --host http://kubeflow.invalid") == "no schedules\n"
    monkeypatch.setenv("NO_PROXY", ".invalid")
    kubeflow.requests.clear()
    assert "does not answer" in command(f"{LIST} --host http://kubeflow.invalid", status=2)
    assert not kubeflow.requests
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid")
    monkeypatch.delenv("NO_PROXY")
    assert command(f"{LIST} --host {kubeflow.url}") == "no schedules\n", "a port-forward's end is not"


def test_a_page_that_is_not_kubeflow_s_is_one_line(website, command):
    Path("apis").write_text(json.dumps({}))
    assert "answers 404" in command(f"{LIST} --host {website}", status=2)
