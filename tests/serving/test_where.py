"""`where` against a filter row by row, and what it says of texts that are no condition."""

from __future__ import annotations

import math
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import multiview
from multiview.data.passages import PassageRows, shard_files
from multiview.errors import InputError
from multiview.serving.where import ConditionError, Where, satisfying
from tests.fixtures.artifacts import write_passages

ROWS = [
    {"id": "a", "name": "Öl", "n": 1, "x": 0.5, "ok": True, "tags": ["a", "b"], "day": date(2020, 1, 2)},
    {"id": "b", "name": "", "n": -3, "x": math.nan, "ok": False, "tags": [], "day": date(1999, 12, 31)},
    {"id": "c", "name": None, "n": None, "x": None, "ok": None, "tags": None, "day": None},
    {
        "id": "d",
        "name": 'it\'s "x"',
        "n": 2**62 + 1,
        "x": -2.0,
        "ok": True,
        "tags": ["b", None],
        "day": date(2020, 1, 3),
    },
    {"id": "e", "name": "oil", "n": 2, "x": 2.0, "ok": None, "tags": ["Öl"], "day": date(2020, 1, 2)},
]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("ok", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("day", pa.date32()),
        ("at", pa.time32("s")),
    ]
)
TABLE = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)


def known(value):
    return None if value is None or value != value else value


PLAIN = {
    "==": lambda value, other: value == other,
    "!=": lambda value, other: value != other,
    "<": lambda value, other: value is not None and value < other,
    "<=": lambda value, other: value is not None and value <= other,
    ">": lambda value, other: value is not None and value > other,
    ">=": lambda value, other: value is not None and value >= other,
}
LITERALS = {
    "name": st.sampled_from(["Öl", "", "oil", 'it\'s "x"', "p"]),
    "n": st.one_of(st.integers(-4, 4), st.sampled_from([2**62, 2**62 + 1, 2.0, -3.0, 2**63 - 1, -(2**63)])),
    "x": st.one_of(st.integers(-3, 3), st.sampled_from([0.5, -2.0, 0.1])),
    "day": st.sampled_from(["2020-01-02", "1999-12-31", "2021-01-01"]),
}


def of_day(name, value):
    return date.fromisoformat(value) if name == "day" else value


@st.composite
def comparisons(draw):
    name = draw(st.sampled_from(list(LITERALS)))
    column = draw(st.sampled_from([name, f'columns["{name}"]']))
    value, symbol = draw(LITERALS[name]), draw(st.sampled_from(list(PLAIN)))
    form = draw(st.sampled_from(["column first", "value first", "in", "not in", "null", "list", "bool"]))
    other = of_day(name, value)
    if form == "column first":
        return f"{column} {symbol} {value!r}", lambda row: PLAIN[symbol](known(row[name]), other)
    if form == "value first":
        mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(symbol, symbol)
        return f"{value!r} {mirrored} {column}", lambda row: PLAIN[symbol](known(row[name]), other)
    if form in ("in", "not in"):
        values = [*draw(st.lists(LITERALS[name], max_size=3)), *draw(st.sampled_from([[], [None]]))]
        written = ", ".join("null" if each is None else repr(each) for each in values)
        wanted = [each and of_day(name, each) for each in values]
        return f"{column} {form} [{written}]", lambda row: (known(row[name]) in wanted) == (form == "in")
    if form == "null":
        word, missing = draw(st.sampled_from([("is", True), ("is not", False), ("==", True), ("!=", False)]))
        return f"{column} {word} null", lambda row: (known(row[name]) is None) == missing
    if form == "list":
        tag = draw(st.sampled_from(["a", "b", "Öl", ""]))
        word = draw(st.sampled_from(["in", "not in"]))
        return f"{tag!r} {word} tags", lambda row: (tag in (row["tags"] or [])) == (word == "in")
    return draw(
        st.sampled_from(
            [("ok", lambda row: row["ok"] is True), ("ok == false", lambda row: row["ok"] is False)]
        )
    )


def joined(parts):
    def both(word, first, second):
        join = all if word.strip() == "and" else any
        return f"({first[0]}){word}{second[0]}", lambda row: join(part[1](row) for part in (first, second))

    return st.one_of(
        st.builds(
            both,
            st.sampled_from([" and ", " or ", "\nand ", " or\r\n"]),
            parts,
            parts.map(lambda part: (f"({part[0]})", part[1])),
        ),
        parts.map(lambda part: (f"not ({part[0]})", lambda row: not part[1](row))),
    )


@settings(max_examples=200, deadline=None)
@given(st.recursive(comparisons(), joined, max_leaves=6))
def test_a_condition_selects_what_a_filter_row_by_row_selects(condition):
    text, plain = condition
    assert Where(text, SCHEMA).mask(TABLE).tolist() == [plain(row) for row in ROWS], text


@pytest.mark.parametrize(
    ("kind", "values", "text", "found"),
    [
        (pa.dictionary(pa.int8(), pa.string()), ["a", None, "b"], 'c == "b"', [False, False, True]),
        (pa.uint8(), [0, None, 255], "c < 255", [True, False, False]),
        (pa.uint64(), [0, None, 2**63 - 1], "c >= 9223372036854775807", [False, False, True]),
        (pa.float32(), [0.5, None, 0.1], "c in (0.1)", [False, False, True]),
        (pa.float32(), [0.5, None, 0.1], "c <= 0.1", [False, False, True]),
        (pa.float16(), [0.5, None, 0.1], "c == 0.1", [False, False, True]),
        (pa.float16(), [2048.0, None, 2050.0], "c >= 2049", [False, False, True]),
        (pa.float32(), [0.5, None, 0.1], "c < 16777217", [True, False, True]),
        (pa.float32(), [0.5, None, 0.1], "c < 1e300", [True, False, True]),
        (pa.float64(), [2.0**60, None, 2.0**61], "c == 1152921504606846976", [True, False, False]),
        (pa.float64(), [2.0**60, None, 2.0**61], "c >= 1152921504606847000", [True, False, True]),
        (pa.float64(), [-(2.0**60), None, 2.0**61], "c == -1152921504606847000", [True, False, False]),
        (pa.float32(), [0.5, None, -1.0], f"c > -1{'0' * 39}", [True, False, True]),
        (pa.time32("s"), [time(12, 30), None, time(9)], 'c > "09:00"', [True, False, False]),
        (pa.time64("ns"), [time(12, 30, 0, 1), None, time(9)], 'c == "12:30:00.000001"', [True, False, False]),
        (pa.time64("us"), [time(12, 30), None, time(9)], 'c == "09:00:00"', [False, False, True]),
        (pa.null(), [None, None, None], 'c == "x"', [False, False, False]),
        (pa.timestamp("us", "UTC"), [datetime(2020, 1, 1, tzinfo=UTC), None, None], 'c == "2020-01-01T01:00+01:00"', [True, False, False]),
    ],
)  # fmt: skip
def test_columns_of_every_type_are_compared(kind, values, text, found):
    batch = pa.RecordBatch.from_arrays([pa.array(values).cast(kind)], ["c"])
    assert Where(text, batch.schema).mask(batch).tolist() == found


def test_what_looks_like_a_comment_or_a_line_end_within_quotes_is_text():
    names = pa.record_batch({"name": ["#1", "a\nb", "a b"]})
    for text, found in (("name == '#1'", [True, False, False]), (r"name == 'a\nb'", [False, True, False])):
        assert Where(text, names.schema).mask(names).tolist() == found


def test_lists_of_a_fixed_size_are_lists():
    lists = pa.record_batch({"c": pa.array([[1, 2], None], pa.list_(pa.int8(), 2))})
    assert Where("2 in c", lists.schema).mask(lists).tolist() == [True, False]
    with pytest.raises(ConditionError, match="column c holds lists: write the value before it"):
        Where("c == 2", lists.schema)


def test_no_passage_of_an_empty_corpus_satisfies_a_condition(tmp_path):
    corpus = PassageRows(shard_files(write_passages(tmp_path / "passages", [])))
    for text in ("true", "title == 'x'"):
        assert satisfying(corpus, text).tolist() == []


def test_a_range_is_written_as_in_mathematics():
    found = Where('0 < n <= 2 and ok is null or true == ok or id in ("b")', SCHEMA).mask(TABLE)
    assert found.tolist() == [True, True, False, True, True], "and one value in parentheses is a list of one"


REFUSED = {
    "": "where, character 1: it ends where more is expected",
    "n ==": "where, character 5: it ends where more is expected",
    '  nmae == "x"': "where, character 3: there is no column 'nmae'; did you mean name?",
    'name == "Ö" and m > 1': "where, character 17: there is no column 'm'; there are: id,",
    "n < 'x'": "where, character 5: column n is of type int64: compare it with a value",
    "name < 3": "where, character 8: column name holds text, which is compared letter by letter",
    "n == true": "where, character 6: column n is of type int64: compare it with a value",
    "n < 1.5": "where, character 5: column n is of type int64: compare it with a value",
    "n in (1, 9223372036854775808)": "where, character 10: column n is of type int64: compare it with a value",
    "at > '12:30+02:00'": "where, character 6: column at is of type time32[s]: compare it with a value",
    "at > '12:30:00.5'": "where, character 6: column at is of type time32[s]: compare it with a value",
    "at > '24:00'": "where, character 6: column at is of type time32[s]: compare it with a value",
    "at in (1230)": "where, character 8: column at is of type time32[s]: compare it with a value",
    "at == 12.5": "where, character 7: column at is of type time32[s]: compare it with a value",
    r"name == '\ud83d\ude0e'": "where, character 9: column name holds no half characters: write the character itself",
    "name": "where, character 1: column name is no condition; compare it with a value",
    "n in (1, x)": "where, character 10: a string, a number, true, false or null is expected here",
    "'a' in name": "where, character 8: column name holds no lists; write name in (…)",
    "name in ('a' 'b', 'c')": "where, character 14: two strings follow each other",
    'name not in ("a"\n"b")': "where, character 18: two strings follow each other",
    "n == 9007199254740993.5": "where, character 6: column n is of type int64: compare it with a value",
    "n == 1e999999": "where, character 6: column n is of type int64: compare it with a value",
    "tags == 'x'": "where, character 9: column tags holds lists: write the value before it",
    "n == 2 + 3": "where, character 6: a string, a number, true, false or null is expected here",
    "f'{n}' == name": "where, character 1: a string, a number",
    "__import__('os').system('x')": "where, character 1: a condition is expected here",
    "[n for n in tags]": "where, character 1: a condition is expected here",
    "name.upper == 'x'": "where, character 1: a comparison is of a column with a value",
    "(ok := true)": "where, character 2: a condition is expected here",
    "n == 1; import os": "where, character 7: invalid syntax",
    "n == 1 && ok": "where, character 9: invalid syntax; compare by ==, and join by",
    "n > 0  # some\nand ok": "where, character 8: a comment would hide what follows; leave it out",
    "name == '#Ö' # or ok": "where, character 14: a comment would hide what follows",
    "(ok)# or n == 1": "where, character 5: a comment would hide what follows",
    "ok\nand name == 'a\nb'": "where, character 16: a line ends within the quotes; write \\n for a line end",
    "name in ('Ö', '''a\rb''')": "where, character 15: a line ends within the quotes",
    "!ok": "where, character 1: invalid syntax; compare by ==, and join by",
    "name == '\0'": "where",
    "name == '\ud800'": "where",
    "(" * 300 + "ok" + ")" * 300: "where, character ",
}
"""More is in tests/bad_input/requests.py, and any text in tests/bad_input/test_fuzz.py."""


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_that_is_no_condition_is_refused_in_a_line_that_names_the_position(text):
    with pytest.raises(InputError) as error:
        Where(text, SCHEMA)
    assert REFUSED[text] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("system", ["camvr", "pooled"])
def test_the_best_passages_among_those_that_satisfy_it_are_found(indexes, system):
    """By an approximate index too: as if all passages were asked for and the others left out."""
    loaded = multiview.load(indexes.index(system))
    everything = loaded.search(indexes.questions, k=len(loaded))
    early = date(2020, 1, 10)
    for where, satisfied in {
        'url is not null and day < "2020-01-10"': lambda hit: (
            hit.columns["url"] and hit.columns["day"] < early
        ),
        'id in ("p1", "p3")': lambda hit: hit.id in ("p1", "p3"),
        "true": lambda hit: True,
        'day > "2030-01-01"': lambda hit: False,
    }.items():
        found = loaded.search(indexes.questions, k=4, where=where)
        for hits, every in zip(found, everything, strict=True):
            assert hits == list(filter(satisfied, every))[:4]


def test_the_deepest_condition_is_read_and_refused_where_the_stack_is_full():
    deep = Where("not " * 499 + "ok", pa.schema({"ok": pa.bool_()}))
    assert deep.mask(pa.record_batch({"ok": [True, False]})).tolist() == [False, True]

    def below(frames: int) -> Where:
        return below(frames - 1) if frames else Where("not " * 400 + "ok", pa.schema({"ok": pa.bool_()}))

    with pytest.raises(ConditionError, match="too many conditions within conditions"):
        below(sys.getrecursionlimit() - 300)


def test_a_search_with_a_condition_does_not_read_the_corpus_twice(indexes, monkeypatch):
    loaded = multiview.load(indexes.index("camvr"))
    first = loaded.search(indexes.questions[:2], k=3, where="url is null")
    monkeypatch.setattr(loaded._corpus, "batches", lambda columns: pytest.fail("read again"))
    assert loaded.search(indexes.questions[:2], k=3, where="url is null") == first
    assert np.array_equal(loaded.among("url is null"), [i % 3 == 2 for i in range(len(loaded))])


def rows_where(column: pa.Array, condition: str) -> list[bool]:
    batch = pa.RecordBatch.from_arrays([pa.array([str(n) for n in range(len(column))]), column], ["id", "x"])
    return Where(condition, batch.schema).mask(batch).tolist()


def exactly_or_not_at_all(column: pa.Array, condition: str, expected: list[bool], held: bool) -> None:
    """A condition with a value that the column can hold selects what is expected; any other is refused."""
    try:
        assert rows_where(column, condition) == expected
    except InputError as error:
        assert not held, error


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=4),
    st.one_of(st.integers(-(10**7), 10**7), st.floats(allow_nan=False, allow_infinity=False)),
    st.sampled_from(list(PLAIN)),
    st.sampled_from([(38, 2), (38, 0), (12, 5), (76, 30)]),
)
def test_decimals_are_compared_exactly_with_the_numbers_that_they_can_hold(units, value, symbol, size):
    values = [Decimal(unit).scaleb(-size[1]) for unit in units]
    kind = pa.decimal128(*size) if size[0] <= 38 else pa.decimal256(*size)
    expected = [PLAIN[symbol](each, Decimal(str(value))) for each in values]
    column = pa.array(values, kind)
    held = isinstance(value, int) and abs(value) < 10 ** (size[0] - size[1])
    exactly_or_not_at_all(column, f"x {symbol} {value!r}", expected, held)


@given(st.integers(-(10**30), 10**30), st.sampled_from([0, 18]))
def test_a_number_is_compared_by_all_of_its_digits(units, digits):
    kind = pa.decimal128(38, digits)
    values = [Decimal(units + step).scaleb(-digits, Context(prec=40)) for step in (-1, 0, 1)]
    column = pa.record_batch({"x": pa.array(values, kind)})
    written = f"{values[1]:f}" + ("" if digits else ".0")
    assert Where(f"x == {written}", column.schema).mask(column).tolist() == [False, True, False]
    if not digits and abs(units) < 2**62:
        whole = pa.record_batch({"x": pa.array([units - 1, units, units + 1])})
        assert Where(f"x == {written}", whole.schema).mask(whole).tolist() == [False, True, False]


@given(
    st.lists(st.integers(-(10**4), 10**4), min_size=1, max_size=4),
    st.integers(-(10**13), 10**13),
    st.sampled_from(list(PLAIN)),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.sampled_from([None, "UTC"]),
    st.sampled_from([0, 3, 6, 9]),
)
def test_times_are_compared_exactly_with_the_times_that_they_can_hold(
    units, nanoseconds, symbol, unit, zone, digits
):
    step = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    nanoseconds -= nanoseconds % 10 ** (9 - digits)
    column = pa.array(units, pa.int64()).cast(pa.timestamp(unit, zone))
    whole = datetime(1970, 1, 1) + timedelta(seconds=nanoseconds // 10**9)
    text = f"{whole.isoformat()}.{nanoseconds % 10**9:09}"[: 20 + digits].rstrip(".")
    expected = [PLAIN[symbol](each * step, nanoseconds) for each in units]
    held = digits <= 6 and nanoseconds % step == 0
    exactly_or_not_at_all(column, f'x {symbol} "{text}"', expected, held)


def test_a_number_beyond_all_others_is_compared_with_nothing():
    for kind in (pa.int64(), pa.decimal128(38, 2)):
        with pytest.raises(InputError, match="a value that it can hold"):
            rows_where(pa.array([1], pa.int64()).cast(kind), "x > 1e999")


@pytest.mark.parametrize("name", ["カテゴリ１", "ｶﾅ", "cate\u0301gorie"])
def test_a_column_s_name_is_taken_as_it_is_written(name):
    schema = pa.schema([("id", pa.string()), (name, pa.int64())])
    batch = pa.RecordBatch.from_pylist([{"id": "a", name: 1}, {"id": "b", name: 2}], schema)
    assert Where(f"{name} == 1", schema).mask(batch).tolist() == [True, False]


def test_of_columns_that_are_one_name_to_python_the_written_one_is_read():
    batch = pa.record_batch({"fix": [1, 2], "ﬁx": [2, 1]})
    for name, found in (("fix", [True, False]), ("ﬁx", [False, True])):
        assert Where(f"{name} == 1", batch.schema).mask(batch).tolist() == found
