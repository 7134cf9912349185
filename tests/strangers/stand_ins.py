"""Forms that are not read, and what stands for a file or is packed otherwise than its name says: the bytes decide."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.orc as orc

from tests.strangers.case import LINES, TOWNS, Case, towns

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "7" * 64 + "\nsize 5120\n"
"""What a clone without Git LFS has in place of a file."""


def feathered(path: Path) -> None:
    feather.write_feather(pa.Table.from_pylist(TOWNS), str(path))


def zipped(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, "x" * 40)
    return stream.getvalue()


PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd.compress}

STAND_INS = {
    f"a Git LFS pointer called {name}": Case(
        {name: gzip.compress(POINTER.encode()) if packed else POINTER},
        (f"{name}: a Git LFS pointer, not the file (5120 bytes there); run git lfs pull",),
        sources=(name,),
    )
    for name, packed in [
        *(
            (name, False)
            for name in ("p.csv", "p.tsv", "p.jsonl", "p.json", "p.parquet", "p.csv.gz", "Orlen.txt")
        ),
        ("p.jsonl.zst", False),
        ("q.csv.gz", True),
    ]
} | {
    "a folder of pointers among articles": Case({"Orlen.txt": TOWNS[0]["text"], "Bask.txt": POINTER}, ("Bask.txt: a Git LFS pointer",)),
    "a link of git-annex as text": Case({"a.txt": "../../.git/annex/objects/W6/9x/SHA256E-s77--ab.txt"}, ("a.txt: a git-annex pointer",)),
    "a link of git as text": Case({"a.txt": "../../data/Town.txt"}, ("a.txt: a link that was checked out as text",)),
    "a pointer of Xet": Case({"a.txt": "# xet version 0\nfilesize = 77\n"}, ("a.txt: a Xet pointer",)),
    "a pointer of git-annex": Case({"p.jsonl": "/annex/objects/SHA256E-s77--ab.jsonl\n"}, ("p.jsonl: a git-annex pointer", "git annex get")),
    "a workbook": Case({"p.xlsx": zipped("_rels/.rels", "xl/workbook.xml")}, ("p.xlsx: a workbook", "CSV"), sources=("p.xlsx",)),
    "a workbook of openpyxl that is called CSV": Case({"p.csv": zipped("docProps/app.xml", "xl/workbook.xml")}, ("p.csv: a workbook", "save it as CSV")),
    "a spreadsheet of OpenDocument": Case({"p.ods": zipped("mimetype", "content.xml")}, ("p.ods: a workbook",), sources=("p.ods",)),
    **{
        f"a document that begins with {name}": Case(
            {"p.txt": zipped(name, "META-INF/x.xml", *more)},
            ("p.txt: a PDF, RTF, EPUB or document of an office program", "write its text as .txt"),
        )
        for name, *more in (("[Content_Types].xml", "word/document.xml"), ("_rels/.rels", "ppt/slides/1.xml"))
    },
    "an EPUB": Case({"p.epub": zipped("mimetypeapplication/epub+zip")}, ("p.epub: a PDF, RTF, EPUB",), sources=("p.epub",)),
    "an old workbook": Case({"p.csv": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)}, ("p.csv: a workbook", "save it as CSV")),
    "a zip": Case({"p.jsonl": zipped("p.jsonl")}, ("p.jsonl: a zip archive", "unpack it")),
    "feather": Case({"p.feather": feathered}, ("p.feather: an Arrow file", "Parquet"), sources=("p.feather",)),
    "feather that is called Parquet": Case({"p.parquet": feathered}, ("p.parquet: an Arrow file", "Parquet")),
    "ORC": Case({"p.orc": lambda path: orc.write_table(pa.Table.from_pylist(TOWNS), str(path))}, ("p.orc: an ORC file", "write it as Parquet"), sources=("p.orc",)),
    "articles that begin as other formats do": Case(
        {"a.txt": "ORCHARDS surround Orlen.\n", "b.txt": "PARENTS came.\n", "c.txt": "FEA1 and PAR1.\n"},
        passages=["a-0", "b-0", "c-0"],
    ),
    "a pickle": Case({"p.pkl": b"\x80\x04\x95\x10\x00"}, ("p.pkl: a Python pickle", "Parquet"), sources=("p.pkl",)),
    "a database": Case({"p.db": b"SQLite format 3\0" + bytes(90)}, ("p.db: a database of SQLite",), sources=("p.db",)),
    "a database of DuckDB": Case({"p.duckdb": bytes(8) + b"DUCK" + bytes(90)}, ("p.duckdb: a database of",), sources=("p.duckdb",)),
    "arrays of NumPy": Case({"p.npz": zipped("ids.npy")}, ("p.npz: an array of NumPy",), sources=("p.npz",)),
    "a PDF among articles": Case({"a.txt": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"}, ("a.txt: a PDF",)),
    "a login page in place of a CSV": Case({"p.csv": "<!DOCTYPE html>\n<html><body>Sign in\n"}, ("p.csv: a web page",)),
    **{
        f"a server's error called {name}": Case(
            {name: content}, (f"{name}: a web page, XML or a server's error",)
        )
        for name, content in {
            "a.txt": "404: Not Found",
            "p.jsonl": "<Error><Code>AccessDenied</Code></Error>",
            "p.csv": '<table border="1">\n<tr><td>id</td></tr>\n</table>\n',
        }.items()
    },
    "UTF-16 without a mark": Case({"p.csv": "id,title,text\n".encode("utf-16-le")}, ("p.csv: UTF-16", "UTF-8")),
    "Latin-1 in a list of JSON": Case({"p.json": '[{"id": "1", "text": "Z\u00fcrich"}]'.encode("latin-1")}, ("p.json: not UTF-8; convert",)),
    "WikiExtractor's documents among articles": Case(
        {
            "wiki_00.txt": '<doc id="12" title="Orlen">\nOrlen\n</doc>\n<doc id="13" title="Bask">\nBask\n</doc>\n'
        },
        ("wiki_00.txt: documents in mark-up", "JSONL"),
    ),
    "a web archive among articles": Case({"a.txt": "WARC/1.0\r\nWARC-Type: response\r\n"}, ("a.txt: documents in mark-up",)),
    "a web page among articles": Case({"a.txt": "\ufeff\n<!doctype HTML>\n<p>Orlen"}, ("a.txt: a web page",)),
    **{
        f"{name} that is called text": Case(
            {"p.txt": content}, ("p.txt: rows, not an article", "format=text")
        )
        for name, content in {
            "JSONL": LINES,
            "a CSV": "id,title,text\nt0,Orlen,A lake.\n",
            "a TSV": "ID\tText\nt0\tA lake.\n",
            "columns of a fixed width": "id   title  text\nt0   Orlen  A lake.\n",
            "a table of psql": " id |  text   \n----+---------\n t0 | A lake.\n",
            "a table of MySQL": "+----+------+\n| id | text |\n+----+------+\n| t0 | A.   |\n",
            "JSON over several lines": json.dumps(TOWNS[0], indent=2),
            "a list of JSON": json.dumps(TOWNS),
            "a CSV with quotes": '"id","text"\n"t0","A lake."\n',
            "Hive's rows": "t0\x01Orlen\x01A lake.\nt1\x01Bask\x01A bridge.\n",
            "MS MARCO's TSV": "0\tOrlen lies on a lake.\n1\tBask.\n",
        }.items()
    },
    "an article that holds a table": Case({"a.txt": "Orlen, by year:\n1310\tfounded\n1602\ta bridge\n", "b.txt": "Id, text: a column each."}, passages=["a-0", "b-0"]),
    "rows that are an article": Case({"a.txt": "1310\tfounded\n1602\ta bridge\n"}, passages=["a-0"], settings=("corpus.format=text",)),
    "TREC's documents": Case({"d.txt": "<DOC>\n<DOCNO> F-1 </DOCNO>\n<TEXT>Orlen</TEXT>\n</DOC>\n"}, ("d.txt: documents in mark-up",)),
    "TREC's topics": Case({"topics.301.txt": "<top>\n<num> Number: 301\n<title> Orlen\n</top>\n"}, ("topics.301.txt: documents in mark-up", "JSONL")),
    "UTF-16": Case({"p.csv": LINES.encode("utf-16")}, ("p.csv: UTF-16", "UTF-8")),
    "a folder of save_to_disk": Case({"state.json": "{}", "dataset_info.json": "{}", "data-00000-of-00001.arrow": feathered}, ("a datasets folder (state.json)", "to_parquet")),
    "a folder of several sets of save_to_disk": Case(
        {"dataset_dict.json": '{"splits": ["train"]}', "train/state.json": "{}"},
        ("a datasets folder (dataset_dict.json)", "to_parquet"),
    ),
    "metadata beside data": Case({"dataset_infos.json": "{}", "dataset-metadata.json": "{}", "p.jsonl": LINES, "README.txt": "About."}, passages=["t0", "t1"]),
    "metadata by name": Case({"dataset_info.json": '{"features": {}}'}, ("dataset_info.json: describes data",), sources=("dataset_info.json",)),
    "gzip under a plain name": Case({"p.jsonl": gzip.compress(LINES.encode())}, passages=["t0", "t1"]),
    "xz under the name of an article": Case({"p.txt": lzma.compress(b"Orlen.")}, passages=["p-0"]),
    "plain under the name of gzip": Case({"p.jsonl.gz": LINES}, passages=["t0", "t1"]),
    **{
        f"gzip under the name of {suffix}": Case(
            {f"p.jsonl{suffix}": gzip.compress(LINES.encode())}, passages=["t0", "t1"]
        )
        for suffix in (".bgz", ".gzip", ".GZ")
    },
    "gzip twice": Case({"p.jsonl.gz.gz": gzip.compress(gzip.compress(LINES.encode()))}, passages=["t0", "t1"]),
    **{
        f"{more} after a stream of {suffix}": Case(
            {f"p.jsonl.{suffix}": pack(LINES.encode()) + behind(pack)}, refused, passages
        )
        for suffix, pack in PACKED.items()
        for more, behind, refused, passages in (
            ("another", lambda pack: pack(LINES.replace("t", "u", 2).encode()), ("used before",), None),
            ("an empty one", lambda pack: pack(b""), (), ["t0", "t1"]),
            ("zeros", lambda pack: bytes(8), (), ["t0", "t1"]),
            ("bytes", lambda pack: b"{}\n", ("cannot be read", "is it complete"), None),
            ("a part of another", lambda pack: pack(LINES.encode())[:-2], ("cannot be read",), None),
            ("a damaged one", lambda pack: pack(LINES.encode())[:20] + bytes(99), ("cannot be read",), None),
        )
        if (suffix, more) != ("zst", "zeros")
    },
    "zeros after a stream of zst": Case({"p.jsonl.zst": zstd.compress(LINES.encode()) + bytes(8)}, ("cannot be read", "is it complete")),
    "a skippable frame of zstd before another": Case({"p.jsonl.zst": b"\x50\x2a\x4d\x18\x04\0\0\0skip" + zstd.compress(LINES.encode())}, passages=["t0", "t1"]),
    "zstd with a window of 128 MiB": Case({"p.jsonl.zst": zstd.compress(LINES.encode(), options={zstd.CompressionParameter.window_log: 27})}, passages=["t0", "t1"]),
    "zlib under the name of gzip": Case({"p.jsonl.gz": zlib.compress(LINES.encode())}, ("p.jsonl.gz: an archive, or compressed in a way",)),
    "Parquet within gzip": Case({"p.parquet.gz": lambda path: (towns(path), path.write_bytes(gzip.compress(path.read_bytes())))}, passages=["t0", "t1"]),
    "JSONL that is called CSV": Case({"p.csv": LINES}, passages=["t0", "t1"]),
    "a list of JSON that is called TSV": Case({"p.tsv": json.dumps(TOWNS)}, passages=["t0", "t1"]),
    "Parquet that is called CSV": Case({"p.csv": towns}, passages=["t0", "t1"]),
}  # fmt: skip
