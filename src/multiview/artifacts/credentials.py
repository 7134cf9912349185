"""Buckets: the protocols that we know, and what to do when one refuses us."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from multiview.errors import InputError

PROTOCOLS = {"gs": "gs", "gcs": "gs", "s3": "s3", "s3a": "s3"}
"""Protocols of buckets, and how we write them."""

CREDENTIALS = {
    "gs": "`gcloud auth application-default login`, a key file named by GOOGLE_APPLICATION_CREDENTIALS, or the "
    "pod's service account",
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the pod's service account",
}
"""Where credentials come from."""

REFUSED = (401, 403)


@contextmanager
def credentials_told(url: str) -> Iterator[None]:
    """What a bucket says of credentials that are missing or do not suffice becomes an InputError naming `url`."""
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
    """Whether a bucket's library lacks credentials, or its server refuses them; by name, as neither is imported here."""
    library, _, _ = type(error).__module__.partition(".")
    return (
        isinstance(error, PermissionError)
        or (library == "botocore" and "Credential" in type(error).__name__)
        or (library == "google" and "Credentials" in type(error).__name__)
        # gcsfs: a number of its own, and for 403 an OSError of nothing but words
        or getattr(error, "code", None) in REFUSED
        or (isinstance(error, OSError) and str(error).startswith("Forbidden"))
    )
