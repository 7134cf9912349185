"""A Kubernetes API server for TrainJobs, over HTTP: custom objects, their watch, pods; it runs a job's pods as processes.

It stands for what cannot run here, and speaks its protocol: resource versions, conflicts, watches that begin
after a version, validation by schema, torchrun's environment as Kubeflow Trainer gives it.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema

SCHEMA = json.loads((Path(__file__).parent / "trainjob.schema.json").read_text(encoding="utf-8"))
JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"
PODS = "/api/v1/namespaces/team/pods"


class Cluster:
    """The state of the cluster, and the server that tells it.

    `command` is what a pod runs, given the TrainJob's own; `installed` says whether Kubeflow Trainer is there,
    `secrets` are the namespace's, by name and key, and `refuse` is the HTTP status of every answer where it is set.
    """

    def __init__(self, folder: Path, command: list[str] | None = None) -> None:
        self.folder = folder
        self.command = command
        self.installed = True
        self.refuse: int | None = None
        self.secrets: dict[str, dict[str, str]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, list[dict[str, Any]]] = {}
        self.created: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self.processes: dict[str, list[subprocess.Popen[bytes]]] = {}
        handler = type("Handler", (_Handler,), {"cluster": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kubeconfig(self) -> Path:
        """A file that leads the client here."""
        address = f"http://127.0.0.1:{self.server.server_port}"
        path = self.folder / "kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": address}}],
            "users": [{"name": "test", "user": {"token": "secret"}}],
        }
        path.write_text(json.dumps(content))
        return path

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        for processes in self.processes.values():
            for process in processes:
                process.kill()
                process.wait()

    def create(self, job: dict[str, Any]) -> dict[str, Any]:
        job = {**job, "metadata": {**job["metadata"], "uid": f"uid-{len(self.created)}"}}
        self.created.append(job)
        self.change("ADDED", job)
        threading.Thread(target=self._run, args=(job,), daemon=True).start()
        return job

    def change(self, kind: str, job: dict[str, Any]) -> None:
        """Note an event; the job gets its resource version."""
        with self.changed:
            name = job["metadata"]["name"]
            job["metadata"]["resourceVersion"] = str(len(self.events) + 1)
            if kind == "DELETED":
                self.jobs.pop(name, None)
            else:
                self.jobs[name] = job
            self.events.append({"type": kind, "object": json.loads(json.dumps(job))})
            self.changed.notify_all()

    def delete(self, job: dict[str, Any]) -> None:
        """As foreground deletion does: the job is going until its pods are gone."""
        job["metadata"]["deletionTimestamp"] = _now()
        self.change("MODIFIED", job)
        name = job["metadata"]["name"]
        for process in self.processes.pop(name, []):
            process.terminate()
            process.wait()
        self.pods.pop(name, None)
        self.change("DELETED", job)

    def end(self, job: dict[str, Any], kind: str, message: str = "") -> None:
        """Give a job the condition with which it ends."""
        condition = {"type": kind, "status": "True", "reason": "Jobs" + kind, "message": message}
        job["status"] = {"conditions": [{**condition, "lastTransitionTime": _now()}]}
        self.change("MODIFIED", job)

    def _run(self, job: dict[str, Any]) -> None:
        name, trainer = job["metadata"]["name"], job["spec"]["trainer"]
        command = self.command or [sys.executable, *trainer["command"][1:], *trainer["args"]]
        port = _free_port()
        processes = []
        for rank in range(trainer["numNodes"]):
            environment = {
                **os.environ,
                **{entry["name"]: self._value(entry) for entry in trainer["env"]},
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PET_NNODES": str(trainer["numNodes"]),
                "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
                "PET_NODE_RANK": str(rank),
                "PET_MASTER_ADDR": "127.0.0.1",
                "PET_MASTER_PORT": str(port),
                "MULTIVIEW_TERMINATION_LOG": str(self._log(name, rank)),
            }
            environment.pop("MULTIVIEW_NODES", None)
            processes.append(subprocess.Popen(command, env=environment))
        with self.changed:
            self.processes[name] = processes
            self.changed.notify_all()
        ended: list[tuple[int, int]] = []
        threads = [
            threading.Thread(target=lambda r=rank, p=process: ended.append((r, p.wait())), daemon=True)
            for rank, process in enumerate(processes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.jobs.get(name) is not job or "deletionTimestamp" in job["metadata"]:
            return
        self.pods[name] = [self._pod(name, rank, status, order) for order, (rank, status) in enumerate(ended)]
        failed = any(status for _, status in ended)
        self.end(job, "Failed" if failed else "Complete", "jobset failed" if failed else "")

    def _value(self, variable: dict[str, Any]) -> str:
        if "value" in variable:
            return variable["value"]
        reference = variable["valueFrom"]["secretKeyRef"]
        return self.secrets[reference["name"]][reference["key"]]

    def _log(self, name: str, rank: int) -> Path:
        return self.folder / f"{name}-{rank}.log"

    def _pod(self, name: str, rank: int, status: int, order: int) -> dict[str, Any]:
        log = self._log(name, rank)
        terminated = {
            "exitCode": status if status >= 0 else 128 - status,
            "reason": "OOMKilled" if status == -9 else "Error" if status else "Completed",
            "finishedAt": datetime.fromtimestamp(1_800_000_000 + order, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "message": log.read_text() if log.exists() else "",
        }
        container = {
            "name": "node",
            "state": {"terminated": terminated},
            "image": "",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
        }
        return {
            "metadata": {"name": f"{name}-node-0-{rank}-abcde"},
            "status": {"containerStatuses": [container]},
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path, query = self._request()
        if self._refused():
            return
        if path == PODS:
            name = query["labelSelector"].removeprefix("jobset.sigs.k8s.io/jobset-name=")
            self._answer(200, {"items": self.cluster.pods.get(name, [])})
        elif path == JOBS and query.get("watch") in ("true", "True"):
            self._watch(query)
        elif path.startswith(JOBS + "/"):
            job = self.cluster.jobs.get(path.rsplit("/", 1)[1])
            self._answer(200, job) if job else self._status(404, "NotFound", {"kind": "trainjobs"})
        else:
            self._status(404, "NotFound")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._refused():
            return
        try:
            jsonschema.validate(body, SCHEMA)
        except jsonschema.ValidationError as error:
            self._status(422, "Invalid", message=f"{error.json_path}: {error.message}")
            return
        if body["metadata"]["name"] in self.cluster.jobs:
            self._status(409, "AlreadyExists", {"kind": "trainjobs"})
        else:
            self._answer(201, self.cluster.create(body))

    def do_DELETE(self) -> None:
        path, _ = self._request()
        if self._refused():
            return
        job = self.cluster.jobs.get(path.rsplit("/", 1)[1])
        if job is None:
            self._status(404, "NotFound", {"kind": "trainjobs"})
            return
        self._answer(200, job)
        threading.Thread(target=self.cluster.delete, args=(job,), daemon=True).start()

    def _watch(self, query: dict[str, str]) -> None:
        name = query["fieldSelector"].removeprefix("metadata.name=")
        seen = int(query["resourceVersion"])
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            while True:
                with self.cluster.changed:
                    new = self.cluster.events[seen:]
                    if not new:
                        if not self.cluster.changed.wait(float(query["timeoutSeconds"])):
                            self.wfile.write(b"0\r\n\r\n")
                            return
                        continue
                seen += len(new)
                for event in new:
                    if event["object"]["metadata"]["name"] == name:
                        line = json.dumps(event).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                        self.wfile.flush()

    def _request(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}

    def _refused(self) -> bool:
        if self.cluster.refuse:
            self._status(self.cluster.refuse, "Forbidden")
        elif not self.cluster.installed:
            body = b"404 page not found\n"
            self.send_response(404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            return False
        return True

    def _status(
        self, code: int, reason: str, details: dict[str, str] | None = None, message: str = ""
    ) -> None:
        status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
        self._answer(code, {**status, **({"details": details} if details else {})})

    def _answer(self, code: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
