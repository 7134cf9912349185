"""The log of a pod, which Kubeflow serves to whoever may read its run, the reason for a failure in it, and why a pod waits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from urllib3 import Retry

from multiview.config import JsonObject
from multiview.errors import shortened
from pipelines.kubeflow.client import ApiObject, api_client, connect
from pipelines.kubeflow.connection import Connection
from pipelines.kubeflow.run_view import StepPod

ONCE = Retry(total=2, status=0, backoff_factor=0.5)
"""For a log: a status that says that there is none, as 500 does, is no reason to wait."""
SERVER, PAGES = "/apis/v1alpha1/runs/{run}/nodes/{pod}/log", "/k8s/pod/logs"
"""Where the API server has logs in KFP 2.14 to 2.17, and where Kubeflow's pages have, which hand on no other request for them."""
POD, POD_OF_PAGES = "/api/v1/namespaces/{namespace}/pods/{pod}", "/k8s/pod"
"""Where the Kubernetes API has a pod, and where Kubeflow's pages have it."""
TEMPLATES = (
    "retry-system-container-impl",
    "system-container-impl",
    "system-container-driver",
    "system-dag-driver",
)
"""KFP's names of the templates of steps and of drivers, which their pods are named after: WORKFLOW-TEMPLATE-NUMBER. The
server finds a log in its archive by the node's id, WORKFLOW-NUMBER, from KFP 2.17 on, and that of a pod that is still
there by the pod's name."""
END = 64 * 1024
"""Bytes of a log's end that are read."""
OTHERS = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ |\[KFP Executor ")
"""The beginning of the lines of KFP's launcher, of its driver and of its executor."""
LAST_LINES = 3


def read_log(connection: Connection, run: ApiObject, pod: StepPod) -> str | None:
    """Returns the end of the log of a step's pod; None where Kubeflow has none."""
    client = connect(connection, ONCE)
    about = {"runid": run.run_id, "createdat": f"{run.created_at:%Y-%m-%d}"}
    if namespace := client.get_user_namespace():
        about["podnamespace"] = namespace
    for path in (SERVER, PAGES):
        for name in (pod.node, *_names(pod)):
            query = {**about, "podname": name} if path == PAGES else {}
            log = _read(api_client(client), path.format(run=run.run_id, pod=name), query)
            # The server answers 200 also where it has no log; a page is one to sign in on.
            if log and not log.startswith('{"error_message"') and not log.lstrip().lower().startswith("<"):
                return log
    return None


def why_it_waits(connection: Connection, pod: StepPod) -> str | None:
    """Returns why a step's pod has not begun, in Kubernetes' words; None where it has, and where neither a kube context nor
    Kubeflow's pages tell."""
    client, namespace = api_client(connect(connection, ONCE)), connection.namespace or "kubeflow"
    server, path = None, POD_OF_PAGES
    if not connection.host:  # Kubeflow is reached through the Kubernetes API
        server, path = client.configuration.host.partition("/api/v1/namespaces/")[0], POD
    for name in _names(pod):
        query = {"podname": name, "podnamespace": namespace} if path == POD_OF_PAGES else {}
        answer = _read(client, path.format(namespace=namespace, pod=name), query, server)
        if answer and answer.startswith("{"):
            return waits_for(json.loads(answer).get("status") or {})
    return None


def waits_for(status: JsonObject) -> str | None:
    """Returns what a pod of this status waits for: that of its first container that cannot begin, else a node."""
    states = [
        each.get("state", {}).get("waiting") or {}
        for kind in ("initContainerStatuses", "containerStatuses")
        for each in status.get(kind) or ()
    ]
    scheduled = {"type": "PodScheduled", "status": "False"}
    unscheduled = [each for each in status.get("conditions") or () if each.items() >= scheduled.items()]
    for each in (*states, *unscheduled):
        if each.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return shortened(f"{each['reason']}: {each.get('message', '')}".rstrip(": "))
    return None


def _names(pod: StepPod) -> list[str]:
    """Returns the names that a pod may have."""
    workflow, _, number = (pod.node or "").rpartition("-")
    own = [f"{pod.task.prefix}{template}" for template in TEMPLATES]
    return [f"{workflow}-{template}-{number}" for template in dict.fromkeys((*own, *TEMPLATES))]


def _read(client: ApiObject, path: str, query: Mapping[str, str], server: str | None = None) -> str | None:
    """Returns the end of what a server answers; None where it refuses."""
    from kfp_server_api import ApiException

    try:
        answer = client.call_api(
            path,
            "GET",
            query_params=query,
            auth_settings=["Bearer"],
            _return_http_data_only=True,
            _preload_content=False,
            _request_timeout=60,
            _host=server,
        )
    except ApiException:
        return None
    end = b""
    for part in answer.stream(END):
        end = (end + part)[-END:]
    return end.decode(errors="replace")


def reason_in(log: str) -> str | None:
    """Returns the last line that begins with `error:`, else the step's last lines, else KFP's own last words; None for an
    empty log."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("error:").strip() for line in lines if line.startswith("error:")]
    if errors:
        return errors[-1]
    # The step's own lines begin after the executor's JSON.
    begun = max((number for number, line in enumerate(lines, 1) if line == "}"), default=0)
    own = [line.strip() for line in lines[begun:] if not OTHERS.match(line)]
    said = " / ".join(own[-LAST_LINES:] or [line.partition("] ")[2] for line in lines[-1:]])
    killed = any("signal: killed" in line for line in lines if OTHERS.match(line))
    return f"killed, as where memory runs out; its last lines: {said}" if killed else said or None
