"""Makes the kfp.Client of a connection, with retries and one-line errors."""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from urllib3.util import Retry

from multiview import environment
from multiview.errors import InputError, nearest, repeats_header
from pipelines.kubeflow.connection import PROFILES, Connection

if TYPE_CHECKING:
    from kfp import client as kfp_client
    from kfp_server_api import ApiException

Client: TypeAlias = "kfp_client.Client"
"""KFP's client, known by its name alone because its import takes a second."""
ApiObject: TypeAlias = Any
"""An object of KFP's API, whose generated classes do not declare the types of their attributes."""
REQUEST_SECONDS = 60
"""Most seconds for a server to accept a connection and what is sent, and between two parts of its answer."""
PAGE_SIZE = 100
"""Objects per page of a list; the server's own limit is 200."""


class ApiRetry(Retry):
    """Retries while a server is busy or unavailable; a POST only if the answer says that it was not accepted."""

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        if method == "POST":
            return status_code in (429, 503)
        return super().is_retry(method, status_code, has_retry_after)


RETRY = ApiRetry(
    total=5,
    connect=2,
    read=2,
    backoff_factor=0.5,
    status_forcelist=(429, 500, 502, 503, 504),
    allowed_methods={"GET", "DELETE"},
    raise_on_status=False,
    redirect=False,
)

FOLLOWING_RETRY = RETRY.new(total=10, connect=10, read=10, backoff_factor=1, backoff_max=60)
"""For following a run, which goes on without us: waits five minutes for a server that is unavailable."""
ACCOUNT = re.compile(r"Resource:serviceaccounts|(?<!system:)service ?account", re.IGNORECASE)
"""Matches a refusal of a run's service account; `system:serviceaccount:` is the user's own name."""


class NotKubeflow(Exception):
    """A redirect or a page in place of an answer, which KFP's client would take for an object without attributes."""


class Unavailable(InputError):
    """Kubeflow fails or does not answer: printed in one line like an input error, though no input is wrong."""


def connect(connection: Connection, retries: Retry = RETRY) -> Client:
    """Returns a connected client. Raises InputError for a server that does not answer, or refuses."""
    check_connection(connection)
    with explained(connection), warnings.catch_warnings(action="ignore"):  # KFP gives advice on every start
        from kfp import client as kfp_client

        class OneRequest(kfp_client.Client):
            def get_kfp_healthz(self, sleep_duration: int = 0) -> ApiObject:
                # KFP's own method asks five times, five seconds apart, whatever the answer was. This one is the first
                # request of each client, by KFP's constructor or below.
                _set_requests(api_client(self), retries)
                answer = healthz(self)
                if answer.multi_user is None:
                    raise NotKubeflow("answers with something that is not Kubeflow's")
                return answer

        host, file = connection.host, connection.token_file
        client = OneRequest(
            host=host,
            proxy=_proxy(host) if host else None,
            ui_host=connection.ui_host,
            namespace=connection.namespace or "kubeflow",
            existing_token=connection.token,
            cookies=connection.cookie,
            client_id=connection.iap_client_id,
            other_client_id=connection.app_client_id,
            other_client_secret=connection.app_client_secret,
            credentials=kfp_client.ServiceAccountTokenVolumeCredentials(file) if file else None,
            kube_context=connection.kube_context,
            ssl_ca_cert=connection.ca_file,
        )
        if client.get_kfp_healthz().multi_user:
            _check_several_users(client, connection)
        return client


def _proxy(host: str) -> str | None:
    """Returns the environment's proxy for `host`; none for this machine, where port-forwards end."""
    from requests.utils import get_environ_proxies, prepend_scheme_if_needed, should_bypass_proxies

    scheme = host.partition(":")[0] if "://" in host else "https"
    proxy = get_environ_proxies(host).get(scheme)
    if not proxy or should_bypass_proxies(host, "localhost,127.0.0.1,::1"):
        return None
    return prepend_scheme_if_needed(proxy, "http")


# KFP's client exposes the generated API methods by their services' names, without declaring them.


def healthz(client: ApiObject, **options: object) -> ApiObject:
    """Returns what Kubeflow says of itself."""
    return client.healthzs.healthz_service_get_healthz(**options)


def create_pipeline(client: ApiObject, name: str, namespace: str | None) -> str:
    """Makes a pipeline without a version, for which KFP's client has no method; returns its id."""
    wanted = client.api_models.V2beta1Pipeline(display_name=name, namespace=namespace)
    return client.pipelines.pipeline_service_create_pipeline(pipeline=wanted).pipeline_id


def delete_recurring_run(client: ApiObject, identity: str) -> None:
    """Deletes a recurring run but not its run in progress, for which KFP's own method has no option."""
    delete = client.recurring_runs.recurring_run_service_delete_recurring_run
    delete(recurring_run_id=identity, propagation_policy="ORPHAN")


def api_client(client: ApiObject) -> ApiObject:
    """Returns the generated client below KFP's, on which connections and requests can be configured."""
    return client.healthzs.healthz_service_get_healthz.__self__.api_client


def _set_requests(generated: ApiObject, retries: Retry) -> None:
    """Gives the generated client retries, a time limit and the proxy's password, and has it raise NotKubeflow."""
    from kfp_server_api import ApiException
    from kfp_server_api.rest import RESTClientObject
    from requests.adapters import HTTPAdapter

    class Requests(RESTClientObject):
        def request(self, *request: Any, _request_timeout: int | None = None, **options: Any):
            limit = _request_timeout or REQUEST_SECONDS
            try:
                answer = super().request(*request, _request_timeout=limit, **options)
            except ApiException as error:
                if 300 <= (error.status or 0) < 400:
                    place = (error.headers or {}).get("Location", "another address").partition("?")[0]
                    raise NotKubeflow(f"sends requests on to {place}") from error
                raise
            # A log, which is not read at once, comes as a page from some servers.
            if options.get("_preload_content") and "html" in answer.getheader("Content-Type", "").lower():
                raise NotKubeflow("answers with a page that is not Kubeflow's")
            return answer

    config = generated.configuration
    if config.retries is retries:
        return
    config.retries = retries
    if config.refresh_api_key_hook:
        config.refresh_api_key_hook = _keeping_host(config.refresh_api_key_hook, config.host)
    if config.proxy:  # with the name and the password in its address
        config.proxy_headers = HTTPAdapter().proxy_headers(config.proxy)
    generated.rest_client = Requests(config)


def _check_several_users(client: Client, connection: Connection) -> None:
    """Raises InputError for a connection to multi-user Kubeflow that does not identify a user or a namespace."""
    where = f"Kubeflow at {address(connection)}"
    if connection.kube_context and not connection.host:
        raise InputError(
            f"{where} has several users, and the Kubernetes API does not tell it which one you are: in place of "
            "--kube-context give --host with --token, --token-file or --cookie"
        )
    if not client.get_user_namespace():
        raise InputError(f"{where} has several users: give --namespace (KFP_NAMESPACE)")


def _keeping_host(refresh: Callable[[ApiObject], None], host: str) -> Callable[[ApiObject], None]:
    """Returns a hook that calls `refresh`, then restores the host and itself: for a user with a token, a kubeconfig's
    hook sets the Kubernetes API as host, without the path to Kubeflow, and itself as the next hook."""

    def call(config: ApiObject) -> None:
        refresh(config)
        config.host, config.refresh_api_key_hook = host, call

    return call


def check_connection(connection: Connection) -> None:
    """Raises InputError for a connection that cannot work, before anything is sent."""
    for name in ("token_file", "ca_file"):
        file = getattr(connection, name)
        if file and not Path(file).is_file():
            raise InputError(f"{name}: there is no file {file}")
    if connection.host:
        return
    from kubernetes import client, config

    # With one of these KFP's client looks for no address.
    for name, variable in (("token", environment.KFP_TOKEN), ("iap_client_id", environment.IAP_CLIENT_ID)):
        if getattr(connection, name):
            raise InputError(f"{name}: give --host (KF_PIPELINES_ENDPOINT) with it, or unset {variable}")
    in_pod = False
    with contextlib.suppress(config.ConfigException):
        config.load_incluster_config(client.Configuration())
        in_pod = True
    if connection.kube_context:
        if in_pod:
            raise InputError("kube_context: in a pod KFP's client takes the pod's own cluster: give --host")
        try:
            contexts: ApiObject = config.list_kube_config_contexts()[0]
        except config.ConfigException as error:
            raise InputError(f"kube_context: {error}") from error
        names = [context["name"] for context in contexts]
        if connection.kube_context not in names:
            others = nearest(connection.kube_context, names)
            raise InputError(f"the kubeconfig has no context {connection.kube_context!r}{others}")
    elif not in_pod:
        raise InputError(
            "Kubeflow's address is not known: give --host (KF_PIPELINES_ENDPOINT), --kube-context, or a "
            f"profile in {PROFILES}"
        )


def address(connection: Connection) -> str:
    return connection.host or connection.kube_context or "this cluster"


@contextlib.contextmanager
def explained(connection: Connection) -> Iterator[None]:
    """Turns exceptions of KFP's client into an InputError of one line; Unavailable if Kubeflow itself fails."""
    import requests
    from google.auth.exceptions import GoogleAuthError
    from kfp_server_api import ApiException
    from urllib3.exceptions import HTTPError

    where = f"Kubeflow at {address(connection)}"
    try:
        yield
    except NotKubeflow as error:
        raise InputError(
            f"{where} {error}, perhaps to sign in: give a fresh --cookie, --token, --token-file or --iap-client-id, or "
            "the right --host, as in https://HOST/pipeline"
        ) from error
    except ApiException as error:
        raised = Unavailable if (error.status or 0) >= 500 else InputError
        raise raised(f"{where} {_answer(error, connection)}") from error
    except (GoogleAuthError, requests.RequestException) as error:
        raise InputError(f"{where}: signing in failed: {' '.join(str(error).split())}") from error
    except HTTPError as error:
        reason = getattr(error, "reason", None) or error
        raise Unavailable(f"{where} does not answer: {' '.join(str(reason).split())}") from error
    except ValueError as error:
        if not repeats_header(error):  # the header is a token or cookie, and the text repeats it
            raise
        raise InputError(f"{where}: {error}") from None


def _answer(error: ApiException, connection: Connection) -> str:
    reason = reason_of(error)
    if error.status == 401:
        return f"refuses the credentials (401): {reason}; give a fresh --token, --cookie, --token-file or --iap-client-id"
    if ACCOUNT.search(reason):
        return (
            f"does not let the run have its service account ({error.status}): {reason}; KFP 2.18 and later need it in "
            "ALLOWEDSERVICEACCOUNTS of their API server and, with several users, the verb `use` on it for you "
            "(docs/cluster.md, Service accounts); or leave kubeflow.service_account out"
        )
    if error.status == 403:
        return f"does not allow this (403): {reason}; is the namespace {connection.namespace or 'not given'} yours?"
    return f"answers {error.status}: {reason}"


def reason_of(error: ApiException) -> str:
    """Returns the server's own reason for a refusal, in one line: the last error of its chain, if it gives one."""
    body = error.body or ""
    with contextlib.suppress(ValueError, AttributeError):
        content = json.loads(body)
        last = [each.get("message") for each in content.get("details", []) if (error.status or 0) < 500]
        words = (*last, *(content.get(name) for name in ("message", "error_message", "error")))
        body = next(filter(None, words), body)
    return " ".join(str(body).split())[:300] or error.reason or ""


def list_all(list_page: Callable[..., ApiObject], attribute: str, **query: object) -> list[ApiObject]:
    """Returns all objects of a list: the `attribute` of every page that `list_page` returns."""
    objects: list[ApiObject] = []
    token: str | None = ""
    while token is not None:
        page = list_page(page_token=token, page_size=PAGE_SIZE, **query)
        objects += getattr(page, attribute) or []
        token = page.next_page_token or None
    return objects


def filter_of(key: str, value: str) -> str:
    """Returns KFP's filter for objects with this value of a field."""
    return json.dumps({"predicates": [{"operation": "EQUALS", "key": key, "stringValue": value}]})


def run_address(connection: Connection, run_id: str) -> str:
    """Returns the page of a run, or its id if the pages' address is unknown, as with only a kube context."""
    pages = connection.ui_host or connection.host
    if not pages:
        return f"run {run_id} of Kubeflow; --ui-host (KF_PIPELINES_UI_ENDPOINT) gives its page"
    return f"{pages.rstrip('/')}/#/runs/details/{run_id}"
