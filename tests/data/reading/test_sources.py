"""Sources: files, folders and patterns, over HTTP, compressed in every way, and in buckets."""

import bz2
import errno
import gzip
import hashlib
import lzma
import os
import re
import shutil
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NoReturn

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.data.reading.readers import passage_tables
from multiview.data.reading.sources import expand_source, expand_sources, fingerprints
from multiview.errors import InputError, fault
from tests.fixtures.format_files import passages
from tests.fixtures.servers import answering
from tests.fixtures.website import Quiet

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LINES = b'{"id": "a", "text": "x"}\n' * 3


def ids(file: str) -> list[str]:
    return [id_ for table in passage_tables(file) for id_ in table.column("id").to_pylist()]


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        ("", bytes),
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".zst", zstd.compress),
    ],
)
def test_a_file_is_read_compressed_or_not_here_or_over_http(tmp_path, website, suffix, compress):
    (tmp_path / f"p.jsonl{suffix}").write_bytes(compress(b"\xef\xbb\xbf" + LINES))
    assert ids(str(tmp_path / f"p.jsonl{suffix}")) == ["a", "a", "a"]
    (url,) = expand_source(f"{website}/p.jsonl{suffix}?download=true", "corpus")
    assert ids(url) == ["a", "a", "a"]


def test_parquet_is_read_over_http_without_ranges(tmp_path, website):
    pq.write_table(pa.table({"id": ["a"], "text": ["x"]}), tmp_path / "p.parquet")
    assert ids(f"{website}/p.parquet") == ["a"]


def test_a_folder_over_http_is_the_links_on_its_page(tmp_path, website):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "p.jsonl").write_bytes(LINES)
    (tmp_path / "folder" / "page.html").write_bytes(b"")
    assert expand_source(f"{website}/folder/", "corpus") == [f"{website}/folder/p.jsonl"]
    with pytest.raises(InputError, match="no such file or folder"):
        expand_source(f"{website}/none.jsonl", "corpus")


@pytest.mark.parametrize("dates", [True, False])
def test_a_fingerprint_over_http_is_of_content(tmp_path, website, dates):
    """By the server's headers, or by the content where the server sends none."""
    Quiet.dates = dates
    file, url = tmp_path / "p.jsonl", [f"{website}/p.jsonl"]
    file.write_bytes(LINES)
    before = fingerprints(url)
    assert fingerprints(url) == before
    file.write_bytes(LINES + LINES)
    assert fingerprints(url) != before


class Broken(BaseHTTPRequestHandler):
    """A web server whose answer to a path ends too early, is a status, or is none at all."""

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        status = self.path.strip("/").partition(".")[0]
        if status == "none":
            return
        self.send_response(int(status) if status.isdigit() else 200)
        self.send_header("Content-Length", "0" if status.isdigit() else str(len(LINES)))
        self.end_headers()
        if status == "short" and self.command == "GET":
            self.wfile.write(LINES[: len(LINES) // 3])

    do_HEAD = do_GET


@pytest.mark.parametrize("path", ["short", "500", "401", "none"])
def test_a_web_server_that_fails_is_a_line_and_a_short_answer_is_no_shorter_corpus(path):
    line = rf"http://127\.0\.0\.1:.*/{path}\.jsonl: (the server )?cannot be (read|reached) \("
    with (
        answering(ThreadingHTTPServer(("127.0.0.1", 0), Broken)) as server,
        pytest.raises(InputError, match=line),
    ):
        (url,) = expand_source(f"http://127.0.0.1:{server.server_port}/{path}.jsonl", "corpus")
        ids(url)


@pytest.mark.parametrize("source", ["http://[::1", "reference://x", "data:text/plain,x", "zip://a.jsonl::P"])
def test_an_address_that_no_library_reads_is_a_line(tmp_path, source):
    (tmp_path / "p.jsonl").write_bytes(LINES)
    with pytest.raises(InputError, match=re.escape(source.partition("::P")[0])):
        expand_source(source.replace("P", str(tmp_path / "p.jsonl")), "corpus")


def test_text_files_count_where_a_folder_has_nothing_else(tmp_path):
    for name in ("Orlen.txt", "README.txt"):
        (tmp_path / name).write_text("About these data.")
    assert expand_source(str(tmp_path), "corpus") == [str(tmp_path / "Orlen.txt")]
    (tmp_path / "p.jsonl").write_bytes(LINES)
    assert expand_source(str(tmp_path), "corpus") == [str(tmp_path / "p.jsonl")]


def test_any_fsspec_url_is_read():
    with fsspec.open("memory://corpus/p.jsonl", "w") as file:
        file.write('{"id": "a", "text": "x"}\n')  # type: ignore[attr-defined]
    assert expand_source("memory://corpus", "corpus") == ["memory:///corpus/p.jsonl"]
    assert passages("memory:///corpus/p.jsonl") == [{"id": "a", "title": "", "text": "x"}]
    (before,) = fingerprints(expand_source("memory://corpus", "corpus"))
    with fsspec.open("memory://corpus/p.jsonl", "w") as file:
        file.write('{"id": "a", "text": "other"}\n')  # type: ignore[attr-defined]
    assert fingerprints(expand_source("memory://corpus", "corpus")) != [before]


def test_a_file_that_is_named_needs_no_right_to_list_its_folder(monkeypatch):
    """Without it, nobody can see whether the file belongs to a table with its own list of files."""

    def refused(*_: object, **__: object) -> NoReturn:
        raise PermissionError("Forbidden")

    with fsspec.open("memory://unlisted/p.parquet", "wb") as file:
        pq.write_table(pa.table({"id": ["a"], "text": ["x"]}), file)
    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.glob", refused)
    assert expand_source("memory://unlisted/p.parquet", "corpus") == ["memory://unlisted/p.parquet"]


def test_a_source_is_a_file_a_folder_or_a_pattern_with_variables(tmp_path, monkeypatch):
    for name in ("b.jsonl", "a.parquet", "README.md", ".hidden.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "deeper").mkdir()
    monkeypatch.setenv("SOME_DATA", str(tmp_path))
    a, b = str(tmp_path / "a.parquet"), str(tmp_path / "b.jsonl")
    assert expand_source("${SOME_DATA}", "corpus") == [a, b]
    assert expand_source("${SOME_DATA}/b.jsonl", "corpus") == [b]
    assert expand_source(str(tmp_path / "*.jsonl"), "corpus") == [b]
    assert expand_sources([b, str(tmp_path)], "corpus") == [b, a]
    for name in (".checkpoints/a.jsonl", "_temporary/0/a.jsonl", "_part=1/c.jsonl"):
        (tmp_path / "deeper" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "deeper" / name).touch()
    for pattern in ("deeper/*/*.jsonl", "deeper/**/*.jsonl"):
        assert expand_source(str(tmp_path / pattern), "corpus") == [str(tmp_path / "deeper/_part=1/c.jsonl")]
    for pattern in ("deeper/.checkpoints/*.jsonl", "deeper/.c*/*.jsonl", "*/.check*/*"):
        assert expand_source(str(tmp_path / pattern), "corpus") == [
            str(tmp_path / "deeper/.checkpoints/a.jsonl")
        ]
    monkeypatch.chdir(tmp_path)
    assert expand_sources(["b.jsonl", "./b.jsonl", f"file://{b}", "."], "corpus") == [b, a], "each file once"


@pytest.mark.parametrize(
    "names",
    [
        ("train-squad", "test-squad"),
        ("train_v2", "dev_v2"),
        ("nq-train", "nq-validation", "nq-test"),
        ("train", "val"),
    ],
)
def test_a_folder_whose_names_speak_of_splits_is_not_read_whole(tmp_path, names):
    for name in names:
        (tmp_path / f"{name}.jsonl").touch()
    for use in ("train", "dev"):
        with pytest.raises(
            InputError,
            match=rf"({'|'.join(names[1:])})\.jsonl: a split beside {names[0]}\.jsonl: name the files",
        ):
            expand_source(str(tmp_path), use)
    assert len(expand_source(str(tmp_path), "corpus")) == len(names)


@pytest.mark.parametrize(
    ("names", "train", "dev"),
    [
        (["train_test_combined.jsonl"], [0], [0]),
        (["queries.dev.tsv", "queries.train.tsv", "qidpidtriples.train.tsv"], [2, 0, 1], None),
        (["train-00000-of-00001-a09b74b3ef9c3b56.parquet", "test-00000-of-00001-f09b74b3ef9c3b56.parquet"], [0], [1]),
    ],
)  # fmt: skip
def test_names_that_speak_of_one_split_or_have_their_judgements_are_read(tmp_path, names, train, dev):
    files = [str(tmp_path / name) for name in names]
    for name in names:
        (tmp_path / name).touch()
    assert expand_source(str(tmp_path), "train") == [files[each] for each in train]
    if dev:
        assert expand_source(str(tmp_path), "dev") == [files[each] for each in dev]
        return
    with pytest.raises(InputError, match="a split beside"):
        expand_source(str(tmp_path), "dev")


@pytest.mark.parametrize("names", [["dev.jsonl"], ["dev.jsonl", "test.jsonl"], ["nq-validation.jsonl"]])
def test_a_folder_of_splits_without_one_to_train_on_has_no_training_questions(tmp_path, names):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=rf"{names[0]}: not for training by its name, .*questions\.source"):
        expand_source(str(tmp_path), "train")
    assert expand_source(str(tmp_path / names[0]), "train") == [str(tmp_path / names[0])]


@pytest.mark.parametrize("hashed", [False, True])
def test_files_that_are_numbered_are_all_there(tmp_path, hashed):
    """In a folder of tables and in a collection, as `datasets` writes them, with a hash before it had none."""

    def put(folder: str, *names: str) -> None:
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in names:
            end = f"-{hashlib.sha256(name.encode()).hexdigest()[:16]}" if hashed else ""
            (tmp_path / folder / f"{name}{end}.parquet").touch()

    put("plain", "train-00000-of-00002")
    put("corpus", "corpus-00000-of-00002")
    put("queries", "queries-00000-of-00001")
    put("qrels", "test-00000-of-00001")
    for name in ("corpus/.DS_Store", "queries/_SUCCESS", "qrels/README.md"):
        (tmp_path / name).touch()
    for folder in (tmp_path / "plain", tmp_path):
        with pytest.raises(
            InputError, match=r": 1 of 00002 files (train|corpus)-\*-of-00002\.parquet are there"
        ):
            expand_source(str(folder), "corpus")
    put("plain", "train-00001-of-00002")
    put("corpus", "corpus-00001-of-00002")
    put("qrels", "train-00000-of-00002")
    with pytest.raises(InputError, match=r": 1 of 00002 files train-\*-of-00002\.parquet are there"):
        expand_source(str(tmp_path), "dev")
    put("qrels", "train-00001-of-00002")
    assert len(expand_source(str(tmp_path / "plain"), "corpus")) == 2
    assert len(expand_source(str(tmp_path), "corpus")) == 2
    asked = expand_source(str(tmp_path), "dev")
    assert [name.split("/")[-2] for name in asked] == ["queries", "qrels"]


def test_a_name_that_is_not_utf_8_is_told(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.jsonl")).write_text('{"id": "a", "text": "x"}')
    with pytest.raises(InputError, match=r"udcff\.jsonl': its name is not UTF-8; rename it"):
        expand_source(str(tmp_path), "corpus")


def test_a_disk_without_room_for_a_copy_is_no_damaged_file(tmp_path, monkeypatch):
    file = tmp_path / "p.parquet.gz"
    pq.write_table(pa.table({"id": ["a"], "text": ["x"]}), sink := pa.BufferOutputStream())
    file.write_bytes(gzip.compress(sink.getvalue().to_pybytes()))
    assert [table.num_rows for table in passage_tables(str(file))] == [1]

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(OSError) as error:
        list(passage_tables(str(file)))
    assert fault(error.value) == errno.ENOSPC


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "p.jsonl")
    with pytest.raises(InputError, match=r"p\.jsonl: a pipe or a device, .* write it to a file"):
        expand_source(str(tmp_path / "p.jsonl"), "corpus")
    with pytest.raises(InputError, match=r"p\.jsonl: a pipe or a device"):
        expand_source(str(tmp_path), "corpus")


def test_a_fingerprint_is_of_content_and_name(tmp_path):
    (tmp_path / "a.json").write_bytes(b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    assert fingerprints(expand_source(str(tmp_path), "corpus")) == [{"name": "a.json", "sha256": digest}]
