"""Files by their first bytes: how one is compressed, and what is no data, whatever its name says."""

from __future__ import annotations

import re

from multiview.errors import InputError

FIRST = 4096
"""Bytes that show what a file is."""

COMPRESSED = {
    "gzip": rb"\x1f\x8b\x08",
    "bz2": rb"BZh[1-9](1AY&SY|\x17rE8P\x90)",
    "xz": rb"\xfd7zXZ\x00",
    "zstd": rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",
}
"""Compressions that are read, by fsspec's names."""

UNPACK = "unpack it: files are read plain, or compressed as .gz, .bz2, .xz, .zst"
"""Way out of other archives and compressions."""
EXPORT = "write it as Parquet, JSONL or CSV"
WORKBOOK = "a workbook of a spreadsheet", "save it as CSV"

FOREIGN = {
    rb"version https?://(git-lfs|hawser|git-media)[^\n]*\n(.*\n)*?size (?P<size>\d+)": (
        "a Git LFS pointer, not the file ({size} bytes there)",
        "run git lfs pull",
    ),
    rb"/annex/objects/": ("a git-annex pointer, not the file", "run git annex get"),
    rb"%PDF-|\{\\rtf|PK\x03\x04(?=(?s:.*?)(word/|ppt/|epub|opendocument.(text|presentation)))": (
        "a PDF, RTF, EPUB or document of an office program",
        "write its text as .txt",
    ),
    rb"PK\x03\x04(?=(?s:.*?)(xl/|\[Content_Types\]|_rels/|docProps/|opendocument|mimetype))": WORKBOOK,
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": WORKBOOK,
    rb"PK\x03\x04|PK\x05\x06": ("a zip archive", UNPACK),
    rb"ARROW1\x00|FEA1(?=(?s:.{0,400})[\x00-\x08])|\xff{4}(?s:.{2})\x00\x00": (
        "an Arrow file (Feather)",
        "write it as Parquet",
    ),
    rb"ORC(?=(?s:.{0,400})[\x00-\x08])": ("an ORC file", "write it as Parquet"),
    rb"PARE(?=(?s:.{0,400})[\x00-\x08])": ("an encrypted Parquet file", "write it without encryption"),
    rb"Obj\x01": ("an Avro file", EXPORT),
    rb"\x80[\x02-\x05][\x00-\xff]": ("a Python pickle", EXPORT),
    rb"\x93NUMPY": ("a NumPy array", EXPORT),
    rb"\x89HDF\r\n": ("an HDF5 file", EXPORT),
    rb"SQLite format 3\x00": ("an SQLite database", EXPORT),
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
"""Pattern of a file's first bytes to what the file is, and the way out."""


def compression(beginning: bytes) -> str | None:
    """Returns fsspec's name of the compression of a file that begins so, whatever the file is called."""
    return next((name for name, pattern in COMPRESSED.items() if re.match(pattern, beginning)), None)


def refuse_foreign(file: str, beginning: bytes) -> None:
    """Raises InputError for a file that begins as one that is not read, such as a stand-in for a file that is elsewhere."""
    for pattern, (what, way_out) in FOREIGN.items():
        if match := re.match(pattern, beginning):
            named = {name: value.decode() for name, value in match.groupdict().items()}
            raise InputError(f"{file}: {what.format(**named)}; {way_out}")


def is_parquet(beginning: str) -> bool:
    """Whether a file that begins so, decoded as UTF-8, is Parquet; an article may begin with the same four letters."""
    return beginning.startswith("PAR1\x15")
