"""Servers of buckets and web pages: protocols, time-outs, and clear errors for a refusal or no answer."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from multiview import environment
from multiview.errors import InputError

PROTOCOLS = {"gs": "gs", "gcs": "gs", "s3": "s3", "s3a": "s3"}
"""Protocols of buckets, with their canonical spelling."""

CREDENTIALS = {
    "gs": "`gcloud auth application-default login`, a key file named by GOOGLE_APPLICATION_CREDENTIALS, or the "
    "pod's service account",
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the pod's service account",
}
"""Sources of credentials, by protocol."""

REFUSED = (401, 403)

# gcsfs logs the traceback of a failed request, which without any handler goes to the terminal.
logging.getLogger("gcsfs").addHandler(logging.NullHandler())


@contextmanager
def credentials_explained(url: str) -> Iterator[None]:
    """Turns a bucket's error about missing or insufficient credentials into an InputError that names `url`."""
    try:
        yield
    except Exception as error:
        protocol = PROTOCOLS.get(url.partition("://")[0])
        if protocol is None or not _is_refusal(error):
            raise
        raise InputError(
            f"{url}: no access ({' '.join(str(error).split())}); credentials come from {CREDENTIALS[protocol]}"
        ) from error


def _is_refusal(error: Exception) -> bool:
    """Whether a bucket's library lacks credentials, or its server refuses them. Compares names, to import no library."""
    library, _, _ = type(error).__module__.partition(".")
    return (
        isinstance(error, PermissionError)
        or (library == "botocore" and "Credential" in type(error).__name__)
        or (library == "google" and "Credentials" in type(error).__name__)
        # gcsfs: an attribute `code`, and for 403 an OSError with nothing but text
        or getattr(error, "code", None) in REFUSED
        or (isinstance(error, OSError) and str(error).startswith("Forbidden"))
    )


if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

CONNECT_SECONDS = 10.0
"""Time to connect to a server before it counts as out of reach."""
LONGEST_PAUSE = 60.0
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

    limits = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=LONGEST_PAUSE)
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
    """Raises InputError if there is no connection to the server behind a `gs://`, `s3://` or web address.

    The libraries repeat each request, for up to minutes. Nothing is checked where requests go through a proxy, and in a
    pod, whose network may come late. A server that was reached once is not tried again.
    """
    if environment.KUBERNETES_HOST in os.environ:
        return
    address = _server(fs, url)
    try:
        _connect(address)
    except TimeoutError:
        raise InputError(
            f"{url}: {_host(address)} does not answer within {CONNECT_SECONDS:g} s; {WAY_OUT}"
        ) from None
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
def _connect(address: str) -> None:
    """Raises OSError if there is no connection to the server of an address."""
    server = urlsplit(address)
    if server.hostname and server.scheme not in getproxies():
        port = server.port or (443 if server.scheme == "https" else 80)
        socket.create_connection((server.hostname, port), timeout=CONNECT_SECONDS).close()
