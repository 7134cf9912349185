"""Files as their programs write them, and what lies around them: read right or refused, never taken for something else."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from multiview.cli.inspection import source_settings
from multiview.config.overrides import gather, validate
from multiview.data.inspection import Inspection, inspect
from multiview.errors import InputError
from tests.fixtures.servers import answering

TOWNS = [
    {"id": "t0", "title": "Orlen", "text": "Orlen lies on a lake. Mirja Toll founded it in 1310."},
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


def looked_into(folder: Path, sources: Sequence[str], settings: Sequence[str]) -> Inspection:
    """What `multiview inspect` finds in sources of a folder."""
    named = [source if "://" in source else str(folder / source) for source in sources]
    words = ["corpus.shards=1", *(setting.replace("FOLDER", str(folder)) for setting in settings)]
    return inspect(validate(gather(None, [*words, *source_settings(named, None, words)])), lambda _: None)


def check(case: Case, folder: Path) -> None:
    put(folder, case.files)
    try:
        found = looked_into(folder, case.sources, case.settings)
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
    for part in case.refused:
        assert any(part in line for line in lines), (part, lines)
    for part in case.remarks:
        assert any(part in " ".join(remark) for remark in remarks), (part, remarks)


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
    "an article about an orchard": Case({"a.txt": "ORCHARDS surround Orlen.\n"}, passages=["a-0"]),
    "a pickle": Case(
        {"p.pkl": b"\x80\x04\x95\x10\x00"}, ("p.pkl: a Python pickle", "Parquet"), sources=("p.pkl",)
    ),
    "a database": Case(
        {"p.db": b"SQLite format 3\0" + bytes(90)}, ("p.db: an SQLite database",), sources=("p.db",)
    ),
    "a PDF among articles": Case({"a.txt": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"}, ("a.txt: a PDF",)),
    "a login page in place of a CSV": Case(
        {"p.csv": "<!DOCTYPE html>\n<html><body>Sign in\n"}, ("p.csv: a web page",)
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
    "gzip twice": Case(
        {"p.jsonl.gz.gz": gzip.compress(gzip.compress(LINES.encode()))}, passages=["t0", "t1"]
    ),
    "Parquet within gzip": Case(
        {"p.parquet.gz": lambda path: (towns(path), path.write_bytes(gzip.compress(path.read_bytes())))},
        passages=["t0", "t1"],
    ),
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
    "parts without a suffix": Case(
        {"p-000000": LINES}, ("no files there", "p-000000", "/*"), settings=("corpus.format=jsonl",)
    ),
}


@pytest.mark.parametrize("name", STAND_INS)
def test_bytes_say_what_a_file_is(name, tmp_path):
    check(STAND_INS[name], tmp_path)


@pytest.mark.parametrize("name", LAKES)
def test_a_table_with_a_list_of_its_files_is_no_folder(name, tmp_path):
    check(LAKES[name], tmp_path)


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


@pytest.mark.parametrize("name", ["encoded.jsonl.gz", "encoded.jsonl", "plain.jsonl.gz"])
def test_a_compressed_file_of_the_web_is_read_and_nothing_else_is_printed(name, tmp_path):
    """Python's own server; 400 passages, so that the file has several blocks."""
    rows = [{"id": f"p{number}", "text": f"{uuid.uuid4()} {number}."} for number in range(400)]
    packed = gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode())
    (tmp_path / name).write_bytes(packed)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Encoding, directory=str(tmp_path)))
    with answering(server):
        url = f"http://127.0.0.1:{server.server_port}/{name}"
        command = [sys.executable, "-c", "from multiview.cli.app import main; main()", "inspect", url]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "passages   400" in done.stdout
