"""A Cloud Storage emulator that also enforces `ifGenerationMatch=0`, which the package does not. Of names with
these words in them it

- loses the first answer to an upload: `lost-answer`;
- answers 503 to the first of equal requests: `busy`;
- refuses everything to those without a name, as Google does: `private`.

It writes a line of JSON for each request (see `Asked`). Run as `python -m tests.bucket PORT BUCKET LOG`; prints a line
when it listens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

ENVIRONMENT = {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false", "NO_GCE_CHECK": "true"}
"""Must be set before gcsfs is imported; else each call waits a minute, and each process fifteen seconds for a
server that only Google's machines have."""


class Asked(NamedTuple):
    """A request that a server has answered, and how many bytes it got and gave."""

    method: str
    path: str
    received: int
    sent: int

    @classmethod
    def read(cls, log: Path, word: str) -> list[Asked]:
        """The requests whose path has the word in it."""
        found = [cls(*json.loads(line)) for line in log.read_text().splitlines()]
        return [one for one in found if word in one.path]


REFUSAL = {
    "code": 401,
    "message": "Anonymous caller does not have storage.objects.get access to the Google Cloud Storage object. "
    "Permission 'storage.objects.get' denied on resource (or it may not exist).",
}


def serve(port: int, bucket: str, log: str) -> None:
    from gcp_storage_emulator.exceptions import NotFound
    from gcp_storage_emulator.handlers import objects

    plain, lock = objects.insert, threading.Lock()
    unanswered: set[str] = set()

    def insert(request, response, storage, *args, **kwargs):
        with lock:
            if request.query.get("ifGenerationMatch") == ["0"]:
                name = request.query.get("name") or [(request.data.get("meta") or request.data)["name"]]
                try:
                    storage.get_file_obj(request.params["bucket_name"], name[0])
                except NotFound:
                    pass
                else:
                    response.status = HTTPStatus.PRECONDITION_FAILED
                    response.json({"error": {"code": 412, "message": "conditionNotMet"}})
                    return
            plain(request, response, storage, *args, **kwargs)
            name = (request.query.get("name") or [""])[0]
            if "lost-answer" in name and name not in unanswered:
                unanswered.add(name)
                response.status = HTTPStatus.SERVICE_UNAVAILABLE
            return

    objects.insert = insert
    from gcp_storage_emulator import server as emulator
    from gcp_storage_emulator.server import create_server

    handle, close = emulator.Router.handle, emulator.Response.close
    asked: set[tuple[str, str]] = set()

    def faulty(self, method):
        handler = self._request_handler
        request = (method, handler.path)
        refusal = None
        if "private" in handler.path:
            refusal = (401, json.dumps({"error": REFUSAL}).encode())
        elif "busy" in handler.path and request not in asked:
            asked.add(request)
            refusal = (503, b"")
        if refusal is None:
            handle(self, method)
            return
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        handler.send_response(refusal[0])
        handler.send_header("Content-Length", str(len(refusal[1])))
        handler.end_headers()
        handler.wfile.write(refusal[1])

    def counted(self):
        handler = self._handler
        received = int(handler.headers.get("Content-Length") or 0)
        with Path(log).open("a") as lines:
            line = Asked(handler.command, unquote(handler.path), received, len(self._content))
            lines.write(json.dumps(line) + "\n")
        close(self)

    emulator.Router.handle, emulator.Response.close = faulty, counted
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=bucket)
    server.start()
    print("listening", flush=True)
    while True:
        time.sleep(3600)


@contextmanager
def emulated_bucket(
    port: int, bucket: str = "bucket", log: Path = Path(os.devnull)
) -> Iterator[dict[str, str]]:
    """A running emulator with one bucket; the environment that makes gcsfs use it."""
    command = [sys.executable, "-m", "tests.bucket", str(port), bucket, str(log)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == "listening"
        yield {**ENVIRONMENT, "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"}
    finally:
        server.kill()
        server.wait()


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3])
