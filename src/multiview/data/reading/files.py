"""Bytes and lines of files at any fsspec URL. First bytes tell how a file is compressed, and whether it can be read."""

from __future__ import annotations

import bz2
import contextlib
import errno
import io
import lzma
import re
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from typing import IO, Any
from urllib.parse import urlsplit

import fsspec
import pyarrow as pa
from fsspec.compression import compr

from multiview.artifacts.scratch import scratch
from multiview.artifacts.servers import PROTOCOLS, errors_explained, file_system, is_http_error, time_outs
from multiview.errors import InputError, fault, without_secrets

COMPRESSIONS = (".gz", ".gzip", ".bgz", ".bz2", ".xz", ".zst")
"""Suffixes of compressed files; how a file is compressed is told by its bytes."""
MARK = "\ufeff"
"""The byte order mark; in concatenated files, later lines may begin with one too."""
HEAD = 1 << 16
"""Bytes that are read to detect a format; more where the first line is longer."""
LONGEST_FIRST = 1 << 24
"""Most bytes of a first line that are read after `HEAD`."""
BUFFER = 1 << 17
"""Bytes that are read and decompressed at a time."""
BLOCK = 4 << 20
"""Bytes per request to a bucket when a file is read at random positions."""

FIRST = 4096
"""Number of leading bytes that show what a file is."""

COMPRESSED = {
    "gzip": rb"\x1f\x8b\x08",
    "bz2": rb"BZh[1-9](1AY&SY|\x17rE8P\x90)",
    "xz": rb"\xfd7zXZ\x00",
    "zstd": rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",
}
"""Compressions that are read: fsspec's name to the pattern of the first bytes."""

UNPACK = "unpack it: files are read plain, or compressed as .gz, .bz2, .xz, .zst"
"""What to do about other archives and compressions."""
EXPORT = "write it as Parquet, JSONL or CSV"
WORKBOOK = "a workbook of a spreadsheet", "save it as CSV"

FOREIGN = {
    rb"version https?://(git-lfs|hawser|git-media)[^\n]*\n(.*\n)*?size (?P<size>\d+)": (
        "a Git LFS pointer, not the file ({size} bytes there)",
        "run git lfs pull",
    ),
    rb"(\.\./)*(\.git)?/annex/objects/": ("a git-annex pointer, not the file", "run git annex get"),
    rb"# xet version \d": ("a Xet pointer, not the file", "download the file itself"),
    rb"(\.\./)+[^\s/]+(/[^\s/]+)*\Z": ("a link that was checked out as text", "put the file itself there"),
    rb"%PDF-|\{\\rtf|PK\x03\x04(?=(?s:.*?)(word/|ppt/|epub|opendocument.(text|presentation)))": (
        "a PDF, RTF, EPUB or document of an office program",
        "write its text as .txt",
    ),
    rb"PK\x03\x04(?=(?s:.*?)(xl/|\[Content_Types\]|_rels/|docProps/|opendocument|mimetype))": WORKBOOK,
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": WORKBOOK,
    rb"\x93NUMPY|PK\x03\x04(?=(?s:.{26,200})\.npy)": ("an array of NumPy", EXPORT),
    rb"PK\x03\x04|PK\x05\x06": ("a zip archive", UNPACK),
    rb"ARROW1\x00|FEA1(?=(?s:.{0,400})[\x00-\x08])|\xff{4}(?s:.{2})\x00\x00": (
        "an Arrow file (Feather)",
        "write it as Parquet",
    ),
    rb"ORC(?=(?s:.{0,400})[\x00-\x08])": ("an ORC file", "write it as Parquet"),
    rb"PARE(?=(?s:.{0,400})[\x00-\x08])": ("an encrypted Parquet file", "write it without encryption"),
    rb"Obj\x01": ("an Avro file", EXPORT),
    rb"\x80[\x02-\x05][\x00-\xff]": ("a Python pickle", EXPORT),
    rb"\x89HDF\r\n": ("an HDF5 file", EXPORT),
    rb"SQLite format 3\x00|(?s:.{8})DUCK[\x00-\xff]\x00": ("a database of SQLite or DuckDB", EXPORT),
    rb"7z\xbc\xaf|Rar!\x1a|\x04\x22\x4d\x18|\xff\x06\x00\x00sNaPpY|LZIP\x01|\]\x00\x00|x[\x9c\xda]|\x1f\x9d|(?s:.{257})ustar(\x00|  \x00)": (
        "an archive, or compressed in a way that is not read",
        UNPACK,
    ),
    rb"\s*<(doc id=|DOC>\s*<DOCNO>|top>\s*<num>)|WARC/\d": (
        "documents in mark-up, of WikiExtractor, TREC or a web archive",
        "write them as JSONL (wikiextractor --json)",
    ),
    rb"(\xef\xbb\xbf)?\s*<(?i:!doctype|html|\?xml|error>|table)|404: Not Found|Invalid username or": (
        "a web page, XML or a server's error",
        "does its address ask to sign in?",
    ),
    rb"\xff\xfe|\xfe\xff|([\x09-\x7f]\x00){8}|(\x00[\x09-\x7f]){8}": (
        "UTF-16 or UTF-32, not UTF-8",
        "convert the file to UTF-8",
    ),
}
"""Kinds of files that are not read: pattern of the first bytes to what the file is, and what to do about it."""


def base_name(file: str) -> str:
    """Returns the last part of a path or URL, without a web address's query or a bucket object's version."""
    if "://" in file:
        file = re.sub(r"[?#].*" if is_web(file) else r"(\?versionId=|#)\w+$", "", file)
    return file.rstrip("/").rsplit("/", 1)[-1]


def shown_names(files: Collection[str]) -> dict[str, str]:
    """Returns each file's name for messages: its base name, or its full path, without secrets, where several share the base name."""
    count = Counter(base_name(file) for file in files)
    return {file: without_secrets(file) if count[base_name(file)] > 1 else base_name(file) for file in files}


def plain_name(file: str) -> str:
    """Returns the base name in lower case, without suffixes of compressions."""
    return re.sub(rf"({'|'.join(map(re.escape, COMPRESSIONS))})+$", "", base_name(file).lower())


def is_web(file: str) -> bool:
    """Whether a file is behind a web server, which has links and no folders."""
    return urlsplit(file).scheme in ("http", "https")


def compression(beginning: bytes) -> str | None:
    """Returns fsspec's name for the compression that a file's beginning shows, whatever the file's name; or None."""
    return next((name for name, pattern in COMPRESSED.items() if re.match(pattern, beginning)), None)


def refuse_foreign(file: str, beginning: bytes) -> None:
    """Raises InputError if a file's beginning shows a kind that is not read (`FOREIGN`), such as a Git LFS pointer."""
    for pattern, (what, way_out) in FOREIGN.items():
        if match := re.match(pattern, beginning):
            named = {name: value.decode() for name, value in match.groupdict().items()}
            raise InputError(f"{file}: {what.format(**named)}; {way_out}")


def is_parquet(beginning: str) -> bool:
    """Whether a beginning, decoded as UTF-8, is a Parquet file's; an article may begin with the same four letters."""
    return beginning.startswith("PAR1\x15")


class _Stream(io.RawIOBase):
    """A stream of bytes whose beginning is known. It reads the end only once, as aiohttp logs every read after it."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, b""
        while len(self._left) < FIRST and (more := next(pieces, b"")):
            self._left += more
        self.beginning = self._left[:FIRST]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._left = self._left or next(self._pieces, b"")
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def _pieces(source: Any) -> Iterator[bytes]:
    return iter(partial(source.read, BUFFER), b"")


def _unpacked(
    packed: Iterator[bytes], kind: type[bz2.BZ2Decompressor | lzma.LZMADecompressor]
) -> Iterator[bytes]:
    """Yields the contents of concatenated streams; unlike in Python's own readers, trailing garbage is an error."""
    current, data = kind(), b""
    while True:
        if current.eof:
            data = current.unused_data.lstrip(b"\0")  # there may be zeros between streams
            while not data and (more := next(packed, b"")):
                data = more.lstrip(b"\0")
            if not data:
                return
            current = kind()
        elif current.needs_input and not (data := next(packed, b"")):
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        if piece := current.decompress(data, BUFFER):
            yield piece
        data = b""


@contextlib.contextmanager
def open_stream(file: str) -> Iterator[io.BufferedReader[Any]]:
    """Opens a file as bytes, decompressed and without a byte order mark. Raises InputError for any failure."""
    with _as_input_error(file), _raw(file) as source:
        raw = _Stream(_pieces(source))
        while how := compression(raw.beginning):  # a server may compress a compressed file again
            packed = io.BufferedReader(raw, BUFFER)
            if kind := {"bz2": bz2.BZ2Decompressor, "xz": lzma.LZMADecompressor}.get(how):
                raw = _Stream(_unpacked(_pieces(packed), kind))
            else:
                raw = _Stream(_pieces(compr[how](packed, mode="rb")))  # pyright: ignore[reportArgumentType]
        refuse_foreign(file, raw.beginning)
        stream = io.BufferedReader(raw, BUFFER)
        if raw.beginning.startswith(MARK.encode()):
            stream.read(len(MARK.encode()))
        yield stream


@contextlib.contextmanager
def open_seekable(file: str) -> Iterator[IO[bytes]]:
    """Opens a file for reading at random positions; one that can only be streamed is copied to disk first."""
    if not is_web(file):
        with _as_input_error(file), _blocks(file) as stream:
            if stream.seekable() and not compression(beginning := stream.read(FIRST)):
                refuse_foreign(file, beginning)
                stream.seek(0)
                yield stream
                return
    with open_stream(file) as stream, tempfile.TemporaryFile(dir=scratch()) as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
        yield copy


def _raw(file: str) -> Any:
    # From a web server in one request, from beginning to end: not every server supports ranges.
    options: dict[str, Any] = {"block_size": 0} if is_web(file) else {}
    return fsspec.open(file, "rb", **options, **time_outs(file))


def _blocks(file: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    """Opens a file so that only the blocks that are accessed are read; a few blocks are cached and read once."""
    if file.partition("://")[0] not in PROTOCOLS:
        return _raw(file)
    fs, path = file_system(file)
    return fs.open(path, "rb", block_size=BLOCK, cache_type="blockcache")  # pyright: ignore[reportReturnType]


@contextlib.contextmanager
def _as_input_error(file: str) -> Iterator[None]:
    try:
        with errors_explained(file):
            yield
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except _unreadable() as error:
        if fault(error) in (errno.ENOSPC, errno.EDQUOT):  # of the disk with the copy
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        line = f"cannot be read ({reason}); is it complete, and of the format its name says?"
        raise InputError(f"{file}: {line}") from None
    except Exception as error:
        if not is_http_error(error):
            raise
        reason = " ".join(str(error).split())
        raise InputError(f"{file}: cannot be read ({reason}); try again later") from None


def _unreadable() -> tuple[type[Exception], ...]:
    """Returns what libraries raise for a damaged file or another format; Zstandard's is imported only when needed."""
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdError
    else:
        from backports.zstd import ZstdError
    return (pa.ArrowException, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError, ZstdError)


def lines(file: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a UTF-8 text, numbered from 1, without their line ends (LF or CRLF) and byte order marks."""
    with open_stream(file) as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield number, line.decode("utf-8").rstrip("\r\n").lstrip(MARK)
            except UnicodeDecodeError as error:
                place = f"{file} line {number}"
                raise InputError(f"{place}: not UTF-8 ({error.reason}); convert the file") from None


def head(file: str, whole_line: bool = True) -> str:
    """Returns the beginning of a text, for detecting its format; what is not UTF-8 is replaced.

    With `whole_line` it includes all of the first line, up to `LONGEST_FIRST` more bytes.
    """
    with open_stream(file) as stream:
        beginning = stream.read(HEAD)
        if whole_line and b"\n" not in beginning:
            beginning += stream.readline(LONGEST_FIRST)
        return beginning.decode("utf-8", "replace").lstrip(MARK)
