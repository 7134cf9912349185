"""Servers of buckets and web pages: protocols, time-outs, and clear errors where one refuses or does not answer."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fsspec import AbstractFileSystem, url_to_fs

from multiview.errors import InputError

PROTOCOLS = {"gs": "gs", "gcs": "gs", "s3": "s3", "s3a": "s3"}
"""Protocols of buckets, with their canonical spelling."""

CREDENTIALS = {
    "gs": "`gcloud auth application-default login`, a key file named by GOOGLE_APPLICATION_CREDENTIALS, the "
    "pod's service account, or for a public bucket FSSPEC_GS_TOKEN=anon",
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, the pod's account, or for a public bucket FSSPEC_S3_ANON=true",
}

CONNECT_SECONDS = 10.0
"""Time to connect to a server before it counts as out of reach."""
LONGEST_PAUSE = 60.0
"""Longest time between two pieces of an answer. A transfer that moves may take as long as it needs."""
SILENT = {
    ("aiohttp", "ClientConnectionError"),
    ("botocore", "ConnectionError"),
    ("botocore", "HTTPClientError"),
    ("requests", "ConnectionError"),
    ("requests", "Timeout"),
}
"""Libraries' errors for a server that does not answer: module and class."""
BUSY = (429, 500, 502, 503, 504)
"""Answers of a server that may be another one later."""

# They log tracebacks of errors that they retry or raise anyway; without a handler, these would go to the terminal.
for library in ("aiohttp", "asyncio", "botocore", "fsspec", "gcsfs", "s3fs", "urllib3"):
    logging.getLogger(library).addHandler(logging.NullHandler())


def time_outs(url: str) -> dict[str, Any]:
    """Returns the fsspec options that end requests to a server that has gone silent; s3fs needs none.

    By default aiohttp, on which gcsfs and fsspec's file system for the web build, ends every transfer after 300 s.
    """
    scheme = url.partition("://")[0]
    if scheme not in ("http", "https", "gs", "gcs"):
        return {}
    from aiohttp import ClientTimeout

    limits = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=LONGEST_PAUSE)
    return {"requests_timeout": limits} if scheme in ("gs", "gcs") else {"client_kwargs": {"timeout": limits}}


def file_system(url: str, **options: Any) -> tuple[AbstractFileSystem, str]:
    """Returns the file system of a URL, with `options` and our time-outs, and the path in it."""
    return url_to_fs(url, **options, **time_outs(url))


@contextmanager
def errors_explained(url: str) -> Iterator[None]:
    """Turns a library's error about credentials, an archived object or a silent server into an InputError that names
    `url`."""
    try:
        yield
    except Exception as error:
        protocol = PROTOCOLS.get(url.partition("://")[0])
        reason = " ".join(str(error).split()) or type(error).__name__
        if "storage class" in reason:
            raise InputError(f"{url}: archived ({reason}); restore it first") from error
        if protocol and is_refusal(error):
            raise InputError(
                f"{url}: no access ({reason}); credentials come from {CREDENTIALS[protocol]}"
            ) from error
        if _is_silence(error):
            raise InputError(
                f"{url}: the server cannot be reached ({reason}); check the address and the network, or try again later"
            ) from error
        if protocol and type(error).__name__ == "ParamValidationError":
            raise InputError(f"{url}: no bucket has such a name; check the address") from error
        if protocol and _status(error) in BUSY:
            raise InputError(
                f"{url}: the server answers {_status(error)} ({reason}); try again later"
            ) from error
        raise


def is_refusal(error: Exception) -> bool:
    """Whether a bucket's library lacks credentials, or its server refuses them."""
    name = type(error).__name__
    return (
        isinstance(error, PermissionError)
        or (_library(type(error)) in ("botocore", "google") and ("Credential" in name or "Profile" in name))
        or _status(error) in (401, 403)
        # gcsfs has an OSError with nothing but text for 403
        or (isinstance(error, OSError) and str(error).startswith("Forbidden"))
    )


def _status(error: Exception) -> int | None:
    """Returns the HTTP status of a bucket's answer: gcsfs has it as `code`, botocore, the cause of s3fs's error, within
    `response`."""
    for each in (error, error.__cause__):
        if isinstance(response := getattr(each, "response", None), dict):
            return response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return getattr(error, "code", None)


def _is_silence(error: Exception) -> bool:
    """Whether a server did not answer, or has an address that is none."""
    kinds = {(_library(kind), kind.__name__) for kind in type(error).__mro__}
    silent = isinstance(error, TimeoutError | ConnectionError) or not kinds.isdisjoint(SILENT)
    return silent or str(error).startswith("Invalid endpoint")


def is_http_error(error: Exception) -> bool:
    """Whether an error comes from a library that talks to servers: one refused, broke off, or did not speak HTTP."""
    return _library(type(error)) in ("aiohttp", "botocore")


def _library(kind: type) -> str:
    """Returns the name of a class's library: errors are told apart by it without importing any library."""
    return kind.__module__.partition(".")[0]
