"""The bytes and lines of a file behind any fsspec URL, compressed or not."""

from __future__ import annotations

import contextlib
import io
import lzma
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from typing import IO, Any
from urllib.parse import urlsplit

import fsspec
import ijson
import pyarrow as pa
from fsspec.core import url_to_fs

from multiview.artifacts.credentials import PROTOCOLS, credentials_told
from multiview.errors import InputError

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HEAD = 1 << 16
"""Bytes that are looked at to tell a format."""
BLOCK = 4 << 20
"""Bytes that are asked of a bucket at a time, of a file that is read here and there."""


def base_name(file: str) -> str:
    """The last part of a path or URL, without a URL's query."""
    if "://" in file:
        file = file.split("?", 1)[0].split("#", 1)[0]
    return file.rstrip("/").rsplit("/", 1)[-1]


def shown_names(files: Collection[str]) -> dict[str, str]:
    """What each file is called in a message: its base name, or all of it where others have the same."""
    count = Counter(base_name(file) for file in files)
    return {file: file if count[base_name(file)] > 1 else base_name(file) for file in files}


def plain_name(file: str) -> str:
    """The base name in lower case, without the suffix of a compression."""
    name = base_name(file).lower()
    for suffix in COMPRESSIONS:
        name = name.removesuffix(suffix)
    return name


def is_web(file: str) -> bool:
    """Whether it is behind a web server, where there are links and no folders."""
    return urlsplit(file).scheme in ("http", "https")


@contextlib.contextmanager
def opened(file: str) -> Iterator[IO[bytes]]:
    """A file's bytes from the first on, decompressed as its name says, without a byte order mark.

    What goes wrong while it is read becomes an InputError.
    """
    suffix = next((suffix for suffix in COMPRESSIONS if base_name(file).lower().endswith(suffix)), "")
    with _as_input_error(file), _raw(file, COMPRESSIONS.get(suffix)) as raw, io.BufferedReader(raw) as stream:
        if stream.peek(len(BYTE_ORDER_MARK)).startswith(BYTE_ORDER_MARK):
            stream.read(len(BYTE_ORDER_MARK))
        yield stream


@contextlib.contextmanager
def seekable(file: str) -> Iterator[IO[bytes]]:
    """A file that is read here and there, as it is; one that can only be streamed is copied to disk."""
    with _as_input_error(file), _blocks(file) as stream:
        if stream.seekable() and not is_web(file):
            yield stream
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
            copy.seek(0)
            yield copy


def _raw(file: str, compression: str | None) -> Any:
    # In one request, from beginning to end: not every web server has ranges.
    options: dict[str, Any] = {"block_size": 0} if is_web(file) else {}
    return fsspec.open(file, "rb", compression=compression, **options)


def _blocks(file: str) -> Any:
    """A file of which no more is read than the blocks that are looked into, each once as long as few are."""
    if file.partition("://")[0] not in PROTOCOLS:
        return _raw(file, None)
    fs, path = url_to_fs(file)
    return fs.open(path, "rb", block_size=BLOCK, cache_type="blockcache")


@contextlib.contextmanager
def _as_input_error(file: str) -> Iterator[None]:
    try:
        with credentials_told(file):
            yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except (
        pa.ArrowException,
        EOFError,
        OSError,
        ValueError,
        zlib.error,
        lzma.LZMAError,
        ijson.JSONError,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{file}: cannot be read ({reason}); is it whole, and of the format its name says?"
        ) from None


def lines(file: str) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 text, numbered from 1, without their ends (LF or CRLF)."""
    with opened(file) as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield number, line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{file} line {number}: not UTF-8 ({error.reason}); convert the file"
                ) from None


def head(file: str) -> str:
    """The beginning of a text, to tell its format by; a sign that it cuts or that is no UTF-8 is replaced."""
    with opened(file) as stream:
        return stream.read(HEAD).decode("utf-8", "replace")
