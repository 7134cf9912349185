"""A Cloud Storage emulator that also enforces `ifGenerationMatch=0`, which the package does not, and
that loses the first answer to an upload of any name with `lost-answer` in it.

Run as `python -m tests.bucket PORT BUCKET`; prints a line when it listens.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

ENVIRONMENT = {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
"""Must be set before gcsfs is imported; else each call waits a minute."""


def serve(port: int, bucket: str) -> None:
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
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=bucket)
    server.start()
    print("listening", flush=True)
    while True:
        time.sleep(3600)


@contextmanager
def emulated_bucket(port: int, bucket: str = "bucket") -> Iterator[dict[str, str]]:
    """A running emulator with one bucket; the environment that makes gcsfs use it."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.bucket", str(port), bucket], stdout=subprocess.PIPE, text=True
    )
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
    serve(int(sys.argv[1]), sys.argv[2])
