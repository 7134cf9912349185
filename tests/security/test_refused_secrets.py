"""Secrets that are wrong, or that a library cannot even read: the line that says so holds nothing of them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pytest

from multiview.cli.app import run_app
from pipelines.__main__ import app
from tests.fixtures.planted_secrets import always, leaked, said, variables

MULTIVIEW = "from multiview.cli.app import main; main()"
PIPELINES = "python -m pipelines"
"""In this process, whose imports it would make again: nothing that it asks keeps what it read of the environment."""
STEP = """
import os
from pathlib import Path
from multiview.errors import one_line
try:
    match os.environ["CALLS"]:
        case "qdrant":
            from multiview.export.qdrant import open_client
            with open_client(os.environ["URL"]) as client:
                client.get_collections()
        case "hub":
            from multiview.model.base_model import files, hub
            hub._download("team/bert", "a" * 40, files.PATTERNS)
        case "kubernetes":
            from multiview.steps.backends import trainjob
            trainjob.NAMESPACE_FILE = Path(os.environ["HOME"], "namespace")
            trainjob.NAMESPACE_FILE.write_text("team")
            trainjob.TrainJobs().delete({"metadata": {"name": "a-job"}})
        case "webhook":
            from multiview.steps.webhook import post
            post(os.environ["MULTIVIEW_NOTIFY_URL"], {"text": "x"})
except Exception as error:
    print(one_line(error), repr(error), repr(error.__cause__))
"""
"""What steps do with other servers, with all that a warning, a record or a log may take from the error."""
LINEAGE = ["lineage", "a-run", "--store", "{folder}/store"]
INSPECT = ["inspect", "--set", "corpus.source=${{SOURCE}}", "--set", "questions.source=${{SOURCE}}"]
SCHEDULES = ["schedule", "status", "--profile", "default"]
ANY_BUCKET = ["gc", "--store", "s3://bucket/private"]


@dataclass(frozen=True)
class Case:
    """A program, the variables and files in which secrets are, and a part of what it says; in all of them `{url}` is
    the server and `{folder}` the place of the files."""

    code: str
    words: list[str]
    variables: Mapping[str, str]
    says: str
    files: Mapping[str, str] = field(default_factory=dict)
    arrives: bool = False
    """Whether the server hears the secret."""


def mlflow(says: str, arrives: bool = False, file: str = "", **variables: str) -> Case:
    tracking = {"MLFLOW_TRACKING_URI": "{url}", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    files = {".mlflow/credentials": file} if file else {}
    return Case(MULTIVIEW, LINEAGE, tracking | variables, says, files, arrives)


def s3(says: str, arrives: bool, file: str) -> Case:
    place = {"AWS_ENDPOINT_URL": "{url}", "AWS_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1"}
    place |= {"AWS_SHARED_CREDENTIALS_FILE": "{folder}/aws", "AWS_PROFILE": "team"}
    return Case(MULTIVIEW, ANY_BUCKET, place, says, {"aws": file}, arrives)


def kubeflow(says: str, arrives: bool = False, file: str = "", **variables: str) -> Case:
    place = {"MULTIVIEW_PROFILES": "{folder}/profiles"}
    files = {"profiles": file or 'default: {{host: "{url}"}}', "token": "planted-token\n"}
    return Case(PIPELINES, SCHEDULES, place | variables, says, files, arrives)


def step(calls: str, says: str, arrives: bool = False, file: str = "", **variables: str) -> Case:
    files = {"planted": file} if file else {}
    return Case(STEP, [], {"CALLS": calls, "URL": "{url}", **variables}, says, files, arrives)


def kubeconfig(token: str) -> str:
    clusters = '"clusters": [{{"name": "a", "cluster": {{"server": "{url}"}}}}]'
    users = f'"users": [{{{{"name": "a", "user": {{{{"token": {json.dumps(token)}}}}}}}}}]'
    contexts = '"contexts": [{{"name": "a", "context": {{"cluster": "a", "user": "a"}}}}]'
    return f'{{{{"current-context": "a", {contexts}, {clusters}, {users}}}}}'


END = "does a password, token or key end with a line end?"
CASES = {
    "MLflow, a wrong token": mlflow("MLflow at {url}: refused", True, MLFLOW_TRACKING_TOKEN="planted-token"),
    "MLflow, a token with a line end": mlflow(END, MLFLOW_TRACKING_TOKEN="planted-token\n"),
    "MLflow, a wrong password": mlflow(
        "MLflow at {url}: refused",
        True,
        MLFLOW_TRACKING_USERNAME="planted-user",
        MLFLOW_TRACKING_PASSWORD="planted",
    ),
    "MLflow, a password with %": mlflow(
        "~/.mlflow/credentials cannot be read",
        file="[mlflow]\nmlflow_tracking_username=planted-user\nmlflow_tracking_password=%planted-1\n",
    ),
    "MLflow, a file without [mlflow]": mlflow(
        "~/.mlflow/credentials cannot be read", file="mlflow_tracking_password=planted-password\n"
    ),
    "MLflow, an address with a password": mlflow(
        "MLflow at http://…@127.0.0.1:9 does not answer",
        MLFLOW_TRACKING_URI="http://planted-user:planted-password@127.0.0.1:9",
    ),
    "S3, a wrong profile": s3(
        "error: ",
        True,
        "[team]\naws_access_key_id=planted-id\naws_secret_access_key=planted-secret\n"
        "aws_session_token=planted-session\n",
    ),
    "S3, half a profile": s3("Partial credentials", False, "[team]\naws_access_key_id=planted-id\n"),
    "S3, the other half": s3("no access (", False, "[team]\naws_secret_access_key=planted-secret\n"),
    "S3, a file that is none": s3("error: ", False, "[team\naws_secret_access_key=planted-secret\n"),
    "Kubeflow, a wrong token": kubeflow("refuses the credentials", True, KFP_EXISTING_TOKEN="planted-token"),
    "Kubeflow, a token with a line end": kubeflow(END, KFP_EXISTING_TOKEN="planted-token\n"),
    "Kubeflow, a wrong cookie": kubeflow(
        "refuses the credentials", True, MULTIVIEW_KUBEFLOW_COOKIE="a=planted-cookie"
    ),
    "Kubeflow, a cookie with a line end": kubeflow(END, MULTIVIEW_KUBEFLOW_COOKIE="a=planted-cookie\n"),
    "Kubeflow, a wrong file of a token": kubeflow(
        "refuses the credentials", True, KF_PIPELINES_SA_TOKEN_PATH="{folder}/token"
    ),
    "Kubeflow, a profile that is no YAML": kubeflow(
        "is not YAML", file="default:\n  token: planted-token: x\n"
    ),
    "Kubeflow, a token that begins with *": kubeflow(
        "found undefined alias '…'", file="default: {{token: *planted}}"
    ),
    "Kubeflow, a token that begins with !": kubeflow(
        "the tag '…'", file="default: {{token: !planted-token x}}"
    ),
    "Kubeflow, a token that begins with &": kubeflow(
        "second occurrence", file="default: {{token: &planted x, cookie: &planted x}}"
    ),
    "Kubeflow, secrets that are no texts": kubeflow(
        "token: ", file="default: {{token: [planted-1], cookie: [planted-2], app_client_secret: [planted-3]}}"
    ),
    "Kubernetes, a wrong token": step(
        "kubernetes", "401", True, kubeconfig("planted-token"), KUBECONFIG="{folder}/planted"
    ),
    "Kubernetes, a token with a line end": step(
        "kubernetes", "line end", file=kubeconfig("planted-token\n"), KUBECONFIG="{folder}/planted"
    ),
    "Qdrant, a wrong key": step("qdrant", "401", True, MULTIVIEW_QDRANT_API_KEY="planted-key"),
    "Qdrant, a key with a line end": step("qdrant", END, MULTIVIEW_QDRANT_API_KEY="planted-key\n"),
    "the hub, a wrong token": step(
        "hub", "cannot fetch team/bert", True, HF_TOKEN="planted-token", HF_ENDPOINT="{url}"
    ),
    "the hub, a wrong token in a file": step(
        "hub",
        "cannot fetch team/bert",
        True,
        "planted-token\n",
        HF_TOKEN_PATH="{folder}/planted",
        HF_ENDPOINT="{url}",
    ),
    "a webhook that refuses": step(
        "webhook", "127.0.0.1 answered 401", True, MULTIVIEW_NOTIFY_URL="{url}/planted-hook?key=planted-key"
    ),
    "a webhook that is no address": step("webhook", "MissingSchema", MULTIVIEW_NOTIFY_URL="planted-hook"),
    "a source that is signed": Case(
        MULTIVIEW, INSPECT, {"SOURCE": "{url}/c.jsonl?signature=planted-1"}, "Unauthorized", arrives=True
    ),
    "a signed source out of reach": Case(
        MULTIVIEW, INSPECT, {"SOURCE": "http://127.0.0.1:9/c.jsonl?signature=planted-1"}, "cannot be reached"
    ),
    "a source with a password": Case(
        MULTIVIEW,
        INSPECT,
        {"SOURCE": "http://planted-user:planted-1@127.0.0.1:9/c.jsonl"},
        "cannot be reached",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_nothing_of_a_secret_is_in_the_line_about_it(
    case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with always(401, json.dumps({"message": "refused"}).encode()) as server:

        def filled(text: str) -> str:
            return text.format(url=server.url, folder=tmp_path)

        for name, text in case.files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(filled(text))
        (tmp_path / "store").mkdir()
        given = {name: filled(value) for name, value in case.variables.items()}
        words = [filled(word) for word in case.words]
        if case.code == PIPELINES:
            with (
                mock.patch.dict(os.environ, variables(given, tmp_path), clear=True),
                mock.patch.object(sys, "argv", ["a-program", *words]),
                pytest.raises(SystemExit),
            ):
                run_app(app)
            printed = "".join([*capfd.readouterr(), caplog.text])
        else:
            code = f"import sys; sys.argv[0] = 'a-program'\n{case.code}"
            _, printed = said(code, given, *words, home=tmp_path)
    assert filled(case.says) in printed and not leaked(printed), printed
    assert leaked(*server.heads) == case.arrives, server.heads
