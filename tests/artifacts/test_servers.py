"""Servers that are out of reach, silent, or slow."""

import re
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import pytest

from multiview.artifacts import servers
from multiview.artifacts.servers import check_reachable
from multiview.artifacts.store import BucketStore, open_store
from multiview.data.reading.files import open_stream
from multiview.data.reading.sources import expand_source
from multiview.errors import InputError
from tests.fixtures.bucket import free_port
from tests.fixtures.servers import answering

ADDRESSES = ["gs://b/p", "s3://b/p", "http://{host}/p"]


@pytest.fixture(autouse=True)
def direct(monkeypatch) -> Iterator[None]:
    """Outside a pod and without proxies, with no file system of an earlier test."""
    for name in ("KUBERNETES_SERVICE_HOST", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a-name")
    protocols = [fsspec.get_filesystem_class(protocol) for protocol in ("gs", "s3", "http")]
    for protocol in protocols:
        protocol.clear_instance_cache()
    yield
    for protocol in protocols:
        protocol.clear_instance_cache()


def buckets_at(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{host}")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}")


@pytest.fixture
def nowhere(monkeypatch) -> str:
    """The address of a server that does not run."""
    host = f"127.0.0.1:{free_port()}"
    buckets_at(host, monkeypatch)
    return host


def refused_source(url: str, line: str) -> None:
    """A corpus at an address is refused with a line."""
    with pytest.raises(InputError, match=line):
        expand_source(url, "corpus")


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_server_out_of_reach_is_one_line_at_once(nowhere, address):
    """gcsfs would repeat a request for 30 s, twice, and log two tracebacks."""
    url = address.format(host=nowhere)
    line = rf"{re.escape(url)}: {nowhere} cannot be reached \(.*refused\); check the address and the network"
    refused_source(url, line)
    if not url.startswith("http"):
        with pytest.raises(InputError, match=line):
            open_store(url).read("runs/x/run.json")


def test_neither_a_pod_nor_a_proxy_is_checked(nowhere, monkeypatch):
    fs, _ = fsspec.url_to_fs("gs://b/store")
    with pytest.raises(InputError, match="cannot be reached"):
        check_reachable(fs, "gs://b/store")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    check_reachable(fs, "gs://b/store")  # there gcsfs waits for the network
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    check_reachable(fs, "gs://b/store")


def test_a_server_that_a_library_gives_up_on_is_one_line(nowhere, monkeypatch):
    """As in a pod; there s3fs repeats each request, here it does not."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    store = open_store("s3://b/store")
    assert isinstance(store, BucketStore)
    monkeypatch.setattr(store.fs, "retries", 1)
    for act in (store.read, store.files, lambda path: store.create(path, b"x")):
        with pytest.raises(InputError, match=rf"s3://b/store: the server cannot be reached \(.*{nowhere}"):
            act("runs/x/run.json")
    with pytest.raises(InputError, match=rf"s3://b/p\.jsonl: cannot be read \(.*{nowhere}"):
        expand_source("s3://b/p.jsonl", "corpus")


def test_a_local_file_asks_no_server(tmp_path):
    fs, _ = fsspec.url_to_fs(str(tmp_path))
    check_reachable(fs, str(tmp_path))
    assert servers.time_outs(str(tmp_path)) == {}


class Slow(BaseHTTPRequestHandler):
    """A web server that sends a byte every tenth of a second, and under `/half` stops midway."""

    def log_message(self, format, *args):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.end_headers()

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.end_headers()
        for number in range(10):
            if number == 5 and self.path == "/half":
                time.sleep(2)
                return
            self.wfile.write(b"x")
            time.sleep(0.1)


def test_a_transfer_is_cut_when_it_stands_and_not_when_it_is_slow(monkeypatch):
    monkeypatch.setattr(servers, "CONNECT_SECONDS", 0.6)
    monkeypatch.setattr(servers, "LONGEST_PAUSE", 0.6)
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Slow)) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        with open_stream(f"{url}/whole") as stream:
            assert stream.read() == b"x" * 10
        started = time.monotonic()
        with (
            pytest.raises(InputError, match=rf"{url}/half: cannot be read"),
            open_stream(f"{url}/half") as stream,
        ):
            stream.read()
        assert time.monotonic() - started < 60, "not aiohttp's five minutes"


def test_no_credentials_are_looked_for_where_cloud_storage_is_out_of_reach(nowhere, monkeypatch):
    """Without any, gcsfs asks for them on the network, again and again; with an emulator it needs none."""
    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    monkeypatch.setattr("gcsfs.core._location", lambda *given: f"http://{nowhere}")
    monkeypatch.setattr("google.auth.default", lambda **given: pytest.fail("looks for credentials"))
    with pytest.raises(InputError, match=f"^gs://bucket/store: {nowhere} cannot be reached"):
        open_store("gs://bucket/store").read("runs")
    refused_source("gs://bucket/corpus.jsonl", f"{nowhere} cannot be reached")


def test_a_line_about_a_server_holds_no_password(nowhere):
    with pytest.raises(InputError) as refused:
        expand_source(f"http://ann:secret@{nowhere}/p.jsonl", "corpus")
    assert nowhere in str(refused.value) and "secret" not in str(refused.value)
