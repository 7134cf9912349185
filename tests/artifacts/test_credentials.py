"""Buckets that cannot be reached, or not without credentials, are one line."""

import logging
import subprocess
import sys
from collections.abc import Iterator

import fsspec
import pytest

from multiview.artifacts.credentials import check_reachable
from multiview.artifacts.store import open_store
from multiview.data.reading.sources import expand_source
from multiview.errors import InputError
from tests.fixtures.bucket import free_port


@pytest.fixture
def nowhere(monkeypatch) -> Iterator[str]:
    """The address of an emulator that does not run."""
    host = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{host}")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    fsspec.get_filesystem_class("gs").clear_instance_cache()
    yield host
    fsspec.get_filesystem_class("gs").clear_instance_cache()


def test_a_server_out_of_reach_is_a_line_at_once(nowhere, monkeypatch):
    """gcsfs repeats a request for 30 s, twice, and logs two tracebacks."""
    line = rf"gs://b/p\.jsonl: {nowhere} cannot be reached .*; check the network"
    with pytest.raises(InputError, match=line):
        expand_source("gs://b/p.jsonl", "corpus")
    with pytest.raises(InputError, match=rf"gs://b/store: {nowhere} cannot be reached"):
        open_store("gs://b/store").read("runs/x/run.json")
    fs, _ = fsspec.url_to_fs("gs://b/store")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    check_reachable(fs, "gs://b/store")  # there gcsfs waits for the network
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    check_reachable(fs, "gs://b/other")


def test_tracebacks_of_gcsfs_do_not_go_to_the_terminal():
    code = (
        "import logging, multiview.artifacts.credentials\n"
        "try: 1 / 0\n"
        "except Exception: logging.getLogger('gcsfs.retry').exception('out of retries')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("gcsfs").handlers)
