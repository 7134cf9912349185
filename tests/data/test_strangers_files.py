"""Files as their programs write them, and what lies around them: read right or refused, never taken for something else."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import unicodedata
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from multiview.cli.inspection import source_settings
from multiview.config import Config
from multiview.config.overrides import gather, validate
from multiview.data.inspection import Inspection, inspect
from multiview.data.passages import count_passages
from multiview.data.reading.files import base_name
from multiview.data.reading.readers import passage_tables
from multiview.data.split import split
from multiview.errors import InputError
from multiview.serving.hits import as_json
from multiview.steps.context import StepContext
from tests.fixtures.events import RecordedEvents
from tests.fixtures.forked import MULTIVIEW, run_forked
from tests.fixtures.servers import answering
from tests.fixtures.split_run import OUTPUTS

TOWNS = [
    {"id": "t0", "title": "Orlen", "text": "Orlen lies on a lake. Mirja Toll founded it (1310)."},
    {"id": "t1", "title": "Bask", "text": "Bask has a wooden bridge. Ola Brandt built it in 1602."},
]
LINES = "".join(f"{json.dumps(town)}\n" for town in TOWNS)
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "7" * 64 + "\nsize 5120\n"
"""What a clone without Git LFS has in place of a file."""

Content = "str | bytes | Callable[[Path], object]"


@dataclass
class Case:
    """Files, and what `inspect` finds in them."""

    files: Mapping[str, Content]  # type: ignore[valid-type]
    """Path to content, or to a function that writes it."""
    refused: Sequence[str] = ()
    """Parts of the line that refuses them."""
    passages: Sequence[str] | None = None
    """Ids of the passages."""
    questions: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]] | None = None
    """Question, answers and gold passages' texts or ids, of training, then of dev questions."""
    remarks: Sequence[str] = ()
    """Parts of the remarks."""
    sources: Sequence[str] = (".",)
    settings: Sequence[str] = ()


def put(folder: Path, files: Mapping[str, Content]) -> None:  # type: ignore[valid-type]
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def config_of(folder: Path, sources: Sequence[str], settings: Sequence[str]) -> Config:
    """The settings that `multiview inspect` makes of sources in a folder."""
    named = [source if "://" in source else str(folder / source) for source in sources]
    words = ["corpus.shards=1", *(setting.replace("FOLDER", str(folder)) for setting in settings)]
    words += source_settings(named, None, words)
    return validate(gather(None, words if "questions." in str(words) else [*words, "questions.origin=crop"]))


def looked_into(folder: Path, sources: Sequence[str], settings: Sequence[str]) -> Inspection:
    """What `multiview inspect` finds in sources of a folder."""
    return inspect(config_of(folder, sources, settings), lambda _: None)


def is_split_alike(folder: Path, config: Config, found: Inspection | None, lines: Sequence[str]) -> bool:
    """Whether the step `split` takes what `inspect` finds, and refuses with one of its lines what that refuses."""
    outputs = {name: folder / ".split" / name for name in OUTPUTS}
    for path in outputs.values():
        path.mkdir(parents=True)
    try:
        split(StepContext(config, {}, outputs, RecordedEvents()))
    except InputError as error:
        return str(error) in lines
    assert found is not None
    return not lines and count_passages(outputs["passages"]) == found.passages


def check(case: Case, folder: Path) -> None:
    put(folder, case.files)
    config = found = None
    try:
        config = config_of(folder, case.sources, case.settings)
        found = inspect(config, lambda _: None)
    except InputError as error:
        lines, remarks = [str(error)], []
    else:
        lines, remarks = list(found.problems.first.values()), list(found.remarks.first.items())
        if not lines:
            assert not case.refused, f"not refused: {found}"
            if case.passages is not None:
                assert [row["id"] for row in found.first_passages] == list(case.passages)
                assert found.passages == len(case.passages)
            if case.questions is not None:
                asked = [*found.questions["train"], *found.questions["dev"]]
                assert [(q.question, q.answers, q.positive_ids) for q in asked] == list(case.questions)
    assert bool(lines) == bool(case.refused), lines
    assert config is None or is_split_alike(folder, config, found, lines), lines
    for part in case.refused:
        assert any(part in line for line in lines), (part, lines)
    for part in case.remarks:
        assert any(part in " ".join(remark) for remark in remarks), (part, remarks)


def lines(*rows: object) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def table(**columns: object) -> Callable[[Path], object]:
    return lambda path: pq.write_table(pa.table(columns), path)


def linked(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def towns(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(TOWNS), path)


def feathered(path: Path) -> None:
    feather.write_feather(pa.Table.from_pylist(TOWNS), str(path))


def zipped(*names: str) -> bytes:
    import zipfile

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, "x" * 40)
    return stream.getvalue()


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
    "a folder of pointers among articles": Case(
        {"Orlen.txt": TOWNS[0]["text"], "Bask.txt": POINTER}, ("Bask.txt: a Git LFS pointer",)
    ),
    "a link of git-annex as text": Case(
        {"a.txt": "../../.git/annex/objects/W6/9x/SHA256E-s77--ab.txt"}, ("a.txt: a git-annex pointer",)
    ),
    "a link of git as text": Case(
        {"a.txt": "../../data/Town.txt"}, ("a.txt: a link that was checked out as text",)
    ),
    "a pointer of Xet": Case({"a.txt": "# xet version 0\nfilesize = 77\n"}, ("a.txt: a Xet pointer",)),
    "a pointer of git-annex": Case(
        {"p.jsonl": "/annex/objects/SHA256E-s77--ab.jsonl\n"},
        ("p.jsonl: a git-annex pointer", "git annex get"),
    ),
    "a workbook": Case(
        {"p.xlsx": zipped("_rels/.rels", "xl/workbook.xml")},
        ("p.xlsx: a workbook", "CSV"),
        sources=("p.xlsx",),
    ),
    "a workbook of openpyxl that is called CSV": Case(
        {"p.csv": zipped("docProps/app.xml", "xl/workbook.xml")}, ("p.csv: a workbook", "save it as CSV")
    ),
    "a spreadsheet of OpenDocument": Case(
        {"p.ods": zipped("mimetype", "content.xml")}, ("p.ods: a workbook",), sources=("p.ods",)
    ),
    **{
        f"a document that begins with {name}": Case(
            {"p.txt": zipped(name, "META-INF/x.xml", *more)},
            ("p.txt: a PDF, RTF, EPUB or document of an office program", "write its text as .txt"),
        )
        for name, *more in (("[Content_Types].xml", "word/document.xml"), ("_rels/.rels", "ppt/slides/1.xml"))
    },
    "an EPUB": Case(
        {"p.epub": zipped("mimetypeapplication/epub+zip")}, ("p.epub: a PDF, RTF, EPUB",), sources=("p.epub",)
    ),
    "an old workbook": Case(
        {"p.csv": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)}, ("p.csv: a workbook", "save it as CSV")
    ),
    "a zip": Case({"p.jsonl": zipped("p.jsonl")}, ("p.jsonl: a zip archive", "unpack it")),
    "feather": Case(
        {"p.feather": feathered}, ("p.feather: an Arrow file", "Parquet"), sources=("p.feather",)
    ),
    "feather that is called Parquet": Case({"p.parquet": feathered}, ("p.parquet: an Arrow file", "Parquet")),
    "ORC": Case(
        {"p.orc": lambda path: orc.write_table(pa.Table.from_pylist(TOWNS), str(path))},
        ("p.orc: an ORC file", "write it as Parquet"),
        sources=("p.orc",),
    ),
    "articles that begin as other formats do": Case(
        {"a.txt": "ORCHARDS surround Orlen.\n", "b.txt": "PARENTS came.\n", "c.txt": "FEA1 and PAR1.\n"},
        passages=["a-0", "b-0", "c-0"],
    ),
    "a pickle": Case(
        {"p.pkl": b"\x80\x04\x95\x10\x00"}, ("p.pkl: a Python pickle", "Parquet"), sources=("p.pkl",)
    ),
    "a database": Case(
        {"p.db": b"SQLite format 3\0" + bytes(90)}, ("p.db: a database of SQLite",), sources=("p.db",)
    ),
    "a database of DuckDB": Case(
        {"p.duckdb": bytes(8) + b"DUCK" + bytes(90)}, ("p.duckdb: a database of",), sources=("p.duckdb",)
    ),
    "arrays of NumPy": Case({"p.npz": zipped("ids.npy")}, ("p.npz: an array of NumPy",), sources=("p.npz",)),
    "a PDF among articles": Case({"a.txt": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"}, ("a.txt: a PDF",)),
    "a login page in place of a CSV": Case(
        {"p.csv": "<!DOCTYPE html>\n<html><body>Sign in\n"}, ("p.csv: a web page",)
    ),
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
    "UTF-16 without a mark": Case(
        {"p.csv": "id,title,text\n".encode("utf-16-le")}, ("p.csv: UTF-16", "UTF-8")
    ),
    "Latin-1 in a list of JSON": Case(
        {"p.json": '[{"id": "1", "text": "Z\u00fcrich"}]'.encode("latin-1")}, ("p.json: not UTF-8; convert",)
    ),
    "WikiExtractor's documents among articles": Case(
        {
            "wiki_00.txt": '<doc id="12" title="Orlen">\nOrlen\n</doc>\n<doc id="13" title="Bask">\nBask\n</doc>\n'
        },
        ("wiki_00.txt: documents in mark-up", "JSONL"),
    ),
    "a web archive among articles": Case(
        {"a.txt": "WARC/1.0\r\nWARC-Type: response\r\n"}, ("a.txt: documents in mark-up",)
    ),
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
    "an article that holds a table": Case(
        {"a.txt": "Orlen, by year:\n1310\tfounded\n1602\ta bridge\n", "b.txt": "Id, text: a column each."},
        passages=["a-0", "b-0"],
    ),
    "rows that are an article": Case(
        {"a.txt": "1310\tfounded\n1602\ta bridge\n"}, passages=["a-0"], settings=("corpus.format=text",)
    ),
    "TREC's documents": Case(
        {"d.txt": "<DOC>\n<DOCNO> F-1 </DOCNO>\n<TEXT>Orlen</TEXT>\n</DOC>\n"},
        ("d.txt: documents in mark-up",),
    ),
    "TREC's topics": Case(
        {"topics.301.txt": "<top>\n<num> Number: 301\n<title> Orlen\n</top>\n"},
        ("topics.301.txt: documents in mark-up", "JSONL"),
    ),
    "UTF-16": Case({"p.csv": LINES.encode("utf-16")}, ("p.csv: UTF-16", "UTF-8")),
    "a folder of save_to_disk": Case(
        {"state.json": "{}", "dataset_info.json": "{}", "data-00000-of-00001.arrow": feathered},
        ("a datasets folder (state.json)", "to_parquet"),
    ),
    "a folder of several sets of save_to_disk": Case(
        {"dataset_dict.json": '{"splits": ["train"]}', "train/state.json": "{}"},
        ("a datasets folder (dataset_dict.json)", "to_parquet"),
    ),
    "metadata beside data": Case(
        {"dataset_infos.json": "{}", "dataset-metadata.json": "{}", "p.jsonl": LINES, "README.txt": "About."},
        passages=["t0", "t1"],
    ),
    "metadata by name": Case(
        {"dataset_info.json": '{"features": {}}'},
        ("dataset_info.json: describes data",),
        sources=("dataset_info.json",),
    ),
    "gzip under a plain name": Case({"p.jsonl": gzip.compress(LINES.encode())}, passages=["t0", "t1"]),
    "xz under the name of an article": Case({"p.txt": lzma.compress(b"Orlen.")}, passages=["p-0"]),
    "plain under the name of gzip": Case({"p.jsonl.gz": LINES}, passages=["t0", "t1"]),
    **{
        f"gzip under the name of {suffix}": Case(
            {f"p.jsonl{suffix}": gzip.compress(LINES.encode())}, passages=["t0", "t1"]
        )
        for suffix in (".bgz", ".gzip", ".GZ")
    },
    "gzip twice": Case(
        {"p.jsonl.gz.gz": gzip.compress(gzip.compress(LINES.encode()))}, passages=["t0", "t1"]
    ),
    **{
        f"{more} after a stream of {suffix}": Case(
            {f"p.jsonl.{suffix}": pack(LINES.encode()) + behind(pack)}, refused, passages
        )
        for suffix, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress))
        for more, behind, refused, passages in (
            ("another", lambda pack: pack(LINES.replace("t", "u", 2).encode()), ("used before",), None),
            ("an empty one", lambda pack: pack(b""), (), ["t0", "t1"]),
            ("zeros", lambda pack: bytes(8), (), ["t0", "t1"]),
            ("bytes", lambda pack: b"{}\n", ("cannot be read", "is it complete"), None),
            ("a part of another", lambda pack: pack(LINES.encode())[:-2], ("cannot be read",), None),
            ("a damaged one", lambda pack: pack(LINES.encode())[:20] + bytes(99), ("cannot be read",), None),
        )
    },
    "zlib under the name of gzip": Case(
        {"p.jsonl.gz": zlib.compress(LINES.encode())}, ("p.jsonl.gz: an archive, or compressed in a way",)
    ),
    "Parquet within gzip": Case(
        {"p.parquet.gz": lambda path: (towns(path), path.write_bytes(gzip.compress(path.read_bytes())))},
        passages=["t0", "t1"],
    ),
    "JSONL that is called CSV": Case({"p.csv": LINES}, passages=["t0", "t1"]),
    "a list of JSON that is called TSV": Case({"p.tsv": json.dumps(TOWNS)}, passages=["t0", "t1"]),
    "Parquet that is called CSV": Case({"p.csv": towns}, passages=["t0", "t1"]),
}

LAKES = {
    "a Delta table": Case(
        {"t/a.parquet": towns, "t/_delta_log/0.json": "{}"},
        ("/t: a Delta table (_delta_log)", "export"),
        sources=("t",),
    ),
    "a partition of a Delta table": Case(
        {"t/lang=de/a.parquet": towns, "t/_delta_log/0.json": "{}"},
        ("a Delta table",),
        sources=("t/lang=de",),
    ),
    "a pattern within a Delta table": Case(
        {"t/lang=de/a.parquet": towns, "t/_delta_log/0.json": "{}"},
        ("a Delta table",),
        sources=("t/*/*.parquet",),
    ),
    "a file of a Delta table": Case(
        {"t/a.parquet": towns, "t/_delta_log/0.json": "{}"}, ("a Delta table",), sources=("t/a.parquet",)
    ),
    "an Iceberg table": Case(
        {"t/data/a.parquet": towns, "t/metadata/v1.metadata.json": "{}"},
        ("an Iceberg table",),
        sources=("t/data",),
    ),
    "an Iceberg table's own folder": Case(
        {"t/data/a.parquet": towns, "t/metadata/v1.metadata.json": "{}"},
        ("an Iceberg table",),
        sources=("t",),
    ),
    "a partition of a Delta table far below it": Case(
        {"t/a=1/b=2/c=3/d=4/p.parquet": towns, "t/_delta_log/0.json": "{}"},
        ("a Delta table",),
        sources=("t/a=1/b=2/c=3/d=4",),
    ),
    "a Paimon table": Case(
        {"t/bucket-0/data-a.parquet": towns, "t/snapshot/snapshot-1": "{}"},
        ("/t: a Paimon table",),
        sources=("t/bucket-0",),
    ),
    "a Hive table with transactions": Case(
        {"t/base_0000002/a.parquet": towns, "t/delta_0000001_0000001/a.parquet": towns},
        ("/t: a Hive table with transactions",),
        sources=("t/base_0000002",),
    ),
    "a Lance table": Case(
        {"t/data/a.lance": b"x", "t/data/a.parquet": towns, "t/_versions/1.manifest": b"x"},
        ("/t: a Lance table",),
        sources=("t/data",),
    ),
    "a Hudi table": Case(
        {"t/a.parquet": towns, "t/.hoodie/hoodie.properties": ""}, ("a Hudi table (.hoodie)",), sources=("t",)
    ),
    "a folder that has metadata of its own": Case(
        {"t/a.parquet": towns, "t/metadata/about.json": "{}"}, passages=["t0", "t1"], sources=("t",)
    ),
}

FOLDERS = {
    "a broken link": Case(
        {"p.jsonl": LINES, "more.jsonl": linked("/nowhere/more.jsonl")},
        ("more.jsonl: a link to /nowhere/more.jsonl, which is not there",),
    ),
    "a broken link that a pattern names": Case(
        {"p.jsonl": LINES, "q.jsonl": linked("/nowhere/more.jsonl")},
        ("which is not there",),
        sources=("*.jsonl",),
    ),
    "a broken link by name": Case(
        {"p.jsonl": linked("/nowhere/more.jsonl")}, ("which is not there",), sources=("p.jsonl",)
    ),
    "a folder of parts with the name of a file": Case(
        {"p.jsonl": LINES, "more.parquet/part-0.parquet": towns}, ("more.parquet: a folder",)
    ),
    "a pattern that also names a folder of parts": Case(
        {"p.parquet": towns, "q.parquet/part-0.parquet": towns},
        ("q.parquet: a folder",),
        sources=("*.parquet",),
    ),
    "parts whose files DVC has not fetched": Case(
        {"p.jsonl": LINES, "more.jsonl.dvc": "outs:\n"}, ("more.jsonl.dvc: a DVC pointer", "dvc pull")
    ),
    "a folder under DVC": Case(
        {"p.jsonl": LINES, ".dvc/config": "", "state.json": "{}"}, passages=["t0", "t1"]
    ),
    "a missing part with a number in its suffix": Case(
        {"p-0-of-2.jsonl.bz2": bz2.compress(LINES.encode())}, ("1 of 2 files p-*-of-2.jsonl.bz2", "missing")
    ),
    "a part of no rows": Case(
        {"p.jsonl": LINES, "q.jsonl": ""},
        passages=["t0", "t1"],
        remarks=("files without passages", "q.jsonl"),
    ),
    "files that are not read": Case(
        {"p.jsonl": LINES, "q.jsonl.lz4": "x"}, passages=["t0", "t1"], remarks=("not read", "q.jsonl.lz4")
    ),
    "a shard that is missing": Case(
        {"p-00000-of-00003.jsonl": LINES, "p-00002-of-00003.jsonl": LINES.replace("t", "u")},
        ("2 of 00003 files p-*-of-00003.jsonl", "missing"),
    ),
    "shards of two versions": Case(
        {
            "p-00000-of-00001.jsonl": LINES,
            "p-00000-of-00002.jsonl": LINES.replace('"t', '"u'),
            "p-00001-of-00002.jsonl": LINES.replace('"t', '"v'),
        },
        ("1 of 00001 files p-*-of-00001.jsonl", "of another number"),
    ),
    "Parquet files one after another": Case(
        {"p.parquet": lambda path: (towns(path), path.write_bytes(2 * path.read_bytes()))},
        ("p.parquet: several Parquet files one after another",),
    ),
    "files beside data that an underscore hides": Case(
        {"p.jsonl": LINES, "_p.jsonl": LINES, "_SUCCESS": "", "x_$folder$": ""},
        passages=["t0", "t1"],
        remarks=("files and folders that are not read", "_p.jsonl"),
    ),
    "marks of Spark and EMR that a pattern names too": Case(
        {"d/p": LINES, "d/_SUCCESS": "", "d/x_$folder$": ""},
        passages=["t0", "t1"],
        sources=("d/*",),
        settings=("corpus.format=jsonl",),
    ),
    "lists of files and of settings beside data": Case(
        {
            "p.jsonl": LINES,
            "manifest.json": '{"entries": []}',
            "config.json": '{"a": 1}',
            "datapackage.json": "{}",
        },
        passages=["t0", "t1"],
        remarks=("not read", "config.json"),
    ),
    "lists beside articles": Case(
        {"a.txt": "Orlen.", "checksums.txt": "d41d a.txt\n", "CITATION.txt": "Toll 1310"},
        passages=["a-0"],
        remarks=("not read", "CITATION.txt"),
    ),
    "a folder within a folder": Case(
        {"p.jsonl": LINES, "more/q.jsonl": LINES.replace("t", "u")},
        passages=["t0", "t1"],
        remarks=("files and folders that are not read", "more"),
    ),
    "a folder that a pattern names": Case(
        {"d/p.jsonl": LINES, "d/more/q.jsonl": LINES.replace("t", "u")},
        passages=["t0", "t1"],
        sources=("d/*",),
        remarks=("files and folders that are not read", "more"),
    ),
    "a broken link without a suffix that a pattern names": Case(
        {"d/p.jsonl": LINES, "d/part-2": linked("/nowhere/part-2")},
        passages=["t0", "t1"],
        sources=("d/*",),
        remarks=("files and folders that are not read", "part-2"),
    ),
    "a file that is in iCloud": Case(
        {"p.jsonl": LINES, ".q.jsonl.icloud": "x"},
        passages=["t0", "t1"],
        remarks=("files and folders that are not read", ".q.jsonl.icloud"),
    ),
    "files beside questions that are not read": Case(
        {
            "p.jsonl": LINES,
            "qs/q.jsonl": lines(
                {"qid": "q1", "question": "Who founded Orlen?", "positive_ids": ["t0"]},
                {"qid": "q2", "question": "Who built the bridge?", "positive_ids": ["t1"]},
            ),
            "qs/r.jsonl.lz4": "x",
        },
        settings=("corpus.source=FOLDER/p.jsonl", "questions.source=FOLDER/qs"),
        sources=(),
        remarks=("files and folders that are not read", "r.jsonl.lz4"),
    ),
    "a corpus of gold passages for questions that are made": Case(
        {"p.jsonl": LINES}, ("corpus.keep=gold: no questions",), settings=("corpus.keep=gold",)
    ),
    "judgements of a collection under another name": Case(
        {
            "corpus/c.parquet": table(_id=["t0"], text=["Orlen."]),
            "queries/q.parquet": table(_id=["q1"], text=["Who?"]),
            "default/test.parquet": towns,
        },
        passages=["t0"],
        remarks=("default",),
    ),
    "folders of Hive alone": Case(
        {"lang=de/p.parquet": towns, "lang=fr/p.parquet": towns},
        ("no files there", "lang=de", "/*/*.parquet"),
    ),
    "columns in the names of folders": Case(
        {"lang=de/p.parquet": towns},
        passages=["t0", "t1"],
        remarks=("names of folders", "lang=de"),
        sources=("*/*.parquet",),
    ),
    "columns in the names of folders and in the files": Case(
        {"lang=de/p.jsonl": lines({"id": "a", "text": "x", "lang": "de"})},
        passages=["a"],
        sources=("lang=de",),
    ),
    "parts without a suffix": Case(
        {"p-000000": LINES}, ("no files there", "p-000000", "/*"), settings=("corpus.format=jsonl",)
    ),
}


def asked(cell: str, name: str = "q.csv") -> dict[str, str]:
    """The towns, a question about the first with a cell of answers, and one about the second without."""
    quoted = '"' + cell.replace('"', '""') + '"'
    return {
        "p.jsonl": LINES,
        name: f"qid,question,answers,positive_ids\nq1,Who founded Orlen?,{quoted},t0\n",
        "z.csv": "qid,question,positive_ids\nq2,Where is a bridge?,t1\n",
    }


TOLL = ("Mirja Toll", "Toll")


def gold(passages: list[dict], positive: object, **more: object) -> dict[str, str]:
    """Passages, and a question about one of them."""
    question = {"qid": "q1", "question": "Who?", "positive_ids": [positive], **more}
    return {"p.jsonl": "".join(f"{json.dumps(row)}\n" for row in passages), "q.jsonl": json.dumps(question)}


CELLS = (
    {
        f"answers written as {cell}": Case(
            asked(cell),
            questions=[("Who founded Orlen?", answers, ("t0",)), ("Where is a bridge?", (), ("t1",))],
        )
        for cell, answers in {
            "['Mirja Toll' 'Toll']": TOLL,
            "['Mirja Toll'\n 'Toll']": TOLL,
            "['Mirja Toll' \"Toll\"]": TOLL,
            " ['Mirja Toll', 'Toll'] ": TOLL,
            "('Mirja Toll', 'Toll')": TOLL,
            "{'Mirja Toll', 'Toll'}": TOLL,
            '["Mirja Toll", "Toll"]': TOLL,
            "['Toll']": ("Toll",),
            "[1310 1311]": ("1310", "1311"),
            "founded it (1310)": ("founded it (1310)",),
            "(1310)": ("(1310)",),
            "Mirja Toll": ("Mirja Toll",),
        }.items()
    }
    | {
        f"answers written as {cell}": Case(
            asked(cell), ("row 1 (question q1): answers", "looks like a list", "JSON")
        )
        for cell in (
            "['Mirja Toll' 'Toll', 'M. Toll']",
            "['Mirja Toll' ... 'Toll']",
            "['Mirja Toll' nan]",
            "[Mirja Toll, Toll]",
            "[sic]",
            "['Mirja Toll', 'Tol",
            '{Toll,"Mirja Toll"}',
            "array(['Toll'], dtype=object)",
            'c("Mirja Toll", "Toll")',
            "ARRAY['Toll']",
            "WrappedArray(Mirja Toll, Toll)",
            '{"text": ["Toll"], "answer_start": [22]}',
            "{'text': array(['Toll'], dtype=object), 'answer_start': array([22])}",
        )
    }
    | {
        "gold passages as Postgres writes them": Case(
            {"p.jsonl": LINES, "q.csv": 'qid,question,positive_ids\nq1,Who?,"{t0,t1}"\n'},
            ("positive_ids", "looks like a list"),
        ),
        "answers that no gold passage holds": Case(
            asked("Toll|Mirja Toll"),
            (
                "none of the answers of 1 question is in its gold passage (first: 'Toll|Mirja Toll')",
                "questions.free_answers",
            ),
        ),
        **{
            f"answers between {mark!r} beside others": Case(
                asked(f"Toll{mark}Mirja Toll")
                | {"more.csv": "qid,question,answers,positive_ids\nq3,Who?,Ola Brandt,t1\n"},
                (
                    "of 1 question the gold passage holds only a part of the answer (first: question q1",
                    "list",
                ),
            )
            for mark in ("|", "; ", "\t", "\n")
        },
        "answers between | that are free": Case(
            asked("Toll|Mirja Toll"), settings=("questions.free_answers=true",), remarks=("free answers",)
        ),
        "answers that are patterns": Case(
            asked("Toll|Brandt"),
            questions=[
                ("Who founded Orlen?", ("Toll|Brandt",), ("t0",)),
                ("Where is a bridge?", (), ("t1",)),
            ],
            settings=("questions.answer_matching=regex",),
        ),
        "answers between | without gold passages": Case(
            {"p.jsonl": LINES, "dev.csv": "qid,question,answers\nq1,Who?,Toll|Mirja\n"},
            questions=[("Who?", ("Toll|Mirja",), ())],
            remarks=("answers hold |", "question q1, 'Toll|Mirja'"),
        ),
        "answers that are fractions of whole numbers": Case(
            gold([{"id": "t0", "text": "In 1310, x."}, {"id": "t1", "text": "y."}], "t0", answers=[1310.0]),
            questions=[("Who?", ("1310",), ("t0",))],
            settings=("questions.dev_source=FOLDER/q.jsonl",),
            sources=("p.jsonl",),
        ),
        **{
            f"gold passages between {mark!r}": Case(
                {
                    "p.jsonl": LINES,
                    "q.csv": "qid,question,positive_ids\n"
                    + "".join(f"q{n},Who?,t{n % 2}\n" for n in range(20))
                    + f'r,Who?,"t0{mark}t1"\n',
                },
                ("question r: gold passage 't0", "is several; write their ids as a list"),
            )
            for mark in ("|", ", ", ";", " ")
        },
        "a gold passage that is missing beside others with its words": Case(
            {
                "p.jsonl": lines(*({"id": name, "text": "A town."} for name in ("North", "Sea", "Bask"))),
                "q.jsonl": lines(
                    *(
                        {"qid": name, "question": "Which?", "positive_ids": [name]}
                        for name in ("Sea", "Bask")
                    ),
                    {"qid": "r", "question": "Which?", "positive_ids": ["North Sea"]},
                ),
            },
            remarks=("gold passages are not in the corpus, left out", "question r"),
            settings=("questions.max_missing_gold=0.5",),
        ),
        "prose of which a gold passage holds a line": Case(
            {
                "p.jsonl": LINES,
                "q.jsonl": lines(
                    {
                        "qid": "a",
                        "question": "Who?",
                        "positive_ids": ["t0"],
                        "answers": ["Toll\n" + "x " * 99],
                    },
                    {"qid": "b", "question": "Who?", "positive_ids": ["t1"], "answers": ["Ola Brandt"]},
                ),
            },
            remarks=("free answers", "question a"),
        ),
        "answers of dev questions that no gold passage holds": Case(
            asked("Toll;Mirja Toll", "dev.csv"),
            ("questions.dev_source: none of the answers of 1 question",),
        ),
        "free answers": Case(
            asked("yes"), settings=("questions.free_answers=true",), remarks=("free answers",)
        ),
        "free answers beside others": Case(
            asked("yes") | {"more.csv": "qid,question,answers,positive_ids\nq3,Who?,Toll,t0\n"},
            remarks=("free answers",),
        ),
    }
)


LOOK_ALIKES = {
    f"an id that differs in {how}": Case(
        gold([{"id": stored, "text": "x y."}], named),
        (f"passage {named_shown}", f"the corpus has {shown}", f"but for {how}"),
    )
    for how, named, named_shown, stored, shown in (
        ("its normal form", "Zürich", "'Zürich'", unicodedata.normalize("NFD", "Zürich"), r"'Zu\u0308rich'"),
        ("its normal form and white space", "t 1", "'t 1'", "t\u00a01", r"'t\xa01'"),
        ("white space", "t1", "'t1'", "t1 ", "'t1 '"),
        ("case", "T1", "'T1'", "t1", "'t1'"),
        ("leading zeros", "7", "'7'", "007", "'007'"),
        ("a final .0", "7", "'7'", "7.0", "'7.0'"),
    )
} | {
    "a given negative that no passage has": Case(
        gold([{"id": "t1", "text": "x y."}, {"id": "T2", "text": "z."}], "t1", negative_ids=["t2"]),
        ("no training question names a negative that is in the corpus (first: 't2'; the corpus has 'T2'",),
        settings=("questions.hard_negatives=given",),
    ),
    "an article whose name differs in its normal form": Case(
        {
            f"a/{unicodedata.normalize('NFD', 'Zürich')}.txt": "Zürich lies on a lake.",
            "q.jsonl": json.dumps({"qid": "q0", "question": "Where?", "positive_ids": ["Zürich"]}),
        },
        ("passage 'Zürich'; the corpus has 'Zu\\u0308rich', the same but for its normal form",),
        settings=("corpus.source=FOLDER/a",),
        sources=("q.jsonl",),
    ),
    "a judged question that differs in case": Case(
        {"p.jsonl": LINES, "queries.tsv": "Q1\tWho founded it?\n", "qrels.train.tsv": "q1 0 t0 1\n"},
        ("none of 1 judged question (first: 'q1'; the files of questions have 'Q1', the same but for case)",),
        settings=("questions.source=[FOLDER/queries.tsv, FOLDER/qrels.train.tsv]",),
        sources=("p.jsonl",),
    ),
}

LOOK_ALIKES["one judged question of several"] = Case(
    {"p.jsonl": LINES, "queries.tsv": "01\tWho founded it?\n2\tWho?\n", "qrels.tsv": "1 0 t0 1\n2 0 t1 1\n"},
    sources=("p.jsonl",),
    settings=("questions.dev_source=[FOLDER/queries.tsv, FOLDER/qrels.tsv]",),
    remarks=(
        "no file of questions has '1'; the files of questions have '01', the same but for leading zeros",
    ),
)

ASKED_BY_ID = [{"qid": f"q{n}", "question": "Who?", "positive_ids": [f"t{n}"]} for n in range(2)]

TABLES = {
    "ids of passages beside those of their documents": Case(
        {"p.csv": "doc_id,passage_id,text\nd,d-0,Orlen.\nd,d-1,Bask.\n"}, passages=["d-0", "d-1"]
    ),
    "a TSV whose header has other names": Case(
        {"p.tsv": "passage_id\tpassage_text\nt0\tOrlen lies on a lake.\n"}, passages=["t0"]
    ),
    "a TSV whose header nothing knows": Case(
        {"p.tsv": "nummer\tinhalt\n1\tOrlen liegt am See.\n2\tBask hat eine Bruecke.\n"},
        ("p.tsv line 1", "looks like a header (nummer, inhalt)", "corpus.columns"),
    ),
    "a TSV whose first text is one word": Case(
        {"p.tsv": "t0\tOrlen\nt1\tBask has a bridge.\n"}, passages=["t0", "t1"]
    ),
    "CSVs one after another": Case(
        {"p.csv": "id,text\n1,Orlen.\nid,text\n2,Bask.\n"}, ("p.csv line 3", "repeats the header")
    ),
    "CSVs with marks one after another": Case(
        {"p.csv": "\ufeffid, text\n1,Orlen.\n\ufeffid, text\n2,Bask.\n"},
        ("p.csv line 3", "repeats the header"),
    ),
    "line ends of old Macs, and blank lines first": Case(
        {"p.csv": "\r\rid,text\r1,A lake.\r2,A bridge.\r"}, passages=["1", "2"]
    ),
    "a header over two lines": Case(
        {"p.csv": 'id,"te\nxt"\n1,A lake.\n'}, ("no column 'text' among id, te",)
    ),
    "parts of Spark without a header, one of a single row": Case(
        {"part-0.csv": "id,text\nt0,A lake.\n", "part-1.csv": "t1,A bridge.\n", "_SUCCESS": ""},
        ("part-1.csv: its only line is no header (t1,A bridge.)",),
    ),
    "a header of names with dots": Case(
        {"p-0.tsv": "p.id\tp.text\na\tA lake.\n", "p-1.tsv": "p.id\tp.text\n"},
        passages=["a"],
        remarks=("files without passages", "p-1.tsv"),
        settings=("corpus.columns={id: p.id, text: p.text}",),
    ),
    "such a part without a suffix": Case(
        {"part-0": "t1\tBask\tA bridge.\n"},
        ("part-0: its only line is no header",),
        sources=("part-0",),
        settings=("corpus.format=tsv",),
    ),
    "a part of Spark that has a header of the user's alone": Case(
        {"part-0.csv": "pid,body\nt0,A lake.\n", "part-1.csv": "pid,body\n"},
        passages=["t0"],
        remarks=("files without passages", "part-1.csv"),
        settings=("corpus.columns={id: pid, text: body}",),
    ),
    "texts of Excel": Case(
        {"p.csv": 'id,text\n="001",="A ""lake"""\n"=""002""","a = ""b"""\n'}, passages=["001", "002"]
    ),
    "TSVs with marks one after another": Case(
        {"collection.tsv": "\ufeff\ufeff1\tA lake.\n\ufeff2\tA bridge.\n"}, passages=["1", "2"]
    ),
    "JSONL with marks one after another": Case(
        {"p.jsonl": "".join(f"\ufeff{line}\n" for line in LINES.splitlines())}, passages=["t0", "t1"]
    ),
    **{
        f"a quote that is left open over {over} lines, before {mark!r}": Case(
            {
                name: f'id{mark}title{mark}text\n1{mark}Orlen{mark}"A lake.\n'
                + f"2{mark}Bask{mark}A bridge.\n" * over
                + f'3{mark}Toll{mark}A name"\n4{mark}Zell{mark}A mill.\n'
            },
            (f"{name} line {over + 3}: a cell holds whole lines of 3 columns, from line 2 on", "quote"),
        )
        for name, mark in (("p.csv", ","), ("p.tsv", "\t"))
        for over in (0, 2)
    },
    "paragraphs, numbers and objects in cells": Case(
        {
            "p.csv": 'id,text\n1,"Orlen, on a lake.\nIn 1310, it had 1,000\n2,000 souls,\nand 3."\n'
            '2,"{""a"": 1,\n""b"": 2}"\n3,"Towns:\nBask, with a bridge\nOrlen,\n"\n'
        },
        passages=["1", "2", "3"],
    ),
    "MS MARCO's with the line ends of old Macs": Case(
        {"collection.tsv": "1\tA lake.\r2\tA bridge.\r"}, ("line 1: not MS MARCO's id and text",)
    ),
    **{
        f"{kind} as {value}": Case({"p.csv": f"id,text\n{of}\n"}, passages=[id_], remarks=(kind, value))
        for kind, value, of, id_ in (
            ("stand for nothing", "NA", "1,NA", "1"),
            ("stand for nothing", "#DIV/0!", "1,#DIV/0!", "1"),
            ("as Python writes", "b'Orlen.'", "1,b'Orlen.'", "1"),
            ("as Python writes", "['Orlen.', 'Bask.']", "1,\"['Orlen.', 'Bask.']\"", "1"),
            ("escapes of a database", "A lake.", "1,A lake.\\nA bridge.", "1"),
            ("in quotes", "'1'", "'1','A lake.'", "'1'"),
            ("of a database or a workbook", "_x000D_", "1,A lake._x000D_", "1"),
            ("of a database or a workbook", "Z\\\\u00fcrich", "1,Z\\u00fcrich", "1"),
            ("decoded wrongly", "Z%C3%BCrich", "1,Z%C3%BCrich", "1"),
            ("decoded wrongly", "Ã¼", "1,ZÃ¼rich", "1"),
            ("decoded wrongly", "itâ€™s", "1,itâ€™s a lake", "1"),
            ("decoded wrongly", "Z\ufffdrich", "1,Z\ufffdrich", "1"),
            ("with HTML", "A &amp; B", "1,A &amp; B", "1"),
            ("with HTML", "<p>A lake.</p>", "1,<p>A lake.</p>", "1"),
            ("rounded", "1.23E+12", "1.23E+12,A lake.", "1.23E+12"),
            ("by which a spreadsheet takes them for text", "'007", "'007,A lake.", "'007"),
            ("a column's type", "varchar(20)", "varchar(20),VARCHAR", "varchar(20)"),
        )
    },
    "questions that stand for nothing": Case(
        {"p.jsonl": LINES, "dev.csv": "qid,question,answers\na,Who?,Toll\nb,Where?,nan\n"},
        questions=[("Who?", ("Toll",), ()), ("Where?", ("nan",), ())],
        remarks=("stand for nothing", "dev.csv row 2: 'nan'"),
    ),
    "errors of a spreadsheet": Case(
        {"p.csv": "id,title,text\n1,#N/A,Orlen.\n"}, passages=["1"], remarks=("stand for nothing", "#N/A")
    ),
    **{
        f"a line that is drawn under a header of {mark!r}": Case(
            {name: f"id{mark}title{mark}text\n--{mark}:-----:{mark}----\n1{mark}Orlen{mark}A lake.\n"},
            (f"{name} line 2: repeats the header, or rules it off",),
        )
        for name, mark in (("p.csv", ","), ("p.tsv", "\t"))
    },
    **{
        f"rows without a header that begin with {first!r}": Case(
            {"p.csv": f"{first},Orlen,A lake.\n1,Bask,A bridge.\n"},
            ("no column 'id'", "has it no header? Then add one"),
        )
        for first in ("t0", "0")
    },
    "a header that is wrong": Case({"p.csv": "key,name,text\n1,Orlen,A lake.\n"}, ("of an object)",)),
    "columns of Hive": Case({"p.csv": "id\x01text\n1\x01A lake.\n"}, ("separated by '\\x01'?",)),
    "a cell of as many characters as Excel holds": Case(
        {"p.csv": f"id,text\n1,{'lake ' * 6553}la\n2,{'lake ' * 6553}l\n"},
        passages=["1", "2"],
        remarks=("at which Excel cuts a cell", "p.csv row 1"),
    ),
    "columns without a name or a value": Case(
        {"p.csv": "id,title,text,,\n1,Orlen,A lake.,,\n,,,,\n2,Bask,A bridge.,,\n"}, passages=["1", "2"]
    ),
    "semicolons and commas": Case(
        {"p.csv": "\ufeffid;title;text\n1;Orlen;A lake, large\n"}, ("line 2", "separated by ';'?")
    ),
    "titles under another name": Case(
        {"p.csv": "id,Title,text\n1,Orlen,A lake.\n"},
        passages=["1"],
        remarks=("without title", "corpus.columns={title: 'Title'}"),
    ),
    "blanks in a header": Case(
        {"p.csv": "id,text, title\n1,A lake.,Orlen\n"},
        passages=["1"],
        remarks=("corpus.columns={title: ' title'}",),
    ),
    "topics beside passages": Case(
        {"p.jsonl": LINES, "topics.dev.tsv": "q1\tWho founded Orlen?\n", "qrels.dev.tsv": "q1\tQ0\tt0\t1\n"},
        passages=["t0", "t1"],
        questions=[("Who founded Orlen?", (), ("t0",))],
    ),
    "topics and judgements of TREC in a folder": Case(
        {"docs.jsonl": LINES, "topics.tsv": "1\tWho?\n2\tWhere?\n", "qrels.txt": "1 0 t0 1\n2 0 t1 1\n"},
        passages=["t0", "t1"],
        questions=[("Who?", (), ("t0",)), ("Where?", (), ("t1",))],
    ),
    "the same question of the same passage under another id": Case(
        {
            "p.jsonl": LINES,
            "train.jsonl": lines(*ASKED_BY_ID),
            "dev.jsonl": lines(
                ASKED_BY_ID[0] | {"qid": "z"}, ASKED_BY_ID[0] | {"qid": "y", "question": "Where?"}
            ),
        },
        remarks=("questions in both train and dev", "question z"),
    ),
    "ids under a name of passages, beside ids of questions": Case(
        {"p.jsonl": LINES, "q.csv": "qid,question,positive\na,Who?,t0\n"},
        ("q.csv row 1 (question a): neither an answer nor a gold passage; name their columns",),
    ),
    "an index without a name": Case({"p.csv": ",id,text\n0,a,Orlen.\n1,b,Bask.\n"}, passages=["a", "b"]),
    "answers under another name": Case(
        {"p.jsonl": LINES, "q.jsonl": lines(*(row | {"answer": "Toll"} for row in ASKED_BY_ID))},
        remarks=("questions without answers beside a column that is not read", "{answers: answer}"),
    ),
    "words for nothing": Case(
        {"p.csv": "id,title,text\n1,NULL,Orlen.\n2,\\N,Bask.\n"},
        passages=["1", "2"],
        remarks=("stand for nothing", "NULL"),
    ),
    "columns of ours": Case(
        {"p.jsonl": '{"id": "a", "text": "x", "content_hash": "7"}\n'},
        passages=["a"],
        remarks=("not read", "content_hash"),
    ),
    "columns of ours in articles": Case(
        {"p.jsonl": '{"id": "a", "text": "x y", "article_id": "z"}\n'},
        passages=["a-0", "a-1"],
        remarks=("not read", "p.jsonl: column 'article_id'; rename it to keep it"),
        settings=("corpus.cut=words", "corpus.cut_length=1"),
    ),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_that_looks_like_a_list_is_one_or_refused(name, tmp_path):
    check(CELLS[name], tmp_path)


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_an_id_that_is_not_found_names_the_one_that_looks_the_same(name, tmp_path):
    check(LOOK_ALIKES[name], tmp_path)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_its_rows(name, tmp_path):
    check(TABLES[name], tmp_path)


FOUNDED, BUILT = "Orlen lies on a lake. Mirja Toll founded it.", "Ola Brandt built the bridge of Bask."


def training(**named: str) -> list[dict]:
    """Two training questions with whole passages, under a format's names of a question, its positives and negatives."""
    return [
        {named["question"]: "Who founded Orlen?", named["positives"]: [FOUNDED], named["negatives"]: [BUILT]},
        {
            named["question"]: "Who built the bridge?",
            named["positives"]: [BUILT],
            named["negatives"]: [FOUNDED],
        },
    ]


ASKED = [("Who founded Orlen?", (), (FOUNDED,)), ("Who built the bridge?", (), (BUILT,))]
"""The questions of `training`; passages are told by their texts."""
DPR = [
    {
        "question": "Who founded Orlen?",
        "answers": ["Mirja Toll"],
        "positive_ctxs": [{"title": "Orlen", "text": FOUNDED}],
        "negative_ctxs": [BUILT],
        "hard_negative_ctxs": [{"title": "Bask", "text": BUILT}],
    },
    {
        "question": "Who built it?",
        "answers": ["Ola Brandt"],
        "positive_ctxs": [{"title": "Bask", "text": BUILT}],
    },
]
DPR_ASKED = [
    ("Who founded Orlen?", ("Mirja Toll",), (FOUNDED,)),
    ("Who built it?", ("Ola Brandt",), (BUILT,)),
]
TEVATRON = [
    {
        "query_id": "q\u2028",
        "query": "Who\u2028 founded Orlen?",
        "positive_passages": [{"docid": "p0", "text": FOUNDED}],
    }
    | {"negative_passages": []},
    {"query_id": "r", "query": "Who built it?", "positive_passages": [{"docid": "p1", "text": BUILT}]},
]
TEVATRON_ASKED = [("Who\u2028 founded Orlen?", (), (FOUNDED,)), ("Who built it?", (), (BUILT,))]
SQUAD = [
    {"id": "s0", "title": "Orlen", "context": FOUNDED, "question": "Who?"}
    | {"answers": {"text": ["Mirja Toll"], "answer_start": [22]}},
    {"id": "s1", "title": "Bask", "context": BUILT, "question": "Who built it?"}
    | {"answers": {"text": ["Ola Brandt"], "answer_start": [0]}},
]
SQUAD_ASKED = [("Who?", ("Mirja Toll",), (FOUNDED,)), ("Who built it?", ("Ola Brandt",), (BUILT,))]
FLAG = training(question="query", positives="pos", negatives="neg")


def rows_of(rows: list[dict]) -> Callable[[Path], object]:
    return lambda path: pq.write_table(pa.Table.from_pylist(rows), path)


TRAINING = {
    "DPR without ids": Case({"train.json": json.dumps(DPR)}, questions=DPR_ASKED),
    "DPR a line each": Case({"train.jsonl": lines(*DPR)}, questions=DPR_ASKED),
    "DPR without ids beside another corpus": Case(
        {"train.json": json.dumps(DPR), "p.jsonl": LINES},
        ("the gold passages of 2 of 2 questions are not in the corpus",),
        settings=("corpus.source=FOLDER/p.jsonl",),
        sources=("train.json",),
    ),
    "tevatron with U+2028 in its first line": Case(
        {"train.jsonl": lines(*TEVATRON)}, questions=TEVATRON_ASKED
    ),
    "tevatron whose first line is longer than 64 KiB": Case(
        {"train.jsonl": lines({"query": "Who?", "note": "x" * 99_000, **TEVATRON[0]}, TEVATRON[1])},
        questions=TEVATRON_ASKED,
    ),
    "tevatron in Parquet": Case({"train.parquet": rows_of(TEVATRON)}, questions=TEVATRON_ASKED),
    "FlagEmbedding": Case({"train.jsonl": lines(*FLAG)}, questions=ASKED),
    "FlagEmbedding in Parquet": Case({"train.parquet": rows_of(FLAG)}, questions=ASKED),
    "FlagEmbedding with one text": Case(
        {"train.jsonl": lines(*(row | {"pos": row["pos"][0]} for row in FLAG))}, questions=ASKED
    ),
    "sentence-transformers": Case(
        {"train.jsonl": lines(*training(question="anchor", positives="positive", negatives="negative"))},
        questions=ASKED,
    ),
    "Hugging Face's SQuAD": Case({"train.parquet": rows_of(SQUAD)}, questions=SQUAD_ASKED),
    "Hugging Face's SQuAD a line each": Case({"train.jsonl": lines(*SQUAD)}, questions=SQUAD_ASKED),
    **{
        f"sentence-transformers in a {name.upper()}": Case(
            {
                f"train.{name}": f"{mark.join(FLAG[0])}\n".replace("pos", "positive").replace(
                    "neg", "negative"
                )
                + "".join(
                    mark.join(f'"{text}"' for text in (row["query"], *row["pos"], *row["neg"])) + "\n"
                    for row in FLAG
                )
            },
            questions=ASKED,
        )
        for name, mark in (("csv", ","), ("tsv", "\t"))
    },
    "FlagEmbedding in a CSV of pandas": Case(
        {
            "train.csv": "query,pos,neg\n"
            + "".join(f'{row["query"]},"{row["pos"]}","{row["neg"]}"\n' for row in FLAG)
        },
        questions=ASKED,
    ),
    "NQ-open": Case(
        {
            "p.jsonl": LINES,
            "NQ-open.dev.jsonl": lines({"question": "who founded orlen", "answer": ["Mirja Toll", "Toll"]}),
        },
        questions=[("who founded orlen", TOLL, ())],
    ),
    "NQ-open in Parquet": Case(
        {"p.jsonl": LINES, "dev.parquet": rows_of([{"question": "who founded orlen", "answer": ["Toll"]}])},
        questions=[("who founded orlen", ("Toll",), ())],
    ),
    "a list of plain objects": Case({"p.json": json.dumps(TOWNS)}, passages=["t0", "t1"]),
}


@pytest.mark.parametrize("name", TRAINING)
def test_training_files_are_read_as_their_owners_write_them(name, tmp_path):
    case = TRAINING[name]
    put(tmp_path, case.files)
    found = looked_into(tmp_path, case.sources, case.settings)
    lines = list(found.problems.first.values())
    assert bool(lines) == bool(case.refused), lines
    assert all(any(part in line for line in lines) for part in case.refused), lines
    texts = {row["id"]: row["text"] for row in found.first_passages}
    assert found.passages == 2
    asked = [*found.questions["train"], *found.questions["dev"]]
    if case.questions is not None:
        told = [(q.question, q.answers, tuple(texts[id_] for id_ in q.positive_ids)) for q in asked]
        assert told == list(case.questions)


QUERIES = "q1\tWho founded Orlen?\nq2\tWho built the bridge?\n"
JUDGED = [("Who founded Orlen?", (), ("t0",)), ("Who built the bridge?", (), ("t1",))]


def judged(name: str, content: Content) -> Case:  # type: ignore[valid-type]
    return Case(
        {"p.jsonl": LINES, "queries.tsv": QUERIES, name: content},
        questions=JUDGED,
        sources=("p.jsonl",),
        settings=(f"questions.dev_source=[FOLDER/queries.tsv, FOLDER/{name}]",),
    )


HF_QRELS = [
    {"query-id": "q1", "corpus-id": "t0", "score": 1},
    {"query-id": "q2", "corpus-id": "t1", "score": 2},
    {"query-id": "q2", "corpus-id": "t0", "score": 0},
]
HF_QUERIES = [{"_id": "q1", "text": JUDGED[0][0]}, {"_id": "q2", "text": JUDGED[1][0]}]
HF_CORPUS = [{"_id": town["id"], "title": town["title"], "text": town["text"]} for town in TOWNS]

JUDGEMENTS = {
    "rounds as second column": judged("qrels-round.txt", "q1 4.5 t0 2\nq1 0.5 t1 0\nq2 5 t1 1\n"),
    "blanks at the ends": judged("qrels.txt", "q1 0 t0  1 \n q2 0  t1 1\n\n"),
    "comments": judged("my.qrels.txt", "# by hand\nq1 0 t0 1\nq2 0 t1 1\n"),
    "a header behind #": judged("my.qrels.tsv", "#query-id\tcorpus-id\tscore\nq1\tt0\t1\nq2\tt1\t1\n"),
    "tabs and blanks": judged("qrels.tsv", "q1\t0\tt0\t1 \nq2\t0\tt1\t1\n"),
    "a CSV": judged("qrels.csv", "query_id,doc_id,relevance\nq1,t0,1\nq2,t1,1\n"),
    "a CSV of another name": judged("labels.csv", "query_id,doc_id,relevance\nq1,t0,1\nq2,t1,1\n"),
    "another header": judged("qrels.tsv", "qid\titer\tdocid\trel\nq1\t0\tt0\t1\nq2\t0\tt1\t1\n"),
    "another order": judged("qrels.tsv", "score\tcorpus-id\tquery-id\n1\tt0\tq1\n1\tt1\tq2\n"),
    "three columns without a header": judged("qrels.tsv", "q1\tt0\t1\nq2\tt1\t1\n"),
    "lines of JSON": judged("qrels.jsonl", lines(*HF_QRELS)),
    "Parquet": judged("qrels.parquet", rows_of(HF_QRELS)),
    "a CSV with commas in ids": Case(
        {
            "p.jsonl": LINES,
            "queries.tsv": "q,1\tWho founded Orlen?\nq2\tWho built the bridge?\n",
            "qrels.csv": '"query-id", "corpus-id", "score"\n"q,1", "t0", "1"\n"q2", "t1", "1"\n',
        },
        questions=JUDGED,
        sources=("p.jsonl",),
        settings=("questions.dev_source=[FOLDER/queries.tsv, FOLDER/qrels.csv]",),
    ),
    "marks of joined files": judged("qrels.txt", "\ufeffq1 0 t0 1\n\ufeffq2 0 t1 1\n"),
    **{
        f"an id that is {value!r}": Case(
            judged("qrels.jsonl", lines(*HF_QRELS, {"query-id": "q2", "corpus-id": value, "score": 1})).files,
            ("qrels.jsonl row 4: not a judgement",),
            sources=("p.jsonl",),
            settings=("questions.dev_source=[FOLDER/queries.tsv, FOLDER/qrels.jsonl]",),
        )
        for value in (None, ["t0", "t1"], True, float("nan"))
    },
    "ids that meet as numbers": Case(
        {
            "p.jsonl": LINES,
            "queries.tsv": "1\tWho?\n1.0\tWhere?\n",
            "qrels.jsonl": lines(*({"query-id": qid, "corpus-id": "t0", "score": 1} for qid in (1, 1.0))),
        },
        ("qrels.jsonl row 2: ids like 1 and 1.0 are one id; write them as texts",),
        sources=("p.jsonl",),
        settings=("questions.dev_source=[FOLDER/queries.tsv, FOLDER/qrels.jsonl]",),
    ),
    "a grade that is no whole number": Case(
        judged("qrels.txt", "q1 0 t0 0.5\n").files,
        ("qrels.txt line 1", "the grade '0.5' is no whole number"),
        sources=("p.jsonl",),
        settings=("questions.dev_source=[FOLDER/queries.tsv, FOLDER/qrels.txt]",),
    ),
    **{
        f"no relevant passage, {why}": Case(
            judged("qrels.tsv", content).files,
            ("qrels.tsv: no passage of 2 judged questions has a grade above 0", "qid 0 pid relevance"),
            sources=("p.jsonl",),
            settings=("questions.dev_source=[FOLDER/queries.tsv, FOLDER/qrels.tsv]",),
        )
        for why, content in {
            "by grade": "q1 0 t0 0\nq2 0 t1 -1\n",
            "by the order of the columns": "q1\tt0\t1\t0\nq2\tt1\t1\t0\n",
        }.items()
    },
    "prose": Case(
        judged("qrels.txt", "These are judgements.\n").files,
        ("qrels.txt line 1: not a judgement",),
        sources=("p.jsonl",),
        settings=("questions.dev_source=[FOLDER/queries.tsv, FOLDER/qrels.txt]",),
    ),
    **{
        f"a run called {name}": Case(
            judged(name, "q1 Q0 t0 1 12.5 bm25\nq2 Q0 t1 1 1e-3 bm25\n").files,
            (f"{name} line 1: a run's ranking, not a judgement (query-id corpus-id score",),
            sources=("p.jsonl",),
            settings=(f"questions.dev_source=[FOLDER/queries.tsv, FOLDER/{name}]",),
        )
        for name in ("qrels.txt", "run.trec", "bm25.tsv")
    },
    "triples of ColBERT's": Case(
        judged("triples.jsonl", "[1, 2, 3]\n[2, 1, 3]\n").files,
        ("triples.jsonl row 1: not a JSON object; triples of ids belong into a file triples*.tsv",),
        sources=("p.jsonl",),
        settings=("questions.dev_source=[FOLDER/triples.jsonl]",),
    ),
    "a BEIR folder with judgements as lines of JSON": Case(
        {
            "corpus.jsonl": lines(*HF_CORPUS),
            "queries.jsonl": lines(*HF_QUERIES),
            "qrels/test.jsonl": lines(*HF_QRELS),
        },
        questions=JUDGED,
    ),
    "a BEIR folder that is called corpus": Case(
        {
            "corpus/corpus.jsonl": lines(*HF_CORPUS),
            "corpus/queries.jsonl": lines(*HF_QUERIES),
            "corpus/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\tt0\t1\nq2\tt1\t1\n",
        },
        passages=["t0", "t1"],
        questions=JUDGED,
        sources=("corpus",),
    ),
    "a folder of mteb": Case(
        {
            "corpus/corpus-00000-of-00001.parquet": rows_of(HF_CORPUS),
            "queries/queries-00000-of-00001.parquet": rows_of(HF_QUERIES),
            "qrels/test-00000-of-00001.parquet": rows_of(HF_QRELS),
        },
        questions=JUDGED,
    ),
    "a BEIR folder whose judgements are not there": Case(
        {"corpus.jsonl": lines(*HF_CORPUS), "queries.jsonl": lines(*HF_QUERIES)},
        passages=["t0", "t1"],
        remarks=("files and folders that are not read", "queries.jsonl"),
    ),
}


def test_files_of_questions_are_not_among_those_that_are_not_read(tmp_path):
    put(tmp_path, JUDGEMENTS["a BEIR folder with judgements as lines of JSON"].files)
    assert not looked_into(tmp_path, ["."], []).remarks.counts


@pytest.mark.parametrize("name", JUDGEMENTS)
def test_judgements_are_read_in_every_usual_form(name, tmp_path):
    check(JUDGEMENTS[name], tmp_path)


ELASTIC = lines(
    {"_index": "w", "_id": "1", "_source": {"title": "Orlen", "text": "Orlen."}},
    {"_index": "w", "_id": "2", "_source": {"text": "Bask."}},
)
LANGCHAIN = {"page_content": "Orlen.", "metadata": {"source": "a.txt"}}
BY_SOURCE = ("corpus.columns={id: metadata.source, text: page_content}",)
KILT = [
    {"id": "k1", "input": JUDGED[0][0]}
    | {"output": [{"answer": "Mirja Toll", "provenance": [{"wikipedia_id": "t0"}]}, {"answer": "Toll"}]},
    {"id": "k2", "input": JUDGED[1][0]}
    | {"output": [{"answer": "Ola Brandt", "provenance": [{"wikipedia_id": "t1"}]}]},
]
NAMED_WITHIN = "qid: id, question: input, positive_ids: output.provenance.wikipedia_id"

TEVATRON_2 = {"query_id": "q", "query_text": "Who?", "positive_document_ids": ["t0"], "source": None}
BY_PLACE = (
    "corpus.source=FOLDER/p.jsonl",
    "questions.source=FOLDER/train.jsonl",
    "questions.dev_source=FOLDER/train.jsonl",
)

OBJECTS = {
    "questions under other names": Case(
        {"p.jsonl": LINES, "train.jsonl": lines(TEVATRON_2)},
        ("no column 'qid' among query_id, query_text", "questions.columns={qid: yours}"),
    ),
    "ids of passages under a name of passages": Case(
        {"p.jsonl": LINES, "train.jsonl": lines({"qid": "q", "query": "Who?", "positive": "t0"})},
        questions=[("Who?", (), ("t0",))] * 2,
        settings=(*BY_PLACE, "questions.columns={question: query, positive_ids: positive}"),
        sources=(),
    ),
    "Elasticsearch's dump": Case(
        {"p.json": ELASTIC},
        passages=["1", "2"],
        settings=("corpus.columns={title: _source.title, text: _source.text}",),
    ),
    "Elasticsearch's dump without a mapping": Case(
        {"p.json": ELASTIC}, ("no column 'text'", "yours.inner, of an object")
    ),
    "Elasticsearch's dump under a wrong name": Case(
        {"p.json": ELASTIC},
        ("no column '_source.titel'",),
        settings=("corpus.columns={title: _source.titel, text: _source.text}",),
    ),
    "an object where a text is named": Case(
        {"p.jsonl": lines({"id": "a", "x": {"y": {"z": 1}}})},
        ("row 1: column 'x.y' holds an object",),
        settings=("corpus.columns={text: x.y}",),
    ),
    **{
        f"rows within one object of {name}": Case(
            {"p.json": json.dumps(content)},
            ("not SQuAD's JSON", "write other objects one per line, or as a list"),
        )
        for name, content in {
            "a wrapper": {"documents": TOWNS},
            "pandas' columns": {
                name: {str(n): town[name] for n, town in enumerate(TOWNS)} for name in TOWNS[0]
            },
            "pandas' index": {str(n): town for n, town in enumerate(TOWNS)},
            "pandas' split": {"columns": [*TOWNS[0]], "index": [0], "data": [[*TOWNS[0].values()]]},
            "the dataset viewer": {"features": [], "rows": [{"row_idx": 0, "row": TOWNS[0]}]},
        }.items()
    },
    "one object that is a row": Case({"p.json": json.dumps(TOWNS[0])}, passages=["t0"]),
    "DynamoDB's": Case(
        {
            "p.json": lines(
                *({"Item": {name: {"S": town[name]} for name in ("id", "text")}} for town in TOWNS)
            )
        },
        passages=["t0", "t1"],
        settings=("corpus.columns={id: Item.id.S, text: Item.text.S}",),
    ),
    "a text that is a list": Case(
        {"p.jsonl": lines({"id": "a", "text": ["A lake.", "A bridge."]})},
        ("is list", "join its texts, or give each a row"),
    ),
    "NaN in a list": Case(
        {"p.json": '[{"id": "a", "title": NaN, "text": "x"}]'}, ("without NaN or comments?", ".jsonl")
    ),
    "LangChain's": Case({"p.jsonl": lines(LANGCHAIN)}, passages=["a.txt"], settings=BY_SOURCE),
    "LangChain's in Parquet": Case(
        {"p.parquet": rows_of([LANGCHAIN])}, passages=["a.txt"], settings=BY_SOURCE
    ),
    "a map of Spark": Case(
        {
            "p.parquet": table(
                page_content=["Orlen."],
                metadata=pa.array([[("source", "a.txt")]], pa.map_(pa.string(), pa.string())),
            )
        },
        passages=["a.txt"],
        settings=BY_SOURCE,
    ),
    "an object in a cell": Case(
        {"p.csv": 'page_content,metadata\nOrlen.,"{""source"": ""a.txt""}"\n'},
        passages=["a.txt"],
        settings=BY_SOURCE,
    ),
    "a name with a dot": Case(
        {"p.csv": "id,meta.text\na,Orlen.\n"}, passages=["a"], settings=("corpus.columns={text: meta.text}",)
    ),
    "KILT's questions": Case(
        {"p.jsonl": LINES, "train.jsonl": lines(*KILT)},
        questions=[
            (JUDGED[0][0], ("Mirja Toll", "Toll"), ("t0",)),
            (JUDGED[1][0], ("Ola Brandt",), ("t1",)),
        ],
        settings=(f"questions.columns={{{NAMED_WITHIN}, answers: output.answer}}",),
    ),
    "KILT's questions under a wrong name": Case(
        {"p.jsonl": LINES, "train.jsonl": lines(*KILT)},
        ("output.answers}: no file of questions has this column",),
        settings=(f"questions.columns={{{NAMED_WITHIN}, answers: output.answers}}",),
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_values_within_objects_are_named_by_their_path(name, tmp_path):
    check(OBJECTS[name], tmp_path)


ID = uuid.UUID(int=1)
LATE = datetime(9999, 12, 31)
COLUMNS = {
    "INT96 times": (pa.array([LATE, datetime(1, 1, 1)], pa.timestamp("us")), [LATE, datetime(1, 1, 1)]),
    "UUIDs": (pa.array([ID.bytes, None], pa.uuid()), [str(ID), None]),
    "lists of UUIDs": (
        pa.ListArray.from_arrays([0, 1, 1], pa.array([ID.bytes], pa.uuid())),
        [[str(ID)], []],
    ),
    "JSON": (pa.array(['{"a": 1}', "[]"], pa.json_()), ['{"a": 1}', "[]"]),
    "a struct of JSON": (
        pa.StructArray.from_arrays([pa.array(["1", "2"], pa.json_())], ["x"]),
        [{"x": "1"}, {"x": "2"}],
    ),
    "8-bit booleans": (pa.array([1, 0], pa.bool8()), [1, 0]),
    "bytes of UTF-8": (pa.array(["ä".encode(), b"b"], pa.binary()), ["ä", "b"]),
    "lists of bytes of UTF-8": (pa.array([[b"a"], None], pa.list_(pa.binary())), [["a"], None]),
    "bytes of a fixed length": (pa.array([b"ab", b"cd"], pa.binary(2)), ["ab", "cd"]),
    "intervals": (pa.array([b"\1" + bytes(11)] * 2, pa.binary(12)), [b"\1" + bytes(11)] * 2),
    "other bytes": (pa.array([b"\xff", b"a"]), [b"\xff", b"a"]),
    "categories": (pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_any_type_is_its_values(name, tmp_path):
    written, values = COLUMNS[name]
    file = tmp_path / "p.parquet"
    pq.write_table(
        pa.table({"id": ["a", "b"], "text": ["x", "y"], "more": written}),
        file,
        use_deprecated_int96_timestamps=True,
    )
    (found,) = passage_tables(str(file))
    assert found.column("more").to_pylist() == values
    for kind in (found.schema.field("more").type, *found.schema.field("more").flatten()):
        assert not isinstance(kind, pa.BaseExtensionType)


def test_uuids_and_bytes_are_ids(tmp_path):
    parquet = partial(table, text=["x y.", "z."])
    put(
        tmp_path,
        {
            "p.parquet": parquet(id=pa.array([uuid.UUID(int=n).bytes for n in (1, 2)], pa.uuid())),
            "q.parquet": table(
                qid=pa.array([b"q1", b"q2"]),
                question=pa.array([b"Who?", b"Where?"]),
                positive_ids=pa.array([uuid.UUID(int=n).bytes for n in (1, 2)], pa.uuid()),
            ),
        },
    )
    found = looked_into(tmp_path, ["."], [])
    assert not found.problems.counts
    assert found.questions["train"][0].positive_ids == (str(ID),)


def test_decimals_are_ids_without_their_places(tmp_path):
    """BigQuery, Oracle and Snowflake have decimals alone, with nine or ten places."""

    def decimals(*numbers: int, places: int) -> pa.Array:
        return pa.array(map(Decimal, numbers), pa.decimal128(38, places))

    ids = (10, 2**80)
    files = {
        "p.parquet": table(id=decimals(*ids, places=9), text=["x y.", "z."]),
        "q.parquet": table(
            qid=decimals(1, 2, places=0),
            question=["Who?", "Where?"],
            positive_ids=decimals(*ids, places=10),
            relevance=decimals(3, 1, places=4),
        ),
    }
    put(tmp_path, files)
    found = looked_into(tmp_path, ["."], [])
    assert not found.problems.counts
    assert [row["id"] for row in found.first_passages] == list(map(str, ids))
    asked = [(q.qid, q.positive_ids, q.relevance) for q in found.questions["train"]]
    assert asked == [("1", ("10",), (3,)), ("2", (str(2**80),), None)]


def test_bytes_are_shown_as_text_or_base64():
    assert json.loads(as_json({"url": b"https://a", "raw": b"\xff", "day": date(2026, 1, 2)})) == {
        "url": "https://a",
        "raw": "/w==",
        "day": "2026-01-02",
    }


@pytest.mark.parametrize("name", STAND_INS)
def test_bytes_say_what_a_file_is(name, tmp_path):
    check(STAND_INS[name], tmp_path)


@pytest.mark.parametrize("name", LAKES)
def test_a_table_with_a_list_of_its_files_is_no_folder(name, tmp_path):
    check(LAKES[name], tmp_path)


def test_the_name_of_a_file_ends_before_a_query_or_a_version():
    names = {
        "https://h/a.jsonl?download=true#top": "a.jsonl",
        "s3://b/a#1 b?c.jsonl": "a#1 b?c.jsonl",
        "s3://b/a.jsonl?versionId=x7": "a.jsonl",
        "gs://b/a.jsonl#17": "a.jsonl",
        "/a#b?c.jsonl": "a#b?c.jsonl",
    }
    assert {name: base_name(name) for name in names} == names


def test_what_is_read_is_not_called_unread(tmp_path):
    """Names of folders and files that look like columns, or like the query of a web address."""
    put(tmp_path, FOLDERS["columns in the names of folders and in the files"].files)
    put(tmp_path / "lang=de", {"a b#c?d.jsonl": LINES})
    assert not looked_into(tmp_path, ["lang=de"], []).remarks.counts


@pytest.mark.parametrize("name", FOLDERS)
def test_a_corpus_is_never_shorter_without_a_word(name, tmp_path):
    check(FOLDERS[name], tmp_path)


class Encoding(SimpleHTTPRequestHandler):
    """A web server that says how a file is compressed, so that its client unpacks it."""

    def end_headers(self):
        if self.path.startswith("/encoded"):
            self.send_header("Content-Encoding", "gzip")
        super().end_headers()

    def log_message(self, format, *args):
        pass


def test_compressed_files_of_the_web_are_read_and_nothing_else_is_printed(tmp_path):
    """Python's own server; 400 passages in each file, so that it has several blocks."""
    names = ["encoded.jsonl.gz", "encoded.jsonl", "plain.jsonl.gz"]
    for name in names:
        rows = [{"id": f"{name}-{number}", "text": f"{uuid.uuid4()} {number}."} for number in range(400)]
        packed = gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode())
        (tmp_path / name).write_bytes(packed)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Encoding, directory=str(tmp_path)))
    with answering(server):
        urls = [f"http://127.0.0.1:{server.server_port}/{name}" for name in names]
        done = run_forked(MULTIVIEW, "inspect", *urls)
    assert (done.status, done.errors) == (0, "")
    assert "passages   1,200" in done.out
