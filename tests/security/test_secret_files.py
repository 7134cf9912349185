"""Secrets in each file and variable that a library reads arrive where they belong, and are printed and written nowhere."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiview import tracking
from multiview.artifacts.store import LocalStore
from multiview.cli.inspection import show_inspection
from multiview.config import JsonObject
from multiview.config.overrides import gather, merge
from multiview.data.reading.files import shown_names
from multiview.plans.system import training
from multiview.steps.runs import Run, write_run
from tests.fixtures import inprocess, on_buckets
from tests.fixtures.bucket import emulated_bucket, free_port
from tests.fixtures.faulty_proxy import FaultyProxy, faulty_proxy
from tests.fixtures.hub_server import Hub, hub_serving
from tests.fixtures.planted_secrets import (
    always,
    files_with_secrets,
    leaked,
    said,
    service_account,
)
from tests.fixtures.project import Project
from tests.fixtures.reported_run import ReportedRun
from tests.fixtures.s3 import CREDENTIALS, s3_server
from tests.fixtures.servers import mlflow_server, new_database
from tests.fixtures.tiny import tiny_bert

CONTENT = """
for file in store.files(""):
    print(file, store.read(file))
print("all of", len(store.files("")), "files")
"""
"""Prints a store: after on_buckets.STORE, everything that is in the bucket."""


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Where programs have their home and temporary files; secrets are planted beside it."""
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def stored(scheme: str, environment: dict[str, str], scratch: Path) -> str:
    """What a program says that writes artifacts to a bucket, meets a damaged one, and prints the whole store."""
    code = (on_buckets.STORE + CONTENT).replace("gs://", f"{scheme}://")
    status, printed = said(code, {"TMPDIR": str(scratch), **environment}, home=scratch)
    assert status == 0 and "has 7 bytes instead of 5" in printed and "dev_questions" in printed, printed
    return printed


def test_a_profile_with_a_session_token_reaches_s3_alone(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[team]\naws_access_key_id = planted-id\naws_secret_access_key = planted-secret\n"
        "aws_session_token = planted-session\n"
    )
    with s3_server(free_port()) as server, faulty_proxy(server["AWS_ENDPOINT_URL"]) as proxy:
        environment = {
            **{name: value for name, value in CREDENTIALS.items() if "_KEY" not in name},
            "AWS_ENDPOINT_URL": proxy.url,
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
            "AWS_PROFILE": "team",
        }
        printed = stored("s3", environment, scratch)
    heard = "".join(proxy.headers)
    assert "Credential=planted-id/" in heard and "planted-session" in heard
    assert "planted-secret" not in heard + "".join(proxy.asked), "it signs, and stays here"
    assert not leaked(printed) and files_with_secrets(scratch) == []


def test_the_key_of_a_service_account_reaches_nobody_and_its_token_cloud_storage(
    tmp_path: Path, scratch: Path
) -> None:
    granted = {"access_token": "planted-access-token", "expires_in": 3600, "token_type": "Bearer"}
    with (
        always(200, json.dumps(granted).encode()) as tokens,
        emulated_bucket(free_port()) as server,
        faulty_proxy(server["STORAGE_EMULATOR_HOST"]) as proxy,
    ):
        content, part = service_account(f"{tokens.url}/token")
        (tmp_path / "key.json").write_text(json.dumps(content))
        environment = {
            **server,
            "STORAGE_EMULATOR_HOST": proxy.url,
            "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json"),
        }
        printed = stored("gs", environment, scratch)
        _, refused = said(on_buckets.REFUSED, {"TMPDIR": str(scratch), **environment}, home=scratch)
    assert tokens.heads and "Bearer planted-access-token" in "".join(proxy.headers)
    assert "gs://bucket/private: no access (" in refused
    assert not leaked(printed, refused) and part not in printed + refused
    assert files_with_secrets(scratch) == []
    assert not [file for file in scratch.rglob("*") if file.is_file() and part.encode() in file.read_bytes()]


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, FaultyProxy]]:
    """The folder of a real MLflow, which knows no users and takes every secret, and the proxy before it."""
    folder = tmp_path_factory.mktemp("mlflow")
    words = ["server", "--backend-store-uri", new_database(folder)]
    words += ["--artifacts-destination", str(folder / "artifacts")]
    with mlflow_server(words, folder) as address, faulty_proxy(address) as proxy:
        yield folder, proxy


MLFLOW = {
    "a token": ({"MLFLOW_TRACKING_TOKEN": "planted-token"}, {}, "Bearer planted-token"),
    "a password": (
        {"MLFLOW_TRACKING_USERNAME": "planted-user", "MLFLOW_TRACKING_PASSWORD": "planted-password"},
        {},
        "Basic cGxhbnRlZC",
    ),
    "MLflow's file": (
        {},
        {
            ".mlflow/credentials": "[mlflow]\nmlflow_tracking_username = planted-user\n"
            "mlflow_tracking_password = planted-password\n"
        },
        "Basic cGxhbnRlZC",
    ),
    "its address": ({}, {}, "Basic cGxhbnRlZC"),
    "netrc": ({}, {".netrc": "machine 127.0.0.1 login planted-user password planted"}, "Basic cGxhbnRlZC"),
}
"""Where MLflow's client finds a secret: variables, files of the home, and the header that it makes of them."""


@pytest.mark.parametrize("place", MLFLOW)
def test_a_secret_for_mlflow_is_in_its_header_alone(
    place: str, mlflow: tuple[Path, FaultyProxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    folder, proxy = mlflow
    variables, files, header = MLFLOW[place]
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("TOKEN", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for name, text in files.items():
        (tmp_path / "home" / name).parent.mkdir(parents=True)
        (tmp_path / "home" / name).write_text(text)
    proxy.reset(lambda number, method, path: "none")
    user = "planted-user:planted-password@" if place == "its address" else ""
    uri = proxy.url.replace("//", f"//{user}")
    reported = ReportedRun(tmp_path / "store", uri, f"run-{len(list(tmp_path.parent.iterdir()))}-{place}")
    reported.report_all()
    assert tracking.ship(reported.store, reported.run.id, uri)
    assert len(proxy.headers) > 20 and all(header in each for each in proxy.headers)
    assert not leaked(*proxy.asked, *capfd.readouterr())
    assert files_with_secrets(folder) + files_with_secrets(tmp_path / "store") == []


SOURCES = {"FIRST": "first", "SECOND": "second"}


def test_a_source_s_password_and_signature_are_in_no_record_no_event_and_no_inspection(
    website: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    """Of two files of one name, which messages tell apart by their addresses."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    project = Project.make(tmp_path / "project")
    for name, folder in SOURCES.items():
        (tmp_path / folder).mkdir()
        address = f"{website}/{folder}/train.json?signature=planted-signature"
        monkeypatch.setenv(name, address.replace("//", "//planted-user:planted-password@", 1))
    for folder, file in {"first": "train.json", "second": "dev.json"}.items():
        shutil.copy(tmp_path / "project" / "corpus" / file, tmp_path / folder / "train.json")
    assert not leaked(*shown_names([os.environ[name] for name in SOURCES]).values())
    sources = {
        "corpus": {"source": ["${FIRST}", "${SECOND}"]},
        "questions": {"source": "${FIRST}", "dev_source": "${SECOND}"},
    }
    settings = merge(gather(str(tmp_path / "project" / "tiny.yaml"), []), sources)
    plan, store = training(settings), LocalStore(tmp_path / "project" / "store")
    for path in [path for path in plan.nodes if str(path) != "split"]:
        del plan.nodes[path]
    config: JsonObject = json.loads(json.dumps(settings))
    write_run(store, Run(id="run", pipeline="training", config=config, steps=["split"], architectures={}))
    inprocess.run_plan(plan, store)
    shipped, failed = tracking.sync(store, project.tracking)
    assert shipped == ["run"] and not failed
    show_inspection((), (), ["corpus.source=${FIRST}", "questions.source=${FIRST}", "corpus.shards=1"])
    assert store.files("passages") and not leaked(*capfd.readouterr())
    assert files_with_secrets(tmp_path / "project") == []


STAGED = """
import sys
from multiview.model.base_model.checkpoint import base_fingerprint, staged_base
print(base_fingerprint("team/bert"))
with staged_base("team/bert") as folder:
    print(folder)
"""


@pytest.mark.parametrize("place", ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME"])
def test_a_token_for_the_hub_is_in_its_header_alone(place: str, tmp_path: Path, scratch: Path) -> None:
    bert, cache = tiny_bert(tmp_path / "bert"), scratch / "hub"
    cache.mkdir()
    file = cache / "token" if place == "HF_HOME" else tmp_path / "token"
    if place != "HF_TOKEN":
        file.write_text("planted-hub-token\n")
    value = {"HF_TOKEN": "planted-hub-token", "HF_TOKEN_PATH": str(file), "HF_HOME": str(cache)}[place]
    with hub_serving(Hub({"team/bert": bert})) as hub, faulty_proxy(hub.url) as proxy:
        environment = {"HF_ENDPOINT": proxy.url, "TMPDIR": str(scratch), "HF_HOME": str(cache), place: value}
        status, printed = said(STAGED, environment, home=scratch)
    assert status == 0 and hub.fetched, printed
    with_token = ["Bearer planted-hub-token" in each for each in proxy.headers]
    # Its client also asks for /api/agent-harnesses, without the token.
    assert with_token == ["team/bert" in each for each in proxy.asked] and any(with_token)
    assert not leaked(printed, *proxy.asked) and files_with_secrets(scratch, file) == []
