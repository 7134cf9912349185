"""BEIR's collections by name: fetched from a server, checked, unpacked whole or not at all."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from multiview import environment
from multiview.config import Config
from multiview.config.overrides import validate
from multiview.data.inspection import sort_by_use
from multiview.data.reading.beir import MD5, located
from multiview.data.reading.sources import expand_source, fingerprints
from multiview.data.split import sources_fingerprint
from multiview.errors import InputError
from tests.fixtures.beir_server import archive, publish
from tests.fixtures.format_files import beir, passages, questions


def cached(tmp_path: Path) -> list[str]:
    """What lies in the cache, without the locks."""
    return sorted(
        path.name for path in (tmp_path / "cache/multiview/beir").iterdir() if path.suffix != ".lock"
    )


def test_a_collection_is_read_by_its_name_and_fetched_once(tmp_path, beir_server):
    (corpus,) = expand_source("beir:scifact", "corpus")
    assert [row["id"] for row in passages(corpus)] == ["4983", "5836"]
    assert [q.qid for q in questions(*expand_source("beir:scifact", "train"))] == ["0"]
    (asked,) = questions(*expand_source("beir:scifact", "dev"))
    assert (asked.qid, asked.grades) == ("1", {"5836": 2, "4983": 1})
    assert beir_server.requests == [("/scifact.zip", None)]
    assert cached(tmp_path) == [f"scifact-{MD5['scifact'][:8]}"], "the archive is gone"


def test_a_split_is_named_and_every_use_of_it_is_of_that_split(beir_server):
    for use in ("train", "dev"):
        assert [q.qid for q in questions(*expand_source("beir:scifact/test", use))] == ["1"]
    assert expand_source("beir:scifact/test", "corpus") == expand_source("beir:scifact", "corpus")
    assert sort_by_use(["beir:scifact"], Config()) == {
        use: ["beir:scifact"] for use in ("corpus", "train", "dev")
    }
    assert sort_by_use(["beir:scifact/test"], Config()) == {
        "corpus": ["beir:scifact/test"],
        "train": [],
        "dev": ["beir:scifact/test"],
    }


def test_its_fingerprint_is_the_content_s_as_of_any_folder(tmp_path, beir_server):
    folder = tmp_path / "published" / "scifact"
    for use in ("corpus", "train", "dev"):
        assert fingerprints(expand_source("beir:scifact", use)) == fingerprints(
            expand_source(str(folder), use)
        )


def test_an_archive_of_several_collections_has_a_name_more(tmp_path, beir_server, monkeypatch):
    for forum in ("android", "tex"):
        beir(tmp_path / "published" / "cqadupstack" / forum, "test")
    publish(beir_server, monkeypatch, "cqadupstack", archive(tmp_path / "published" / "cqadupstack"))
    assert [q.qid for q in questions(*expand_source("beir:cqadupstack/tex/test", "dev"))] == ["0"]
    assert len(expand_source("beir:cqadupstack/android", "corpus")) == 1
    listed = "beir:cqadupstack/android, beir:cqadupstack/android/test, beir:cqadupstack/tex, beir:cqadupstack/tex/test"
    with pytest.raises(InputError, match=f"^beir:cqadupstack: no such split or collection; .*{listed}$"):
        located("beir:cqadupstack")


def test_unknown_names_and_splits_are_listed(beir_server):
    with pytest.raises(
        InputError,
        match=r"not a public collection of BEIR; did you mean scifact or scidocs\? There are: arguana, ",
    ):
        located("beir:scifacts")
    listed = "There are: beir:scifact, beir:scifact/test, beir:scifact/train$"
    for wrong in ("beir:scifact/dev", "beir:scifact/../scifact", "beir:scifact/qrels/test.tsv"):
        with pytest.raises(InputError, match=f"^{re.escape(wrong)}: no such split or collection; .*{listed}"):
            located(wrong)


def test_questions_without_a_source_are_offered_the_corpus_s(beir_server):
    with pytest.raises(InputError, match=r"questions\.source: .*, as in questions\.source=beir:scifact, or "):
        sources_fingerprint(validate({"corpus": {"source": "beir:scifact"}}))


def test_redirects_are_followed(beir_server, monkeypatch):
    monkeypatch.setenv(environment.BEIR, f"{beir_server.url}/old/")
    assert Path(located("beir:scifact")).is_dir()
    assert [path for path, _ in beir_server.requests] == ["/old/scifact.zip", "/new/scifact.zip"]


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_refusal_is_one_line(tmp_path, beir_server, status):
    beir_server.status = status
    with pytest.raises(
        InputError, match=rf"^beir:scifact: http\S+/scifact\.zip answers {status} .*MULTIVIEW_BEIR"
    ):
        located("beir:scifact")
    assert cached(tmp_path) == []


def test_no_network_is_one_line(beir_server, monkeypatch):
    monkeypatch.setenv(environment.BEIR, "http://127.0.0.1:9")
    with pytest.raises(
        InputError, match=r"^beir:scifact: \S+ cannot be fetched \(ConnectionError\); check the net"
    ):
        located("beir:scifact")


def test_another_archive_than_the_published_one_is_deleted(tmp_path, beir_server):
    published = beir_server.archives["scifact"]
    beir_server.archives["scifact"] = archive(beir(tmp_path / "other" / "scifact", "test"))
    line = rf"^beir:scifact: \S+ has MD5 \w{{32}}, and BEIR publishes {MD5['scifact']}; it was deleted"
    with pytest.raises(InputError, match=line):
        located("beir:scifact")
    beir_server.archives["scifact"] = b"<html>Please sign in"
    with pytest.raises(InputError, match=line):
        located("beir:scifact")
    assert cached(tmp_path) == []
    beir_server.archives["scifact"] = published
    assert Path(located("beir:scifact")).is_dir()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_connection_is_continued_where_the_server_sends_parts(tmp_path, beir_server, ranges):
    whole = len(beir_server.archives["scifact"])
    beir_server.cut, beir_server.ranges = 500, ranges
    with pytest.raises(InputError, match="cannot be fetched .* run again, it continues"):
        located("beir:scifact")
    (part,) = (tmp_path / "cache/multiview/beir").glob("*.zip")
    present = part.stat().st_size
    assert present <= 500 < whole
    beir_server.cut = None
    assert [q.qid for q in questions(*expand_source("beir:scifact", "train"))] == ["0"]
    asked = f"bytes={present}-" if present else None
    assert beir_server.requests == [("/scifact.zip", None), ("/scifact.zip", asked)]


def test_an_archive_that_was_fetched_whole_is_not_fetched_again(tmp_path, beir_server):
    """A process was killed before it unpacked."""
    part = tmp_path / "cache/multiview/beir" / f"scifact-{MD5['scifact'][:8]}.zip"
    part.parent.mkdir(parents=True)
    part.write_bytes(beir_server.archives["scifact"])
    folder = part.with_suffix(".part")
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "half')
    assert len(passages(*expand_source("beir:scifact", "corpus"))) == 2
    assert cached(tmp_path) == [f"scifact-{MD5['scifact'][:8]}"]


KILLED = """
import sys
from multiview.data.reading import beir
beir.MD5["scifact"], beir.PIECE_BYTES = sys.argv[1], 1024
print(beir.located("beir:scifact"))
"""


def test_a_killed_process_is_continued_by_the_next(tmp_path, beir_server, monkeypatch):
    noise = tmp_path / "published" / "scifact" / "noise.bin"
    noise.write_bytes(os.urandom(1 << 17))
    publish(beir_server, monkeypatch, "scifact", archive(noise.parent))
    beir_server.pause = 0.02
    command = [sys.executable, "-c", KILLED, MD5["scifact"]]
    part = tmp_path / "cache/multiview/beir" / f"scifact-{MD5['scifact'][:8]}.zip"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not (part.exists() and part.stat().st_size > 20_000):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    present = part.stat().st_size
    assert 20_000 < present < len(beir_server.archives["scifact"])
    beir_server.pause = 0
    assert len(passages(*expand_source("beir:scifact", "corpus"))) == 2
    assert beir_server.requests[1:] == [("/scifact.zip", f"bytes={present}-")]


def test_several_at_once_fetch_once(tmp_path, beir_server):
    beir_server.pause = 0.5
    command = [sys.executable, "-c", KILLED, MD5["scifact"]]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        threads = [pool.submit(located, "beir:scifact") for _ in range(2)]
        found = {run.communicate(timeout=60)[0].strip() for run in runs} | {t.result() for t in threads}
    assert len(found) == 1 and len(beir_server.requests) == 1


def test_nothing_is_written_outside_the_cache(tmp_path, beir_server, monkeypatch):
    evil = ("../../../outside/qrels/test.tsv", "/tmp/outside/qrels/test.tsv", "scifact/../../qrels/test.tsv")
    publish(
        beir_server,
        monkeypatch,
        "scifact",
        archive(tmp_path / "published" / "scifact", *evil, "__MACOSX/scifact/._corpus.jsonl"),
    )
    folder = Path(located("beir:scifact"))
    assert cached(tmp_path) == [folder.parent.name]
    assert not (tmp_path / "outside").exists() and not Path("/tmp/outside").exists()
    assert expand_source("beir:scifact", "dev")[1:] == [f"{folder}/qrels/test.tsv"]


def test_an_archive_in_another_form(tmp_path, beir_server, monkeypatch):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "README.md").write_text("moved")
    publish(beir_server, monkeypatch, "scifact", archive(tmp_path / "other"))
    with pytest.raises(
        InputError, match=r"^beir:scifact: \S+ is not in BEIR's form: no corpus\.jsonl in its archive$"
    ):
        located("beir:scifact")
    publish(beir_server, monkeypatch, "scifact", b"never a zip")
    with pytest.raises(
        InputError, match=r"^beir:scifact: its archive cannot be unpacked \(\S+ is not a zip file\)"
    ):
        located("beir:scifact")


def test_a_cache_that_cannot_be_written(tmp_path, beir_server, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(environment.CACHE_HOME, str(tmp_path / "file"))
    with pytest.raises(
        InputError, match=r"cannot be kept in \S+ \(Not a directory\); name another folder by XDG_CACHE"
    ):
        located("beir:scifact")


def test_memory_does_not_grow_with_the_archive(tmp_path, beir_server, monkeypatch):
    """6 MB of text are unpacked with less than two."""
    import tracemalloc

    folder = beir(tmp_path / "large" / "scifact", "test")
    with (folder / "corpus.jsonl").open("a") as corpus:
        corpus.writelines(
            f'{{"_id": "p{n}", "text": "{hashlib.sha512(b"%d" % n).hexdigest()}"}}\n' for n in range(40_000)
        )
    publish(beir_server, monkeypatch, "scifact", archive(folder))
    tracemalloc.start()
    located("beir:scifact")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(beir_server.archives["scifact"]) > 5 << 19
    assert peak < 2 << 20
