"""Real servers and databases that tests talk to."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import requests
from filelock import FileLock
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from tests.bucket import free_port


def new_database(folder: Path) -> str:
    """The URI of a new MLflow database in `folder`: the copy of one, because to make one takes ten seconds."""
    template = Path(tempfile.gettempdir()) / f"multiview-tests-mlflow-{version('mlflow')}.db"
    with FileLock(f"{template}.lock"):
        if not template.exists():
            made = template.with_suffix(".part")
            made.unlink(missing_ok=True)
            # In a process of its own, which does not keep it open.
            code = f"from mlflow import MlflowClient; MlflowClient('sqlite:///{made}').search_experiments()"
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
            made.rename(template)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(template, folder / "mlflow.db")
    return f"sqlite:///{folder}/mlflow.db"


@contextmanager
def mlflow_server(words: list[str], folder: Path) -> Iterator[str]:
    """MLflow's server, by the words after `mlflow`, with one worker, on a port of its own; its address once it answers."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", *words, "--port", str(port), "--workers", "1"]
    # Without the processes that would run jobs, which nobody asks for.
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    server = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder
    )
    assert server.stdout is not None
    try:
        seen = b""
        for line in iter(server.stdout.readline, b""):
            seen += line
            if b"startup complete" in line.lower():
                break
        else:
            raise AssertionError(seen.decode())
        with requests.Session() as session:  # it may say so before it listens
            session.mount(
                "http://", HTTPAdapter(max_retries=Retry(connect=30, backoff_factor=0.1, backoff_max=1))
            )
            session.get(f"http://127.0.0.1:{port}/health", timeout=60).raise_for_status()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.communicate(timeout=60)
