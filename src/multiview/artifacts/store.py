"""A store: the local folder or bucket prefix with all artifacts.

Everything else rests on two operations: `create`, which creates a file exclusively and whole, and `replace`, which
overwrites a file atomically. A file system without exclusive creation is refused.
"""

import re
from pathlib import Path

import fsspec

from multiview import names
from multiview.artifacts.base_store import Entry, Store
from multiview.artifacts.bucket_store import BucketStore
from multiview.artifacts.local_store import LocalStore
from multiview.artifacts.servers import PROTOCOLS
from multiview.errors import InputError

__all__ = ["BucketStore", "Entry", "LocalStore", "Store", "open_pod_store", "open_store"]

MORE_THAN_A_NAME = re.compile("::|[?%]")
"""Parts of a path that fsspec reads as a chain of file systems, or MLflow as a query or an escaped character in its
database's URI: files of the store would end up outside it."""
MORE_THAN_A_PREFIX = re.compile(r"::|^gc?s:.*#\d+/*\Z|^s3a?:.*\?versionId=|^s3a?://[^/]+//+(?=[^/])")
"""What fsspec reads in a bucket's URL as a chain of file systems, gcsfs as a generation and s3fs as a version, and a
prefix that begins with a slash, which s3fs writes to but does not list."""


def open_store(url: str) -> Store:
    """Returns the store at a local folder or a `gs://` or `s3://` URL. Raises InputError for other file systems, as
    none is known to create files exclusively, for a path with a part of `MORE_THAN_A_NAME` or `MORE_THAN_A_PREFIX`, and
    for a blank URL."""
    if not url.strip():
        raise InputError(
            "a store has an address: --store names none; give a folder (. is this one), or a gs:// or s3:// URL"
        )
    protocol, separator, _ = url.partition("://")
    if not separator or protocol in ("file", "local"):
        _check_path(url, url, MORE_THAN_A_NAME)
        folder = Path(fsspec.url_to_fs(url)[1])
        _check_path(url, str(folder), MORE_THAN_A_NAME)
        if folder.is_file():
            raise InputError(f"store {url}: it is a file; name a folder, or a gs:// or s3:// URL")
        return LocalStore(folder)
    if protocol in PROTOCOLS:
        _check_path(url, url, MORE_THAN_A_PREFIX)
        try:
            return BucketStore(url)
        except ImportError as error:
            raise InputError(f"store {url} needs s3fs: pip install '{names.DISTRIBUTION}[s3]'") from error
        except Exception as error:
            raise InputError(f"store {url} cannot be opened: {error}") from error
    raise InputError(
        f"store {url}: {protocol}:// cannot create files exclusively here; use a local folder, gs:// or s3://"
    )


def open_pod_store(url: str) -> Store:
    """Returns the store that the pods of a run share. Raises InputError as `open_store`, and for a relative path: it
    would be a folder of this pod alone, which is deleted with it."""
    if "://" not in url and not Path(url).is_absolute():
        raise InputError(
            f"store {url}: a folder of this pod, which is deleted with it; give gs://{url} or s3://{url}"
        )
    return open_store(url)


def _check_path(url: str, path: str, more: re.Pattern[str]) -> None:
    if part := more.search(path):
        raise InputError(
            f"store {url}: its path {path} holds {part[0]}, which MLflow or fsspec would read as more than a name; name another "
            "folder"
        )
