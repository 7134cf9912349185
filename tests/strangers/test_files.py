"""Files as their programs write them, and what lies around them: read right or refused, never taken for something else."""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
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
from tests.strangers.case import LINES, Case, put, table
from tests.strangers.cells import CELLS, LOOK_ALIKES
from tests.strangers.folders import FOLDERS, LAKES
from tests.strangers.judgements import JUDGEMENTS
from tests.strangers.objects import OBJECTS
from tests.strangers.stand_ins import STAND_INS
from tests.strangers.tables import TABLES
from tests.strangers.training_files import TRAINING

CASES = {
    f"{kind}: {name}": case
    for kind, cases in {
        "bytes say what a file is": STAND_INS,
        "a table with a list of its files is no folder": LAKES,
        "a corpus is never shorter without a word": FOLDERS,
        "a cell that looks like a list is one or refused": CELLS,
        "an id that is not found names the one that looks the same": LOOK_ALIKES,
        "a table is its rows": TABLES,
        "training files are read as their owners write them": TRAINING,
        "judgements are read in every usual form": JUDGEMENTS,
        "values within objects are named by their path": OBJECTS,
    }.items()
    for name, case in cases.items()
}


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
            if isinstance(case.passages, int):
                assert found.passages == case.passages
            elif case.passages is not None:
                assert [row["id"] for row in found.first_passages] == list(case.passages)
                assert found.passages == len(case.passages)
            if case.questions is not None:
                texts = {row["id"]: row["text"] for row in found.first_passages}
                asked = [*found.questions["train"], *found.questions["dev"]]
                ids = [(q.question, q.answers, q.positive_ids) for q in asked]
                assert list(case.questions) in (ids, [(*q, tuple(map(texts.get, gold))) for *q, gold in ids])
    assert bool(lines) == bool(case.refused), lines
    assert config is None or is_split_alike(folder, config, found, lines), lines
    for part in case.refused:
        assert any(part in line for line in lines), (part, lines)
    for part in case.remarks:
        assert any(part in " ".join(remark) for remark in remarks), (part, remarks)


@pytest.mark.parametrize("name", CASES)
def test_what_a_stranger_brings_is_read_right_or_refused(name, tmp_path):
    check(CASES[name], tmp_path)


def test_files_of_questions_are_not_among_those_that_are_not_read(tmp_path):
    put(tmp_path, JUDGEMENTS["a BEIR folder with judgements as lines of JSON"].files)
    assert not looked_into(tmp_path, ["."], []).remarks.counts


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


@pytest.mark.parametrize("lists", [False, True])
def test_decimals_are_ids_without_their_places(tmp_path, lists):
    """BigQuery, Oracle and Snowflake have decimals alone, with nine or ten places; DuckDB also lists of them."""

    def decimals(*numbers: int, places: int, lists: bool = False) -> pa.Array:
        kind, values = pa.decimal128(38, places), list(map(Decimal, numbers))
        return pa.array([[each] for each in values], pa.list_(kind)) if lists else pa.array(values, kind)

    ids = (10, 2**80)
    files = {
        "p.parquet": table(id=decimals(*ids, places=9), text=["x y.", "z."]),
        "q.parquet": table(
            qid=decimals(1, 2, places=0),
            question=["Who?", "Where?"],
            positive_ids=decimals(*ids, places=10, lists=lists),
            relevance=decimals(3, 1, places=4, lists=lists),
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
