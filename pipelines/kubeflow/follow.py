"""Follows a run on Kubeflow to its end, by its steps' states in the store or its tasks in KFP; and finds out why it
failed (if need be from a pod's log, which Kubeflow serves to whoever may read the run), or why a pod waits."""

import contextlib
import json
import re
import time
from collections.abc import Iterator, Mapping

from urllib3 import Retry

from multiview import tracking
from multiview.artifacts.store import Store
from multiview.cli.console import Console
from multiview.config import JsonObject
from multiview.errors import InputError, StepFailed, counted, shortened
from multiview.steps.path import StepPath
from multiview.steps.runs import StepState, read_start, read_states
from pipelines.kubeflow.client import (
    FOLLOWING_RETRY,
    ApiObject,
    NotKubeflow,
    Unavailable,
    api_client,
    connect,
    explained,
)
from pipelines.kubeflow.connection import Connection
from pipelines.kubeflow.run_view import RunView, StepPod, Task, read_tasks, silence_of
from pipelines.kubeflow.submission import Submission, readable
from pipelines.runs.progress import Progress

POLL_SECONDS = 5.0
SILENCE_POLL_SECONDS = 60.0
"""Seconds between two checks whether a run is silent; they read its states in the store."""
PRINTED_STATES = ("RUNNING", "SUCCEEDED", "FAILED", "SKIPPED")
"""States that are printed; a step that will never run has no state."""
ONCE = Retry(total=2, status=0, backoff_factor=0.5)
"""For a log: a status that means that there is none, such as 500, is no reason to retry."""
SERVER, PAGES = "/apis/v1alpha1/runs/{run}/nodes/{pod}/log", "/k8s/pod/logs"
"""Paths of logs: of the API server in KFP 2.14 to 2.17, and of Kubeflow's pages, which forward no other log request."""
POD, POD_OF_PAGES = "/api/v1/namespaces/{namespace}/pods/{pod}", "/k8s/pod"
"""Paths of a pod: the Kubernetes API's, and that of Kubeflow's pages."""
TEMPLATES = (
    "retry-system-container-impl",
    "system-container-impl",
    "system-container-driver",
    "system-dag-driver",
)
"""KFP's template names for steps and drivers, from which their pods are named: WORKFLOW-TEMPLATE-NUMBER. The server
finds an archived log by the node's id, WORKFLOW-NUMBER, from KFP 2.17 on, and the log of a pod that still exists by the
pod's name."""
END = 64 * 1024
"""Bytes of a log's end that are read."""
SYSTEM_LINES = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ |\[KFP Executor ")
"""How lines of KFP's launcher, driver and executor begin."""
LAST_LINES = 3


def follow(
    connection: Connection,
    kfp_run: ApiObject,
    submission: Submission,
    compiled: str,
    tracking_uri: str | None = None,
) -> list[StepState]:
    """Returns the states of the steps of a run of the `compiled` pipeline once it has succeeded; none if the store
    cannot be read from here. Raises StepFailed with the reason, also if Kubeflow is unavailable for minutes."""
    run, store = submission.run, readable(submission.store)
    try:
        with explained(connection):
            tasks = read_tasks(compiled)
            if store:
                began = min(submission.checked, kfp_run.created_at.timestamp())
                with Progress(store, run.id, run.steps, began) as progress:
                    view = _end(connection, kfp_run.run_id, tasks, submission, store)
                    states = progress.finish()
            else:
                view, states = _end(connection, kfp_run.run_id, tasks, submission, None), []
            if view.cancelled and store:
                # What fails is left to the next run in the store, or to `multiview sync`.
                with contextlib.suppress(Exception):
                    tracking.note_cancelled(store, run.id)
                    if tracking_uri:
                        tracking.ship(store, run.id, tracking_uri)
            if view.unsuccessful:
                raise StepFailed(reason(connection, view, store, tracking_uri), bad_input=False)
    except InputError as error:
        if getattr(error.__cause__, "status", None) == 404:
            raise
        line = f"{error}; {run.id} may still be going: the same command follows it"
        raise StepFailed(line, bad_input=not isinstance(error, Unavailable)) from error
    return states


def _end(
    connection: Connection, run: str, tasks: Mapping[str, Task], submission: Submission, store: Store | None
) -> RunView:
    """Waits for a run's end and returns its view; prints what its pods wait for, and its tasks' states if the store
    cannot be read. Waits for an unavailable server, renews an expired token. Raises StepFailed if the run is gone."""
    from kfp_server_api import ApiException

    console, told = Console(soft_wrap=True), False
    reported: dict[tuple[str, str], set[str]] = {}
    waiting, looked = set[str](), -SILENCE_POLL_SECONDS
    client = connect(connection, FOLLOWING_RETRY)
    while True:
        try:
            view = RunView(client.get_run(run), tasks)
        except (ApiException, NotKubeflow) as error:
            if isinstance(error, ApiException) and error.status != 401:
                raise
            client = connect(connection, FOLLOWING_RETRY)  # signs in again
            view = RunView(client.get_run(run), tasks)
        for line in () if store else _changes(view, reported):
            console.print(line)
        if view.ended:
            return view
        if time.monotonic() - looked >= SILENCE_POLL_SECONDS:
            looked, (silence, gone) = time.monotonic(), silence_of(view, lambda: store, submission)
            if gone:
                raise StepFailed(f"{submission.run.id}: {silence}", bad_input=False)
            for line in _waiting(connection, view, waiting) if view.waits else ():
                console.warn(line)
            if silence and not told:
                console.warn(f"{submission.run.id}: {silence}")
            told = bool(silence)
        time.sleep(POLL_SECONDS)


def _waiting(connection: Connection, view: RunView, told: set[str]) -> Iterator[str]:
    """Yields a line for each step whose pod waits for something that was not `told` yet, and adds it to `told`."""
    for pod in view.at_work:
        why = None
        with contextlib.suppress(InputError), explained(connection):
            why = why_it_waits(connection, pod)
        if why and (known := f"{pod.task.path} {why.partition(':')[0]}") not in told:
            told.add(known)
            yield f"{pod.task.path} waits: {why}"


def _changes(view: RunView, reported: dict[tuple[str, str], set[str]]) -> Iterator[str]:
    """Yields a line for each step or shard with a state that was not `reported` yet, by path and state, and adds it."""
    for task, node in view.steps:
        known = reported.setdefault((task.path, node.state), set())
        if node.state in PRINTED_STATES and node.task_id not in known:
            known.add(node.task_id)
            number = f" ({len(known)} of {counted(task.count, 'shard')})" if task.count else ""
            yield f"{task.path} {node.state.lower()}{number}"


def reason(
    connection: Connection, view: RunView, store: Store | None, tracking_uri: str | None = None
) -> str:
    """Returns why a run failed: its step's own line from the store or MLflow, else what the failed pod's log says."""
    run = view.run
    if view.cancelled:
        return f"{run.display_name} was cancelled; the same command goes on from what is there"
    if store and (line := _stored(store, run)):
        return line
    failure = view.failure
    if failure is None:
        said = " ".join(run.error.message.split()) if run.error and run.error.message else ""
        return f"{run.display_name} failed{f': {said}' if said else f', and no step of it: {_ended(connection, view)}'}"
    if tracking_uri and (line := _tracked(tracking_uri, run, failure.task.path)):
        return line
    said = None
    with contextlib.suppress(InputError), explained(connection):
        said = reason_in(read_log(connection, run, failure) or "") if failure.node else None
    if failure.started:
        unread = "Kubeflow has no log of its pod, which was deleted or could not begin; the run's page has its events"
        over_it = f"; or the run was ended over it: {_ended(connection, view)}" if failure.at_work else ""
        return f"{failure.task.path}: {said or f'failed, and {unread}'}{over_it}"
    return f"{failure.task.path}: never started: {said or 'the log of its driver knows more, on the page of the run'}"


def _ended(connection: Connection, view: RunView) -> str:
    """Returns the explanation of a run that Argo may have ended by itself, for which the API gives no reason."""
    ask = f"kubectl --namespace {connection.namespace or 'kubeflow'} get workflow {view.workflow or ''}".rstrip()
    return (
        "Argo ended it, as it does where a run is too large for it (docs/cluster.md, Many shards, many systems); "
        f"{ask} -o jsonpath='{{.status.message}}' says why"
    )


def _stored(store: Store, run: ApiObject) -> str | None:
    """Returns the error of the step that failed first in this start of a run; None if the store has none."""
    with contextlib.suppress(Exception):
        start, since = read_start(store, run.run_id), run.created_at.timestamp()
        states = read_states(store, start.run) if start.run else ()
        failed = [state for state in states if state.failed and (state.ended or state.started) >= since]
        if failed:
            first = min(failed, key=lambda state: state.ended or state.started)
            return f"{first.path}: {first.error}"
        return start.error and f"open-run: {start.error}"
    return None


def _tracked(uri: str, run: ApiObject, path: str) -> str | None:
    """Returns a failed step's error from MLflow; None if it has none."""
    with contextlib.suppress(InputError):
        for name, step in tracking.find_run(uri, run.run_id).steps.items():
            if step.error and str(StepPath.parse(name).whole) == path:
                return f"{name}: {step.error}"
    return None


def read_log(connection: Connection, run: ApiObject, pod: StepPod) -> str | None:
    """Returns the end of the log of a step's pod; None if Kubeflow has none."""
    client = connect(connection, ONCE)
    about = {"runid": run.run_id, "createdat": f"{run.created_at:%Y-%m-%d}"}
    if namespace := client.get_user_namespace():
        about["podnamespace"] = namespace
    for path in (SERVER, PAGES):
        for name in (pod.node, *_names(pod)):
            query = {**about, "podname": name} if path == PAGES else {}
            log = _read(api_client(client), path.format(run=run.run_id, pod=name), query)
            # The server also answers 200 if it has no log; an HTML page is one to sign in on.
            if log and not log.startswith('{"error_message"') and not log.lstrip().lower().startswith("<"):
                return log
    return None


def why_it_waits(connection: Connection, pod: StepPod) -> str | None:
    """Returns why a step's pod has not begun, in Kubernetes' words; None if it has, or if nobody tells."""
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
    """Returns what a pod with this status waits for: what its first blocked container waits for, else a node."""
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
    """Returns the end of a server's answer; None if it refuses."""
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
    except (ApiException, NotKubeflow):
        return None
    end = b""
    for part in answer.stream(END):
        end = (end + part)[-END:]
    return end.decode(errors="replace")


def reason_in(log: str) -> str | None:
    """Returns the last line that begins with `error:`, else the step's last lines, else KFP's; None for an empty log."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("error:").strip() for line in lines if line.startswith("error:")]
    if errors:
        return errors[-1]
    # The step's own lines begin after the executor's JSON.
    begun = max((number for number, line in enumerate(lines, 1) if line == "}"), default=0)
    own = [line.strip() for line in lines[begun:] if not SYSTEM_LINES.match(line)]
    said = " / ".join(own[-LAST_LINES:] or [line.partition("] ")[2] for line in lines[-1:]])
    killed = any("signal: killed" in line for line in lines if SYSTEM_LINES.match(line))
    return f"killed, as where memory runs out; its last lines: {said}" if killed else said or None
