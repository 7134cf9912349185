"""What `corpus.source` and `questions.source` name: files, folders, patterns, fsspec URLs."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from typing import Any

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from multiview.errors import InputError

FORMATS = {
    ".json": "squad",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
VARIABLE = re.compile(r"\$\{(\w+)\}")
CHUNK = 1 << 20


def expand_source(source: str) -> list[str]:
    """The files that one source names, sorted.

    `${NAME}` is the environment variable's value. A folder is its files of a known format (stray
    files are passed over), a pattern (`*`, `?`, `[…]`) all files that match,
    hidden ones apart. Raises InputError for a variable that is not set, a protocol that cannot be
    read, and when there is no file.
    """
    named = VARIABLE.sub(lambda match: _variable(match, source), source)
    try:
        fs, path = url_to_fs(named)
    except (ValueError, ImportError) as error:  # a protocol unknown, or without its package
        raise InputError(f"{source}: {error}") from None
    try:
        # A file's own name may hold a bracket.
        if fs.isfile(path):
            return [named]
        if fs.isdir(path):
            files = sorted(
                str(name) for name in fs.ls(path, detail=False) if format_of(str(name)) and fs.isfile(name)
            )
        elif re.search(r"[*?\[]", path):
            files = sorted(
                str(name) for name in fs.glob(path) if fs.isfile(name) and base_name(str(name))[0] != "."
            )
        else:
            raise InputError(f"{source}: no such file or folder" + ("" if named == source else f" ({named})"))
    except OSError as error:
        raise InputError(f"{source}: cannot be looked at ({error})") from None
    if not files:
        raise InputError(f"{source}: no files there ({', '.join(FORMATS)} are read, also compressed)")
    return files if isinstance(fs, LocalFileSystem) else [fs.unstrip_protocol(name) for name in files]


def expand_sources(sources: Iterable[str]) -> list[str]:
    """The files of several sources, in the sources' order, each once."""
    return list(dict.fromkeys(file for source in sources for file in expand_source(source)))


def _variable(match: re.Match[str], source: str) -> str:
    value = os.environ.get(match[1])
    if not value:
        raise InputError(
            f"{source}: the environment variable {match[1]} is not set; set it or write the path out"
        )
    return value


def base_name(file: str) -> str:
    """The last part of a path or URL."""
    return file.rstrip("/").rsplit("/", 1)[-1]


def format_of(file: str) -> str | None:
    """The format that a file's name says, compression aside; none for other names and hidden files."""
    name = base_name(file).lower()
    if name.startswith((".", "_")):
        return None
    for suffix in COMPRESSIONS:
        name = name.removesuffix(suffix)
    return next((form for suffix, form in FORMATS.items() if name.endswith(suffix)), None)


def file_format(file: str, form: str, setting: str) -> str:
    """`form`, or when it is `auto` what the name says. Raises InputError when that says nothing."""
    found = format_of(file) if form == "auto" else form
    if found is None:
        raise InputError(
            f"{file}: its name does not say its format; set {setting} to squad, parquet or jsonl"
        )
    return found


def fingerprints(sources: Iterable[str]) -> list[dict[str, Any]]:
    """What the sources hold, as key inputs: for each file its name and sha256, read in pieces, or
    for a remote one what its file system says of its content (a checksum, ETag or generation)."""
    found: list[dict[str, Any]] = []
    for file in expand_sources(sources):
        fs, path = url_to_fs(file)
        name = base_name(file)
        if isinstance(fs, LocalFileSystem):
            digest = hashlib.sha256()
            with fsspec.open(file, "rb") as stream:
                while chunk := stream.read(CHUNK):  # type: ignore[attr-defined]
                    digest.update(chunk)
            found.append({"name": name, "sha256": digest.hexdigest()})
        else:
            info = fs.info(path)
            for key in ("md5Hash", "crc32c", "ETag", "etag", "generation"):
                if info.get(key):
                    found.append({"name": name, "bytes": info.get("size"), key: str(info[key])})
                    break
            else:
                found.append({"name": name, "bytes": info.get("size"), "version": str(fs.ukey(path))})
    return found
