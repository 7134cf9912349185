"""Parquet files: texts and bytes that Arrow holds as views in further columns, and damaged footers."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.config import Corpus, Questions
from multiview.data.questions import Question
from multiview.data.reading.parquet import parquet_tables
from multiview.errors import InputError
from tests.fixtures.forked import run_forked
from tests.fixtures.format_files import jsonl, parquet, questions
from tests.fixtures.split_run import Done, settings

TEXTS = pa.array(["a", None, "a text of more than twelve bytes"])
VIEWS = TEXTS.cast(pa.string_view())
OFFSETS = pa.array([0, 1, 2, 3], pa.int32())


@pytest.mark.parametrize(
    ("views", "kind"),
    [
        (VIEWS, pa.string()),
        (TEXTS.cast(pa.binary_view()), pa.string()),
        (pa.ListArray.from_arrays(OFFSETS, VIEWS), pa.list_(pa.string())),
        (pa.LargeListArray.from_arrays(OFFSETS.cast(pa.int64()), VIEWS), pa.large_list(pa.string())),
        (pa.FixedSizeListArray.from_arrays(VIEWS, 1), pa.list_(pa.string(), 1)),
        (pa.StructArray.from_arrays([VIEWS], ["x"]), pa.struct([("x", pa.string())])),
        (pa.MapArray.from_arrays(OFFSETS, pa.array(["k"] * 3), VIEWS), pa.map_(pa.string(), pa.string())),
    ],
    ids=lambda given: str(given) if isinstance(given, pa.DataType) else "",
)
def test_a_column_of_views_is_read_as_texts_and_bytes_that_can_be_filtered(tmp_path, views, kind):
    file = tmp_path / "p.parquet"
    pq.write_table(pa.table({"id": ["a", "b", "c"], "more": views}), file)
    (table,) = parquet_tables(str(file))
    assert table.schema.field("more").type.equals(kind)
    expected = views.cast(kind).to_pylist()
    assert table.filter(pa.array([True, False, True])).column("more").to_pylist() == expected[::2]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_view(pa.string()),
        pa.large_list_view(pa.large_string()),
        pa.struct([("x", pa.list_view(pa.string()))]),
    ],
)
def test_no_value_of_a_list_view_is_lost(tmp_path, kind):
    lists = [["a"], ["b", "c"], None, [], ["d"]]
    values = [{"x": each} for each in lists] if pa.types.is_struct(kind) else lists
    for number, column in enumerate((pa.array(values, kind), pa.array([*values, *values], kind)[2:7])):
        pq.write_table(pa.table({"more": column}), file := tmp_path / f"{number}.parquet")
        (table,) = parquet_tables(str(file))
        table.validate(full=True)
        assert table["more"].to_pylist() == column.to_pylist()


@pytest.mark.parametrize(
    ("values", "kind", "whole"),
    [
        ([43_200_000_000_000], pa.time64("ns"), True),
        ([43_200_000_000_123], pa.time64("ns"), False),
        ([86_400, None], pa.duration("s"), True),
        ([10**15], pa.duration("s"), False),
        ([[10**15]], pa.list_(pa.duration("s")), False),
        ([[1]], pa.list_(pa.time64("ns")), False),
        ([[1]], pa.list_(pa.time64("us")), True),
    ],
)
def test_times_that_python_cannot_hold_are_refused(tmp_path, values, kind, whole):
    pq.write_table(pa.table({"more": pa.array(values, kind)}), file := tmp_path / "p.parquet")
    if whole:
        (table,) = parquet_tables(str(file))
        assert table["more"].type == kind
    else:
        with pytest.raises(
            InputError, match=r"'more' of type .* holds invalid dates or times .*; write it as text"
        ):
            list(parquet_tables(str(file)))


def test_passages_with_columns_of_views_are_carried_along(tmp_path, files):
    columns = {
        "id": [f"p{i}" for i in range(25)],
        "text": [f"Passage {i} is here. It says word{i}." for i in range(25)],
        "url": pa.array(["u"] * 25, pa.string_view()),
        "tags": pa.array([["t"]] * 25, pa.list_(pa.string())).cast(pa.list_(pa.string_view())),
    }
    file = tmp_path / "p.parquet"
    pq.write_table(pa.table(columns), file)
    _, questions = settings(files)
    done = Done(tmp_path / "out", Corpus(source=(str(file),), shards=1), questions)
    table = pq.read_table(done.output["passages"])
    assert table.schema.field("url").type == pa.string()
    assert table.column("tags").to_pylist() == [["t"]] * 25


def test_fields_that_one_file_requires_and_another_lacks_are_null(tmp_path, files):
    """As where a schema with required fields grew."""
    required = pa.field("x", pa.int64(), nullable=False)
    kinds = [pa.struct([required]), pa.struct([pa.field("y", pa.string())])]
    for number, (kind, value) in enumerate(zip(kinds, [{"x": 1}, {"y": "b"}], strict=True)):
        columns = {"id": [f"p{number}"], "text": ["Orlen has a tower."], "more": pa.array([value], kind)}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    sources = tuple(str(tmp_path / f"{number}.parquet") for number in range(2))
    asked = [
        {"qid": f"q{n}", "question": f"{n}?", "answers": ["tower"], "positive_ids": [f"p{n}"]}
        for n in range(2)
    ]
    questions = Questions(source=(jsonl(tmp_path / "q.jsonl", *asked),))
    done = Done(tmp_path / "out", Corpus(source=sources, shards=1), questions)
    rows = {row["id"]: row["more"] for row in pq.read_table(done.output["passages"]).to_pylist()}
    assert rows == {"p0": {"x": 1, "y": None}, "p1": {"x": None, "y": "b"}}


CHANGES = """
import sys
from pathlib import Path

from multiview.data.reading.parquet import parquet_tables
from multiview.errors import InputError

file = Path(sys.argv[1])
whole, refused = file.read_bytes(), 0
length = int.from_bytes(whole[-8:-4], "little")
for at in range(len(whole) - 8 - length, len(whole) - 8):
    file.write_bytes(whole[:at] + bytes([(whole[at] + 1) % 256]) + whole[at + 1 :])
    try:
        list(parquet_tables(str(file)))
    except InputError:
        refused += 1
print(refused)
"""


def test_no_byte_of_a_damaged_footer_ends_the_process(tmp_path):
    """As pyarrow's metadata would, of a column with too short a histogram."""
    table = pa.table({"id": ["a", "b"], "text": ["A lake.", None], "tags": [["x"], ["y", "z"]]})
    pq.write_table(table, file := tmp_path / "p.parquet")
    ended = run_forked(CHANGES, str(file))
    assert ended.status == 0 and int(ended.out) > 100, ended.errors


ROUNDING = [
    (name, kind, first)
    for name in ("qid", "positive_ids", "query-id", "corpus-id")
    for kind, first in ((pa.float16(), 1 << 11), (pa.float32(), 1 << 24))
] + [("positive_ids", pa.list_(pa.float32()), 1 << 24)]


@pytest.mark.parametrize(("name", "kind", "first"), ROUNDING, ids=str)
def test_ids_that_a_type_of_few_bits_may_have_rounded_are_refused(tmp_path, name, kind, first):
    """As those of passages are: 2**24 + 1 would name a neighbour."""

    def asked(id_: int) -> list[Question]:
        ids = pa.array([[id_]] if pa.types.is_list(kind) else np.array([id_], kind.to_pandas_dtype()), kind)
        queries = [{"qid": "1", "question": "who?"}, {"qid": str(first - 1), "question": "where?"}]
        if "-" in name:
            judged = {"query-id": ["1"], "corpus-id": ["2"], "score": [1], name: ids}
            qrels = parquet(tmp_path / "qrels.parquet", **judged)
            return questions(jsonl(tmp_path / "q.jsonl", *queries), qrels)
        row = {"qid": ["1"], "question": ["who?"], "positive_ids": ["2"], name: ids}
        return questions(parquet(tmp_path / "q.parquet", **row))

    (question,) = asked(first - 1)
    assert str(first - 1) in (question.qid, *question.positive_ids)
    with pytest.raises(InputError, match=f"column '{name}' holds {first}.0, a fraction .*; write it as text"):
        asked(first)
