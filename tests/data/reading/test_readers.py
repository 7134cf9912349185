"""The user's files: what is read, and what the message says when it cannot be."""

import gzip
import json
import os
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.data.questions import Question
from multiview.data.reading.readers import OURS, passage_tables
from multiview.errors import InputError, Report
from tests.fixtures.format_files import jsonl, parquet, passages, questions


def test_parquet_columns_by_our_names_others_carried_through(tmp_path):
    file = parquet(
        tmp_path / "p.parquet", pid=[7, 8], body=["a", "b"], url=["u", None], content_hash=["x", "y"]
    )
    assert passages(file, columns={"id": "pid", "text": "body"}) == [
        {"id": "7", "title": "", "text": "a", "url": "u"},
        {"id": "8", "title": "", "text": "b", "url": None},
    ]
    file, report = parquet(tmp_path / "both.parquet", pid=["7"], id=["x"], text=["a"], url=["u"]), Report()
    (table,) = passage_tables(file, columns={"id": "pid"}, report=report)
    assert table.to_pylist() == [{"id": "7", "title": "", "text": "a", "url": "u"}]
    assert report.remarks.first == {OURS: "both.parquet: column 'id'; rename it to keep it"}
    file = parquet(
        tmp_path / "q.parquet",
        qid=["1"],
        question=["Who?"],
        answers=["I"],
        gold=["p1"],
        more=[{"not": "read"}],
    )
    assert questions(file, columns={"positive_ids": "gold"}) == [Question("1", "Who?", ("I",), None, ("p1",))]


def test_jsonl_rows_may_lack_columns_that_others_have(tmp_path):
    file = jsonl(
        tmp_path / "p.jsonl", {"id": "a", "text": "x"}, {"id": "b", "text": "y", "title": "T", "year": 2000}
    )
    assert passages(file) == [
        {"id": "a", "title": "", "text": "x", "year": None},
        {"id": "b", "title": "T", "text": "y", "year": 2000},
    ]
    row = {"qid": 1, "question": "Who?", "answers": ["I", "me"], "positive_ids": ["a", "b", "a"]}
    file = tmp_path / "q.jsonl.gz"
    file.write_bytes(gzip.compress((json.dumps(row) + "\n\n").encode()))
    assert questions(str(file)) == [Question("1", "Who?", ("I", "me"), None, ("a", "b"))]


@pytest.mark.parametrize("place", [1, 999, 1000, 1001, 1500])
def test_columns_stay_those_of_the_first_rows(tmp_path, place):
    """Rows that also have another column from some place on; up to row 1000 those before it lack what is read."""
    rows = [{"docid": f"d{n}", "contents": f"text {n}"} for n in range(2100)]
    for n, row in enumerate(rows[place:], place):
        row |= {"id": str(n), "passage": "another"}
    report, file = Report(), jsonl(tmp_path / "p.jsonl", *rows)
    found = [row for table in passage_tables(file, report=report) for row in table.to_pylist()]
    ids, texts = ([row[name] for row in found] for name in ("id", "text"))
    if place >= 1000:
        assert ids == [row["docid"] for row in rows] and texts == [row["contents"] for row in rows]
        assert report.remarks.first == {OURS: "p.jsonl: column 'id'; rename it to keep it"}
    else:
        assert ids[:place] == texts[:place] == [""] * place and set(texts[place:]) == {"another"}
    asked = [{"_id": f"d{n}", "text": f"text {n}", "positive_ids": "p"} for n in range(3)]
    asked += [row | {"qid": "1", "question": "another"} for row in asked]
    for row in asked[3:]:
        row["_id"] += "z"
    read = questions(
        jsonl(tmp_path / "q.jsonl", *asked, {"qid": "q", "question": "Who?", "positive_ids": "p"})
    )
    assert [(q.qid, q.question) for q in read] == [(row["_id"], row["text"]) for row in asked] + [
        ("q", "Who?")
    ]


def test_a_column_that_later_rows_lack_is_named(tmp_path):
    rows = [{"docid": str(n), "text": "x"} for n in range(1000)] + [{"id": "a", "text": "x"}]
    with pytest.raises(InputError, match=r"p\.jsonl: no column 'docid' among id, text"):
        passages(jsonl(tmp_path / "p.jsonl", *rows))


@pytest.mark.parametrize("kept", [1, 999])
def test_a_null_that_a_later_row_of_jsonl_leaves_out_is_null(tmp_path, kept):
    """Whether the rows before fill a table of a thousand or not."""
    rows = [{"id": str(n), "body": "x", "head": "h", "year": n} for n in range(kept)]
    file = jsonl(tmp_path / "p.jsonl", *rows, {"id": "a"}, {"id": "b", "body": "y"})
    read = passages(file, columns={"text": "body", "title": "head"})
    assert [(row["title"], row["text"]) for row in read[-2:]] == [("", ""), ("", "y")]
    with pytest.raises(InputError, match=r"p\.jsonl: no column 'lead' among id, body, head, year"):
        passages(file, columns={"text": "lead"})


def test_tables_hold_a_thousand_rows_at_most(tmp_path):
    rows = [{"id": str(i), "text": "x"} for i in range(2500)]
    sizes = [1000, 1000, 500]
    assert [t.num_rows for t in passage_tables(jsonl(tmp_path / "p.jsonl", *rows))] == sizes
    file = parquet(tmp_path / "p.parquet", id=[str(i) for i in range(2500)], text=["x"] * 2500)
    assert [t.num_rows for t in passage_tables(file)] == sizes


def test_a_mapped_column_that_is_missing_is_named_unless_another_file_may_have_it(tmp_path):
    file = parquet(tmp_path / "p.parquet", id=["a"], lead=["x"])
    with pytest.raises(InputError, match=r"p\.parquet: no column 'body' among id, lead"):
        passages(file, columns={"text": "body"})
    file = parquet(tmp_path / "q.parquet", qid=["a"], question=["x"], gold=["x"])
    with pytest.raises(InputError, match=r"q\.parquet: no column 'asked' among qid, question, gold"):
        questions(file, columns={"question": "asked"})
    # One mapping serves training and dev questions: a column that not all have may be mapped.
    mapped = {"positive_ids": "gold", "answers": "none"}
    assert questions(file, columns=mapped)[0].positive_ids == ("x",)


@pytest.mark.parametrize("group", [1000, 20_000])
def test_of_a_large_parquet_file_a_piece_is_held(tmp_path, group):
    """40 MB, in row groups or, as some tools write a whole corpus, in one."""
    texts = [os.urandom(1000).hex() for _ in range(20_000)]
    table = pa.table({"id": [str(number) for number in range(20_000)], "text": texts})
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=group, use_dictionary=False)
    del texts
    before, rows, held = pa.total_allocated_bytes(), 0, 0
    tracemalloc.start()
    for part in passage_tables(str(tmp_path / "p.parquet")):
        rows += part.num_rows
        held = max(held, pa.total_allocated_bytes() - before)
    held += tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 20_000 and held < 15 << 20


@pytest.mark.parametrize("column", ["text", "title"])
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "int64"),
        ([1.5, None], "double"),
        ([True, False], "bool"),
        ([["a"], []], "list<element: string>"),
    ],
)
def test_a_text_is_text_and_numbers_may_be_titles(tmp_path, column, values, kind):
    columns = {"id": [7, 8], "title": ["", ""], "text": ["one", "two"], column: values}
    file = parquet(tmp_path / "p.parquet", **columns)
    if column == "title" and kind in ("int64", "double"):
        assert [row["title"] for row in passages(file)] == [
            "" if value is None else str(value) for value in values
        ]
        return
    with pytest.raises(InputError, match=rf"p\.parquet: column '{column}' is {kind}, not text"):
        passages(file)


def test_a_column_of_nulls_is_text_that_is_missing(tmp_path):
    file = parquet(tmp_path / "p.parquet", id=["a"], text=pa.nulls(1))
    assert passages(file) == [{"id": "a", "title": "", "text": ""}]


NAN = float("nan")


def test_nan_is_missing_and_never_the_text_nan(tmp_path):
    """`json.dumps` of pandas' missing values writes NaN."""
    rows = [
        {"id": "a", "title": NAN, "text": "x", "url": NAN},
        {"id": "b", "title": "B", "text": "y", "url": "u"},
        {"id": 3.0, "title": 4, "text": "z", "url": NAN},
    ]
    found = passages(jsonl(tmp_path / "p.jsonl", *rows))
    assert [row["title"] for row in found] == ["", "B", "4"]
    assert [row["url"] for row in found] == [None, "u", None]
    only = passages(jsonl(tmp_path / "o.jsonl", {"id": "a", "title": NAN, "text": NAN}))
    assert only == [{"id": "a", "title": "", "text": ""}], "split says that it has no text"
    numbers = parquet(tmp_path / "p.parquet", id=["a", "b"], title=[NAN, 2.0], text=["x", "y"])
    assert [row["title"] for row in passages(numbers)] == ["", "2"]


@pytest.mark.parametrize("column", ["id", "title", "text"])
def test_an_object_is_no_text_and_stays_one_in_a_column_of_the_user_s_own(tmp_path, column):
    rows = [{"id": f"p{n}", "title": "t", "text": "x", "more": {"a": n}} for n in range(3)]
    assert passages(jsonl(tmp_path / "p.jsonl", *rows))[2]["more"] == '{"a": 2}'
    (table,) = passage_tables(str(tmp_path / "p.jsonl"))
    assert table.schema.field("more").metadata is None, "what is written has no metadata"
    rows[1][column] = {"a": 1}
    with pytest.raises(InputError, match=rf"p\.jsonl row 2: column '{column}' holds an object, not text"):
        passages(jsonl(tmp_path / "p.jsonl", *rows))


@pytest.mark.parametrize(
    ("id_", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (-12.0, "-12"),
        (10_000_000.0, "10000000"),
        (123456789012.0, "123456789012"),
        (2.0**53 - 1, "9007199254740991"),
        (1.5, "1.5"),
        (1e-7, "1e-7"),
    ],
)
def test_an_id_that_pandas_made_a_fraction_is_the_whole_number_s_text_for_passages_gold_and_questions(
    tmp_path, id_, text
):
    row = {"id": id_, "text": "x"}
    (passage,) = passages(parquet(tmp_path / "p.parquet", id=[id_], text=["x"]))
    (alone,) = passages(jsonl(tmp_path / "a.jsonl", row))
    mixed = passages(jsonl(tmp_path / "m.jsonl", row, {"id": "a", "text": "y"}))
    gold = {"question": "Who?", "positive_ids": [id_], "negative_ids": id_}
    files = [
        jsonl(tmp_path / "q.jsonl", {"qid": id_} | gold),
        parquet(
            tmp_path / "q.parquet", qid=[id_], question=["Who?"], positive_ids=[[id_]], negative_ids=[id_]
        ),
    ]
    (tmp_path / "q.csv").write_text(
        f'qid,question,positive_ids,negative_ids\n{text},Who?,"[{id_}]",[{id_}]\n'
    )
    for file in (*files, str(tmp_path / "q.csv")):
        (question,) = questions(file)
        assert (question.qid, question.positive_ids, question.negative_ids) == (text, (text,), (text,))
    assert passage["id"] == alone["id"] == mixed[0]["id"] == text


def test_what_is_text_stays_as_it_is(tmp_path):
    """A section's number, or a fraction that pandas wrote into a CSV: nobody can say."""
    (tmp_path / "p.csv").write_text("id,text\n1.0,x\n")
    (passage,) = passages(str(tmp_path / "p.csv"))
    (question,) = questions(
        jsonl(tmp_path / "q.jsonl", {"qid": "1.0", "question": "Who?", "positive_ids": "1.0"})
    )
    assert passage["id"] == question.qid == "1.0" and question.positive_ids == ("1.0",)


def test_an_integer_that_pandas_made_a_fraction_is_itself_again_beside_missing_ones_and_narrow_ones(tmp_path):
    (first, second) = passages(
        parquet(tmp_path / "p.parquet", id=[123456789012.0, float("nan")], text=["x", "y"])
    )
    assert (first["id"], second["id"]) == ("123456789012", "")
    narrow = pa.table({"id": pa.array([16777215.0], pa.float32()), "text": ["x"]})
    pq.write_table(narrow, tmp_path / "n.parquet")
    (passage,) = passages(str(tmp_path / "n.parquet"))
    assert passage["id"] == "16777215"
    pq.write_table(
        pa.table({"id": pa.array([16777217.0], pa.float32()), "text": ["x"]}), tmp_path / "n.parquet"
    )
    with pytest.raises(InputError, match=r"column 'id' holds 16777216\.0, a fraction with more than 24 bits"):
        passages(str(tmp_path / "n.parquet"))


@pytest.mark.parametrize("id_", [2.0**53, -(2.0**53), 1.2345678901234567e18, 1e300])
def test_an_id_that_lost_digits_as_a_fraction_is_refused_with_the_way_out(tmp_path, id_):
    way_out = "53 bits; write it as text"
    for file in (
        parquet(tmp_path / "p.parquet", id=[1.0, id_], text=["x", "y"]),
        jsonl(tmp_path / "p.jsonl", {"id": id_, "text": "x"}),
    ):
        with pytest.raises(InputError, match=rf"p\.\w+: column 'id' holds .*{way_out}"):
            passages(file)
    for name in ("qid", "positive_ids", "negative_ids"):
        row = {"qid": "q", "question": "Who?", "positive_ids": "p"} | {name: id_}
        with pytest.raises(InputError, match=rf"q\.jsonl row 1.*{name} holds .*{way_out}"):
            questions(jsonl(tmp_path / "q.jsonl", row))


@pytest.mark.parametrize("id_", [12, 12.0, "12"])
def test_ids_of_dpr_s_and_tevatron_s_passages_are_read_alike(tmp_path, id_):
    context = {"title": "T", "text": "x", "passage_id": id_, "docid": id_}
    dpr = {"question": "Who?", "answers": ["x"], "positive_ctxs": [context], "hard_negative_ctxs": []}
    tevatron = {"query_id": id_, "query": "Who?", "positive_passages": [context], "negative_passages": []}
    (tmp_path / "d.json").write_text(json.dumps([dpr]))
    for file in (str(tmp_path / "d.json"), jsonl(tmp_path / "t.jsonl", tevatron)):
        (passage,), (question,) = passages(file), questions(file)
        assert passage["id"] == "12" and question.positive_ids == ("12",)
