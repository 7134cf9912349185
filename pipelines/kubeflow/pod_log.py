"""The log of a pod, which Kubeflow serves to whoever may read its run, and the reason for a failure in it."""

from __future__ import annotations

import re

from urllib3 import Retry

from pipelines.kubeflow.client import ApiObject, api_client, connect
from pipelines.kubeflow.connection import Connection

ONCE = Retry(total=2, status=0, backoff_factor=0.5)
"""For a log: a status that says that there is none, as 500 does, is no reason to wait."""
SERVER, PAGES = "/apis/v1alpha1/runs/{run}/nodes/{pod}/log", "/k8s/pod/logs"
"""Where the API server has logs in KFP 2.14 to 2.17, and where Kubeflow's pages have, which hand on no other request for them."""
TEMPLATES = ("system-container-impl", "retry-system-container-impl")
"""KFP's names of the templates of steps, which their pods are named after: WORKFLOW-TEMPLATE-NUMBER. The server finds a log
in its archive by the node's id, WORKFLOW-NUMBER, from KFP 2.17 on, and that of a pod that is still there by the pod's name."""
END = 64 * 1024
"""Bytes of a log's end that are read."""
OTHERS = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ |\[KFP Executor ")
"""The beginning of the lines of KFP's launcher, of its driver and of its executor."""
LAST_LINES = 3


def read_log(connection: Connection, run: ApiObject, node: str) -> str | None:
    """Returns the end of the log of the pod of a node; None where Kubeflow has none."""
    client = connect(connection, ONCE)
    workflow, _, number = node.rpartition("-")
    pods = [node, *(f"{workflow}-{template}-{number}" for template in TEMPLATES)]
    about = {"runid": run.run_id, "createdat": f"{run.created_at:%Y-%m-%d}"}
    if namespace := client.get_user_namespace():
        about["podnamespace"] = namespace
    for path in (SERVER, PAGES):
        for pod in pods:
            query = {**about, "podname": pod} if path == PAGES else {}
            if log := _read(api_client(client), path.format(run=run.run_id, pod=pod), query):
                return log
    return None


def _read(client: ApiObject, path: str, query: dict[str, str]) -> str | None:
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
        )
    except ApiException:
        return None
    end = b""
    for part in answer.stream(END):
        end = (end + part)[-END:]
    log = end.decode(errors="replace")
    # The server answers 200 also where it has no log; a page is one to sign in on.
    return None if log.startswith('{"error_message"') or log.lstrip().lower().startswith("<") else log


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
