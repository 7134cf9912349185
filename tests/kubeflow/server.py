"""A Kubeflow Pipelines API server of its own, over HTTP, with no cluster behind it.

Every body is parsed into `kfp_server_api`'s own models, and refused if it has a field that they lack; answers
are these models' JSON. Statuses, pages, filters, name clashes and what a recurring run must have are as in
the server's source (backend/src/apiserver/server).
"""

import base64
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import kfp_server_api as api
import yaml
from werkzeug import Request, Response
from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.routing import Map, Rule
from werkzeug.serving import make_server

ROUTES = Map(
    [
        Rule("/apis/v2beta1/healthz", methods=["GET"], endpoint="healthz"),
        Rule("/apis/v2beta1/experiments", methods=["GET"], endpoint="list_experiments"),
        Rule("/apis/v2beta1/experiments", methods=["POST"], endpoint="create_experiment"),
        Rule("/apis/v2beta1/pipelines", methods=["GET"], endpoint="list_pipelines"),
        Rule("/apis/v2beta1/pipelines", methods=["POST"], endpoint="create_pipeline"),
        Rule("/apis/v2beta1/pipelines/upload_version", methods=["POST"], endpoint="upload_version"),
        Rule("/apis/v2beta1/pipelines/<pipeline>/versions", methods=["GET"], endpoint="list_versions"),
        Rule("/apis/v2beta1/runs", methods=["GET"], endpoint="list_runs"),
        Rule("/apis/v2beta1/runs", methods=["POST"], endpoint="create_run"),
        Rule("/apis/v2beta1/runs/<run>", methods=["GET"], endpoint="get_run"),
        Rule("/apis/v2beta1/recurringruns", methods=["GET"], endpoint="list_recurring_runs"),
        Rule("/apis/v2beta1/recurringruns", methods=["POST"], endpoint="create_recurring_run"),
        Rule("/apis/v2beta1/recurringruns/<one>", methods=["DELETE"], endpoint="delete_recurring_run"),
    ]
)
CODES = {400: 3, 401: 16, 403: 7, 404: 5, 409: 6, 500: 13, 503: 14}
"""gRPC's code of an HTTP status."""
MODELS = api.ApiClient(api.Configuration())


class Refused(Exception):
    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


@dataclass
class Fault:
    """Answer the next requests to an endpoint with a status instead; `done` does what was asked first."""

    endpoint: str
    status: int
    times: int = 1
    done: bool = False


@dataclass
class FakeKubeflow:
    """What the server holds, and what it was asked."""

    token: str | None = None
    namespaces: tuple[str, ...] = ()
    """Those of multi-user mode; none: one user."""
    forbidden: tuple[str, ...] = ()
    """Namespaces in which this user may do nothing."""
    page_size: int = 200
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and endpoint of each request, refused ones too."""
    on_run: Callable[[Any], None] = lambda run: None
    """The cluster: what happens when a run is looked at."""
    experiments: dict[str, Any] = field(default_factory=dict)
    pipelines: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)
    recurring: dict[str, Any] = field(default_factory=dict)
    url: str = ""
    below: str = ""
    """Path under which alone it answers, as behind the proxy of a Kubernetes API."""

    def asked(self, endpoint: str) -> int:
        return sum(name == endpoint for _, name in self.requests)

    def changes(self) -> int:
        """Requests that change something."""
        return sum(method != "GET" for method, _ in self.requests)

    # --- protocol ------------------------------------------------------------------------------

    def __call__(self, environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        if self.below and environ["PATH_INFO"].startswith(self.below):
            environ["PATH_INFO"] = "/" + environ["PATH_INFO"].removeprefix(self.below).lstrip("/")
        elif self.below:
            environ["PATH_INFO"] = "/nothing-here"
        try:
            endpoint, found = ROUTES.bind_to_environ(environ).match()
            self.requests.append((request.method, endpoint))
            fault = next((f for f in self.faults if f.endpoint == endpoint and f.times), None)
            if fault:
                fault.times -= 1
                if fault.done:
                    self._answer(request, endpoint, found)
                raise Refused(fault.status, "upstream connect error")
            response = self._answer(request, endpoint, found)
        except Refused as refused:
            code, status = CODES.get(refused.status, 2), refused.status
            content = {"error": str(refused), "code": code, "message": str(refused), "details": []}
            response = Response(json.dumps(content), status, content_type="application/json")
        except NotFound:
            response = Response("Not Found\n", 404)
        except HTTPException as error:
            response = Response(str(error), error.code or 500)
        return response(environ, start_response)

    def _answer(self, request: Request, endpoint: str, found: Any) -> Response:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            raise Refused(401, "Unauthenticated: the request has no valid token")
        result = getattr(self, f"_{endpoint}")(request, **found)
        content = MODELS.sanitize_for_serialization(result)
        return Response(json.dumps(content), content_type="application/json")

    def _body(self, request: Request, model: str) -> Any:
        """The body as one of kfp_server_api's models; a field that the model lacks is refused."""
        body = json.loads(request.get_data())
        parsed = MODELS.deserialize(SimpleNamespace(data=json.dumps(body)), model)
        lost = _lost(body, MODELS.sanitize_for_serialization(parsed))
        if lost:
            raise Refused(400, f"unknown field {lost} in {model}")
        return parsed

    def _namespace(self, given: str | None) -> str | None:
        if not self.namespaces:
            return None
        if not given:
            raise Refused(400, "Invalid input error: a namespace cannot be empty in multi-user mode")
        if given in self.forbidden or given not in self.namespaces:
            raise Refused(403, f"PermissionDenied: User may not act in namespace {given}")
        return given

    def _page(self, request: Request, objects: list[Any], answer: Any, of: str) -> Any:
        for predicate in json.loads(request.args.get("filter") or "{}").get("predicates", []):
            if predicate["operation"] not in (1, "EQUALS") or predicate["key"] != "display_name":
                raise Refused(400, f"Invalid filter {predicate}")
            objects = [o for o in objects if o.display_name == predicate["stringValue"]]
        size = min(int(request.args.get("page_size") or 20), self.page_size)
        token = request.args.get("page_token")
        start = json.loads(base64.b64decode(token))["start"] if token else 0
        end = start + size
        following = base64.b64encode(json.dumps({"start": end}).encode()).decode()
        page = answer(next_page_token=following if end < len(objects) else None)
        setattr(page, of, objects[start:end] or None)
        return page

    # --- endpoints -----------------------------------------------------------------------------

    def _healthz(self, request: Request) -> Any:
        return api.V2beta1GetHealthzResponse(multi_user=bool(self.namespaces))

    def _list_experiments(self, request: Request) -> Any:
        namespace = self._namespace(request.args.get("namespace"))
        found = [e for e in self.experiments.values() if e.namespace == namespace]
        return self._page(request, found, api.V2beta1ListExperimentsResponse, "experiments")

    def _create_experiment(self, request: Request) -> Any:
        wanted = self._body(request, "V2beta1Experiment")
        wanted.namespace = self._namespace(wanted.namespace)
        return self._add(self.experiments, wanted, "experiment_id", "namespace")

    def _list_pipelines(self, request: Request) -> Any:
        namespace = self._namespace(request.args.get("namespace"))
        found = [p for p in self.pipelines.values() if p.namespace == namespace]
        return self._page(request, found, api.V2beta1ListPipelinesResponse, "pipelines")

    def _create_pipeline(self, request: Request) -> Any:
        wanted = self._body(request, "V2beta1Pipeline")
        wanted.namespace = self._namespace(wanted.namespace)
        return self._add(self.pipelines, wanted, "pipeline_id", "namespace")

    def _list_versions(self, request: Request, pipeline: str) -> Any:
        if pipeline not in self.pipelines:
            raise Refused(404, f"ResourceNotFoundError: Pipeline {pipeline} not found")
        found = [v for v in self.versions.values() if v.pipeline_id == pipeline]
        return self._page(request, found, api.V2beta1ListPipelineVersionsResponse, "pipeline_versions")

    def _upload_version(self, request: Request) -> Any:
        pipeline, file = request.args.get("pipelineid"), request.files.get("uploadfile")
        if pipeline not in self.pipelines or file is None:
            raise Refused(400, "Failed to create a pipeline version")
        documents = list(yaml.load_all(file.read(), yaml.CSafeLoader))
        if "root" not in documents[0] or not documents[0].get("schemaVersion"):
            raise Refused(400, "unknown template format")
        spec = (
            {"pipeline_spec": documents[0], "platform_spec": documents[1]} if documents[1:] else documents[0]
        )
        name = request.args.get("name") or file.filename
        wanted = api.V2beta1PipelineVersion(
            pipeline_id=pipeline, name=name, display_name=name, pipeline_spec=spec
        )
        return self._add(self.versions, wanted, "pipeline_version_id", "pipeline_id")

    def _list_runs(self, request: Request) -> Any:
        namespace = self._namespace(request.args.get("namespace"))
        there = {e.experiment_id for e in self.experiments.values() if e.namespace == namespace}
        found = [run for run in self.runs.values() if run.experiment_id in there]
        return self._page(request, found, api.V2beta1ListRunsResponse, "runs")

    def _create_run(self, request: Request) -> Any:
        run = self._body(request, "V2beta1Run")
        self._check_source(run)
        run.run_id, run.created_at, run.state = str(uuid.uuid4()), datetime.now(UTC), "PENDING"
        self.runs[run.run_id] = run
        return run

    def _get_run(self, request: Request, run: str) -> Any:
        if run not in self.runs:
            raise Refused(404, f"ResourceNotFoundError: Run {run} not found")
        self.on_run(self.runs[run])
        return self.runs[run]

    def _list_recurring_runs(self, request: Request) -> Any:
        namespace = self._namespace(request.args.get("namespace"))
        found = [one for one in self.recurring.values() if one.namespace == namespace]
        return self._page(request, found, api.V2beta1ListRecurringRunsResponse, "recurring_runs")

    def _create_recurring_run(self, request: Request) -> Any:
        one = self._body(request, "V2beta1RecurringRun")
        self._check_source(one)
        cron = one.trigger.cron_schedule.cron
        if not 5 <= len(cron.split()) <= 6:
            raise Refused(400, f"Schedule cron is not a supported format: {cron}")
        if not 1 <= int(one.max_concurrency or 0) <= 10:
            raise Refused(400, "Max concurrency of a recurring run must be at least 1 and at most 10")
        one.recurring_run_id = str(uuid.uuid4())
        one.namespace = self.experiments[one.experiment_id].namespace
        one.status = "ENABLED" if one.mode == "ENABLE" else "DISABLED"
        self.recurring[one.recurring_run_id] = one
        return one

    def _delete_recurring_run(self, request: Request, one: str) -> Any:
        if self.recurring.pop(one, None) is None:
            raise Refused(404, f"ResourceNotFoundError: Job {one} not found")
        return {}

    def _check_source(self, wanted: Any) -> None:
        """A run's experiment, pipeline version and parameters must be there."""
        if wanted.experiment_id not in self.experiments:
            raise Refused(404, f"ResourceNotFoundError: Experiment {wanted.experiment_id} not found")
        source = wanted.pipeline_version_reference
        version = source and self.versions.get(source.pipeline_version_id)
        if version is None or version.pipeline_id != source.pipeline_id:
            raise Refused(404, "ResourceNotFoundError: PipelineVersion not found")
        spec = version.pipeline_spec
        declared = spec.get("pipeline_spec", spec)["root"]["inputDefinitions"]["parameters"]
        given = wanted.runtime_config.parameters
        if set(declared) != set(given) or not all(isinstance(value, str) for value in given.values()):
            raise Refused(400, f"parameters {sorted(given)} are not the pipeline's {sorted(declared)}")

    def _add(self, known: dict[str, Any], wanted: Any, identity: str, within: str) -> Any:
        for other in known.values():
            if (other.display_name, getattr(other, within)) == (wanted.display_name, getattr(wanted, within)):
                raise Refused(409, f"Already exist error: the name {wanted.display_name} already exists")
        setattr(wanted, identity, str(uuid.uuid4()))
        wanted.created_at = datetime.now(UTC)
        known[getattr(wanted, identity)] = wanted
        return wanted


def _lost(body: Any, parsed: Any, place: str = "") -> str | None:
    """The first field of a body that its model did not take."""
    if not isinstance(body, dict) or not isinstance(parsed, dict):
        return None
    for name, value in body.items():
        if name not in parsed:
            return f"{place}{name}"
        if lost := _lost(value, parsed[name], f"{place}{name}."):
            return lost
    return None


@contextmanager
def serving(kubeflow: FakeKubeflow) -> Iterator[FakeKubeflow]:
    """The server, listening at `url`."""
    server = make_server("127.0.0.1", 0, kubeflow, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    kubeflow.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield kubeflow
    finally:
        server.shutdown()
        thread.join()
