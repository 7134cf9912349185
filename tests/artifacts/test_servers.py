"""Servers that are out of reach, silent, or slow."""

import logging
import re
import time
from collections.abc import Iterator

import fsspec
import pytest

from multiview.artifacts import servers
from multiview.artifacts.store import open_store
from multiview.data.reading.files import open_stream
from multiview.data.reading.sources import expand_source
from multiview.errors import InputError, one_line
from tests.fixtures.bucket import free_port
from tests.fixtures.bucket_kinds import without_sleep
from tests.fixtures.servers import Handler, answering_by

ADDRESSES = ["gs://b/p", "s3://b/p", "http://{host}/p"]


@pytest.fixture(autouse=True)
def direct(monkeypatch) -> Iterator[None]:
    """Without proxies and file systems of an earlier test."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
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


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_server_out_of_reach_is_one_line(nowhere, address, monkeypatch):
    """The libraries ask again and again: here at once."""
    monkeypatch.setattr("gcsfs.retry.asyncio", without_sleep())
    monkeypatch.setattr("s3fs.core.asyncio", without_sleep())
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    url = address.format(host=nowhere)
    line = rf"^{re.escape(url)}: the server cannot be reached \(.*{nowhere}.*\); check the address and the network"
    with pytest.raises(InputError, match=line):
        expand_source(url, "corpus")
    if not url.startswith("http"):
        store = open_store(url)
        for act in (store.read, store.files, lambda path: store.create(path, b"x")):
            with pytest.raises(InputError, match=line):
                act("runs/x/run.json")


@pytest.mark.parametrize("address", ADDRESSES[:2])
@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, r"no access \(.*\); credentials"),
        (429, "the server answers 429 .*; try again later"),
        (503, ".*later"),
    ],
)
def test_a_server_that_refuses_all_is_one_line(address, status, says, monkeypatch):
    monkeypatch.setattr("gcsfs.retry.asyncio", without_sleep())
    monkeypatch.setattr("s3fs.core.asyncio", without_sleep())
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    class Refusing(Handler):
        def do_GET(self):
            self.send_error(status)

        do_HEAD = do_PUT = do_POST = do_GET

    with answering_by(Refusing) as url:
        buckets_at(url.removeprefix("http://"), monkeypatch)
        with pytest.raises(InputError, match=f"^{address}: {says}"):
            open_store(address).folders("")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("AWS_PROFILE", "nope", "no access .*nope.*AWS_PROFILE"),
        ("AWS_ENDPOINT_URL", "host:1", "reached .*host:1"),
    ],
)
def test_a_mistake_in_the_environment_of_s3_is_one_line(nowhere, name, value, says, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"^s3://b/p: .*{says}"):
        open_store("s3://b/p").folders("")


@pytest.mark.parametrize("url", ["s3://my bucket!/x", "s3://user:planted@bucket/x"])
def test_a_name_that_no_bucket_has_is_one_line(nowhere, url):
    with pytest.raises(InputError, match=r"no bucket has such a name; check the address$") as refused:
        open_store(url).folders("")
    assert "planted" not in one_line(refused.value)


@pytest.mark.parametrize(
    "url", ["gs://b/p::v2", "s3://b/p::v2", "gs://b/p#2", "gs://b/p#2/", "s3://b/p?versionId=3", "s3://b//p"]
)
def test_a_prefix_that_a_library_would_cut_off_is_no_store(url):
    with pytest.raises(InputError, match="would read as more than a name; name another folder$"):
        open_store(url)


def test_a_prefix_of_s3_may_hold_a_number_sign(monkeypatch):
    """Which s3fs does not read, unlike gcsfs."""
    buckets_at("localhost:1", monkeypatch)
    assert open_store("s3://b/p#2").url == "s3://b/p#2"


class Slow(Handler):
    """A web server that sends a byte every tenth of a second, and under `/half` stops midway."""

    protocol_version = "HTTP/1.0"

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
    with answering_by(Slow) as url:
        with open_stream(f"{url}/whole") as stream:
            assert stream.read() == b"x" * 10
        started = time.monotonic()
        with (
            pytest.raises(InputError, match=rf"{url}/half: the server cannot be reached"),
            open_stream(f"{url}/half") as stream,
        ):
            stream.read()
        assert time.monotonic() - started < 60, "not aiohttp's five minutes"


def test_a_file_in_an_archive_is_no_question_of_credentials():
    """s3fs makes a PermissionError of it, as of a refusal."""
    lines = []
    for reason in ("The operation is not valid for the object's storage class", "Access Denied"):
        with pytest.raises(InputError) as caught, servers.errors_explained("s3://b/p.jsonl"):
            raise PermissionError(reason)
        lines.append(str(caught.value))
    assert re.fullmatch(r"s3://b/p.jsonl: archived \(.*storage class\); restore it first", lines[0])
    assert re.search("no access .*AWS_PROFILE.*for a public bucket FSSPEC_S3_ANON=true", lines[1])


def test_a_line_about_a_server_holds_no_password(nowhere):
    with pytest.raises(InputError) as refused:
        expand_source(f"http://ann:secret@{nowhere}/p.jsonl", "corpus")
    assert nowhere in str(refused.value) and "secret" not in str(refused.value)


def test_tracebacks_of_gcsfs_do_not_go_to_the_terminal():
    """A handler of its own keeps Python's last resort away."""
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("gcsfs").handlers)
