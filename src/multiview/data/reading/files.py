"""Bytes and lines of a file behind any fsspec URL, compressed or not."""

from __future__ import annotations

import contextlib
import io
import lzma
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from typing import IO, Any
from urllib.parse import urlsplit

import fsspec
import pyarrow as pa

from multiview.artifacts.servers import PROTOCOLS, errors_explained, file_system, of_the_web, time_outs
from multiview.errors import InputError, without_secrets

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
PACKED = {
    b"\x1f\x8b\x08": ("gzip", ".gz"),
    b"BZh91AY&SY": ("bzip2", ".bz2"),
    b"\xfd7zXZ\x00": ("xz", ".xz"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst"),
    b"PK\x03\x04": ("zip", ""),
}
"""Beginnings of compressed files: the compression, and the suffix by which it is read, if it is."""
ARCHIVES = (".zip", ".tar", ".tgz", ".7z", ".rar", ".lz4", ".lzma", ".z", ".br")
"""Suffixes of archives and compressions that are not read."""
READ_PACKED = f"unpack it: files are read plain, or compressed as {', '.join(COMPRESSIONS)}"
"""Way out of files that are not."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HEAD = 1 << 16
"""Bytes that are read to detect a format."""
BLOCK = 4 << 20
"""Bytes per request to a bucket when a file is read at random positions."""


def base_name(file: str) -> str:
    """Returns the last part of a path or URL, without a URL's query."""
    if "://" in file:
        file = file.split("?", 1)[0].split("#", 1)[0]
    return file.rstrip("/").rsplit("/", 1)[-1]


def shown_names(files: Collection[str]) -> dict[str, str]:
    """Returns each file's name for messages: its base name, or its full path, without secrets, where several share the base name."""
    count = Counter(base_name(file) for file in files)
    return {file: without_secrets(file) if count[base_name(file)] > 1 else base_name(file) for file in files}


def plain_name(file: str) -> str:
    """Returns the base name in lower case, without a compression suffix."""
    name = base_name(file).lower()
    for suffix in COMPRESSIONS:
        name = name.removesuffix(suffix)
    return name


def is_web(file: str) -> bool:
    """Whether a file is behind a web server, which has links and no folders."""
    return urlsplit(file).scheme in ("http", "https")


@contextlib.contextmanager
def open_stream(file: str) -> Iterator[IO[bytes]]:
    """Opens a file as a stream of bytes, decompressed according to its name, without a byte order mark.

    Every failure to read it becomes an InputError.
    """
    suffix = next((suffix for suffix in COMPRESSIONS if base_name(file).lower().endswith(suffix)), "")
    with _as_input_error(file), _raw(file, COMPRESSIONS.get(suffix)) as raw, io.BufferedReader(raw) as stream:
        if stream.peek(len(BYTE_ORDER_MARK)).startswith(BYTE_ORDER_MARK):
            stream.read(len(BYTE_ORDER_MARK))
        if not suffix:
            _refuse_packed(file, stream.peek(16))
        yield stream


def _refuse_packed(file: str, beginning: bytes) -> None:
    """Raises InputError for the beginning of a compressed file, whose name does not say so."""
    for magic, (name, suffix) in PACKED.items():
        if beginning.startswith(magic):
            way_out = f"name it {base_name(file)}{suffix}, so that it is read so" if suffix else READ_PACKED
            raise InputError(f"{file}: is compressed by {name}; {way_out}")


@contextlib.contextmanager
def open_seekable(file: str) -> Iterator[IO[bytes]]:
    """Opens a file for reading at random positions, not decompressed; a file that can only be streamed is copied to disk first."""
    with _as_input_error(file), _blocks(file) as stream:
        if stream.seekable() and not is_web(file):
            yield stream
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
            copy.seek(0)
            yield copy


def _raw(file: str, compression: str | None) -> Any:
    # fsspec types `open` as a list of files, and says nothing of the options of its file systems.
    # From a web server in one request, from beginning to end: not every server supports ranges.
    options: dict[str, Any] = {"block_size": 0} if is_web(file) else {}
    return fsspec.open(file, "rb", compression=compression, **options, **time_outs(file))


def _blocks(file: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    """Opens a file so that only the blocks that are accessed are read; a few blocks are cached and read once."""
    if file.partition("://")[0] not in PROTOCOLS:
        return _raw(file, None)
    fs, path = file_system(file)
    return fs.open(path, "rb", block_size=BLOCK, cache_type="blockcache")  # pyright: ignore[reportReturnType]


@contextlib.contextmanager
def _as_input_error(file: str) -> Iterator[None]:
    try:
        with errors_explained(file):
            yield
    except InputError:
        raise
    except FileNotFoundError:
        line = "no such file"
    except _unreadable() as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        line = f"cannot be read ({reason}); is it complete, and of the format its name says?"
    except Exception as error:
        if not of_the_web(error):
            raise
        line = f"cannot be read ({' '.join(str(error).split())}); try again later"
    else:
        return
    raise InputError(f"{file}: {line}")


def _unreadable() -> tuple[type[Exception], ...]:
    """What libraries raise for a file that is damaged or of another format; Zstandard's is imported only for such a file."""
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdError
    else:
        from backports.zstd import ZstdError
    return (pa.ArrowException, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError, ZstdError)


def lines(file: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a UTF-8 text, numbered from 1, without their line ends (LF or CRLF)."""
    with open_stream(file) as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield number, line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{file} line {number}: not UTF-8 ({error.reason}); convert the file"
                ) from None


def head(file: str) -> str:
    """Returns the beginning of a text, to detect its format; a character that is cut or not UTF-8 is replaced."""
    with open_stream(file) as stream:
        return stream.read(HEAD).decode("utf-8", "replace")
