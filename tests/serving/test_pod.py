"""The command of `manifests/serving`'s pods, run here over a champion in a bucket."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import requests

from tests.fixtures.answering_server import Client
from tests.fixtures.bucket import Asked, emulated_bucket, free_port
from tests.fixtures.crowned import promote
from tests.fixtures.on_buckets import run_on
from tests.fixtures.overlays import pods
from tests.fixtures.system_indexes import SystemIndexes

UPLOAD = """
import sys
from pathlib import Path
from multiview.artifacts.store import open_store
local, store = Path(sys.argv[1]), open_store("gs://bucket/served")
for file in local.rglob("*"):
    if file.is_file():
        store.create(file.relative_to(local).as_posix(), file.read_bytes())
"""
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def pod_environment(folder: Path, bucket: dict[str, str]) -> dict[str, str]:
    """What the image and the pod set, with a scratch folder here; `multiview` is this checkout's."""
    program = folder / "bin" / "multiview"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from multiview.cli.app import main; main()" "$@"\n'
    )
    program.chmod(0o755)
    scratch = str(folder / "scratch")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("MULTIVIEW_")},
        **bucket,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "MULTIVIEW_STORE": "gs://bucket/served",
        "MULTIVIEW_SCRATCH": scratch,
        "TMPDIR": scratch,
    }


def test_its_command_answers_probes_and_questions_and_only_reads_the_store(
    indexes: SystemIndexes, tmp_path: Path
):
    ((manifest, pod),) = pods("serving/overlays/gke")
    (container,) = pod["containers"]
    promote(copy := indexes.copy(tmp_path / "store"), "camvr")
    left = tmp_path / "scratch" / "multiview-killed" / "views"
    left.parent.mkdir(parents=True)
    left.write_text("copies of a container that was killed")
    (tmp_path / "api-keys").write_text("secret\n")
    words = [word.replace("/etc/multiview", str(tmp_path)) for word in container["args"]]
    log = tmp_path / "requests"
    with emulated_bucket(free_port(), log=log) as bucket:
        run_on(bucket, UPLOAD, str(copy.store.root))
        uploaded = len(Asked.read(log, ""))
        server = subprocess.Popen(
            [*container["command"], *words, "--port=0"],
            env=pod_environment(tmp_path, bucket),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            printed = ""
            assert server.stdout is not None
            while not (port := re.search(r"running on http://0\.0\.0\.0:(\d+)", printed)):
                line = server.stdout.readline()
                assert line, printed
                printed += line
            assert not left.exists()
            client = Client(f"http://127.0.0.1:{port[1]}", {"Authorization": "Bearer secret"})
            paths = [container[probe]["httpGet"]["path"] for probe in PROBES]
            annotations = manifest["spec"]["template"]["metadata"]["annotations"]
            for path in (*paths, annotations["prometheus.io/path"]):
                assert requests.get(f"{client.url}{path}", timeout=60).status_code == 200, path
            assert requests.post(f"{client.url}/search", json={}, timeout=60).status_code == 401
            assert client.search("Where was Tesla born?")["champion"] == 1
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)
            assert server.returncode == 0 and not any((tmp_path / "scratch").iterdir())
        finally:
            server.kill()
            server.communicate()
        asked = Asked.read(log, "")[uploaded:]
    assert {request.method for request in asked} == {"GET"}, "an account that may only read is enough"
    for request in asked:
        path, _, query = request.path.partition("?")
        assert "/o/served/" in path or "&prefix=served/" in query, "and one that may read this store alone"
