"""Buckets: the known protocols, and clear errors for refused access."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

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
