"""Servers of buckets and web pages: time-outs, and clear errors for a server out of reach or without an answer."""

from __future__ import annotations

import os
import ssl
import string
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

from multiview import environment
from multiview.errors import InputError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

SECONDS = 10.0
"""Time to reach a server, and then until its first answer, before it counts as out of reach."""
PAUSE = 60.0
"""Longest time between two pieces of an answer. A transfer that moves may take as long as it needs."""
WAY_OUT = "check the address and the network, or try again later"
GAVE_UP = {
    ("aiohttp", "ClientConnectionError"),
    ("botocore", "ConnectionError"),
    ("botocore", "HTTPClientError"),
    ("requests", "ConnectionError"),
    ("requests", "Timeout"),
}
"""Libraries' errors for a server without an answer."""


def time_outs(url: str) -> dict[str, Any]:
    """Returns fsspec's options that end requests to a server which has gone silent, and no others.

    aiohttp, which gcsfs and fsspec's file system for the web build on, would end every transfer after 300 s. s3fs has
    time-outs of this kind itself.
    """
    scheme = url.partition("://")[0]
    if scheme not in ("http", "https", "gs", "gcs"):
        return {}
    from aiohttp import ClientTimeout

    limits = ClientTimeout(total=None, sock_connect=SECONDS, sock_read=PAUSE)
    return {"requests_timeout": limits} if scheme in ("gs", "gcs") else {"client_kwargs": {"timeout": limits}}


def file_system(url: str, **options: Any) -> tuple[AbstractFileSystem, str]:
    """Returns the file system of an address and the path in it, with `options` and our time-outs.

    gcsfs looks for credentials at once, on the network too, and again and again. So where Cloud Storage is out of reach
    the file system has none; `check_reachable` says so before the first request.
    """
    from fsspec.core import url_to_fs

    options |= time_outs(url)
    if url.startswith(("gs://", "gcs://")):
        anonymous = url_to_fs(url, token="anon", **options)
        try:
            check_reachable(anonymous[0], url)
        except InputError:
            return anonymous
    return url_to_fs(url, **options)


def check_reachable(fs: AbstractFileSystem, url: str) -> None:
    """Raises InputError if the server behind a `gs://`, `s3://` or web address is out of reach or does not answer.

    The libraries would wait for minutes, because they repeat each request. Any answer will do, also a refusal. Nothing
    is checked where requests go through a proxy, and in a pod, whose network may come late. A server that answered once
    is not asked again.
    """
    if environment.KUBERNETES_HOST in os.environ:
        return
    address = _server(fs, url)
    try:
        _ask(address)
    except TimeoutError:
        raise InputError(f"{url}: {_host(address)} does not answer within {SECONDS:g} s; {WAY_OUT}") from None
    except OSError as error:
        raise InputError(f"{url}: {_host(address)} cannot be reached ({error}); {WAY_OUT}") from None


@contextmanager
def silence_explained(url: str) -> Iterator[None]:
    """Turns the error of a library that gave up on a silent or lost server into an InputError that names `url`."""
    try:
        yield
    except Exception as error:
        if not _gave_up(error):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{url}: the server cannot be reached ({reason}); {WAY_OUT}") from error


def of_the_web(error: Exception) -> bool:
    """Whether an error is of a library that asks servers: they refuse, break off, or answer no HTTP."""
    return _library(type(error)) in ("aiohttp", "botocore")


def _gave_up(error: Exception) -> bool:
    """Whether an error means that there was no answer."""
    kinds = {(_library(kind), kind.__name__) for kind in type(error).__mro__}
    return isinstance(error, TimeoutError | ConnectionError) or not kinds.isdisjoint(GAVE_UP)


def _library(kind: type) -> str:
    """Returns the name of the library that has a class, so that errors are told apart and no library is imported."""
    return kind.__module__.partition(".")[0]


def _server(fs: AbstractFileSystem, url: str) -> str:
    """Returns the address that a file system's first request goes to; empty for other file systems."""
    scheme = url.partition("://")[0]
    if scheme in ("gs", "gcs"):
        return str(getattr(fs, "base", ""))
    if scheme in ("s3", "s3a"):
        from fsspec.asyn import sync

        # Without credentials s3fs refuses before it asks. botocore finds the address in variables, profiles and regions.
        if not sync(fs.loop, fs.s3 and fs.session.get_credentials):  # pyright: ignore[reportAttributeAccessIssue]
            return ""
        return str(fs.s3.meta.endpoint_url)  # pyright: ignore[reportAttributeAccessIssue]
    return url if scheme in ("http", "https") else ""


def _host(address: str) -> str:
    """Returns the host and port of an address, without the name and password that may stand before them."""
    return urlsplit(address).netloc.rpartition("@")[2]


@lru_cache
def _ask(address: str) -> None:
    """Raises OSError if the server does not answer a request for this address, whatever the answer."""
    server = urlsplit(address)
    if not server.hostname or server.scheme in getproxies():
        return
    target = quote(
        server._replace(scheme="", netloc="", fragment="").geturl() or "/", safe=string.punctuation
    )
    kind = HTTPSConnection if server.scheme == "https" else HTTPConnection
    connection = kind(server.hostname, server.port, timeout=SECONDS)
    try:
        connection.connect()
        with suppress(ConnectionError, HTTPException):  # not silent: the library asks, and may repeat it
            connection.request("HEAD", target)
            connection.getresponse()
    except ssl.SSLError:
        return  # it answers, and the library knows which certificates it trusts
    finally:
        connection.close()
