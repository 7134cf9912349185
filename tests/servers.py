"""Real servers that tests talk to."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bucket import free_port


@contextmanager
def mlflow_server(words: list[str], folder: Path) -> Iterator[str]:
    """MLflow's server, by the words after `mlflow`, with one worker, on a port of its own; its address once it answers."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", *words, "--port", str(port), "--workers", "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder)
    assert server.stdout is not None
    try:
        seen = b""
        for line in iter(server.stdout.readline, b""):
            seen += line
            if b"startup complete" in line.lower():
                break
        else:
            raise AssertionError(seen.decode())
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.communicate(timeout=60)
