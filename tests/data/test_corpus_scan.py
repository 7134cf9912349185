"""Further columns of passages, whose type differs from file to file or from row to row."""

import datetime
import json
from decimal import Decimal
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.config import Config, Corpus
from multiview.data.corpus_scan import FurtherColumns
from multiview.data.inspection import inspect
from multiview.errors import InputError
from tests.fixtures.split_run import Done, passage_rows, settings

LARGE = 2**60 + 1
WHOLE, PARTS = pa.array([1, LARGE]), pa.array([0.5, None])
YEAR_9000 = pa.array([datetime.datetime(9000, 1, 1)] * 2)
YEAR_2000 = pa.array([datetime.datetime(2000, 1, 1)] * 2)
STARTS = pa.array([0, 1, 2], pa.int32())

DIFFERENT = {
    "whole numbers and fractions": (WHOLE, PARTS, "Integer value 1152921504606846977 not in range"),
    "whole numbers with a sign and without": (
        pa.array([-1, 1]),
        pa.array([1, 2**63], pa.uint64()),
        "Integer value 9223372036854775808 not in range",
    ),
    "times of two units": (
        YEAR_9000.cast(pa.timestamp("s")),
        YEAR_2000.cast(pa.timestamp("ns")),
        r"timestamp\[ns\] would result in out of bounds timestamp",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize("turned", [False, True])
def test_values_that_the_common_type_does_not_hold_are_refused(name, turned):
    """In either order, and after tables without them."""
    first, second, reason = DIFFERENT[name]
    columns = FurtherColumns()
    columns.add(pa.table({"id": ["a"], "text": ["x"]}), lambda: "z.parquet rows 1-1")
    tables = [("a", first), ("b", second)]
    with pytest.raises(InputError) as error:
        for file, values in reversed(tables) if turned else tables:
            columns.add(
                pa.table({"id": ["a", "b"], "n": values}), lambda file=file: f"{file}.parquet rows 1-2"
            )
    file = "b" if "sign" in name else "a"
    assert error.match(
        rf"^{file}\.parquet rows 1-2: column 'n\S*' has .* values that do not fit .* \(.*{reason}.*\); write it"
    )


LEAVES = [
    *(values for pair in DIFFERENT.values() for values in pair[:2]),
    *(pair[0].take([0, 0]) for pair in DIFFERENT.values()),
    *(pair[1].take([0, 0]) for pair in DIFFERENT.values()),
    pa.array([1, 10**12], pa.duration("s")),
    pa.array([1, 2], pa.duration("ns")),
    pa.array([Decimal("0.5")] * 2, pa.decimal128(5, 2)),
    pa.array(["a", None]),
    pa.nulls(2),
]
AROUND = {
    "nothing": lambda values: values,
    "a list": lambda values: pa.ListArray.from_arrays(STARTS, values),
    "an object": lambda values: pa.StructArray.from_arrays([values], ["x"]),
    "a map": lambda values: pa.MapArray.from_arrays(STARTS, pa.array(["k", "l"]), values),
    "a list in an object": lambda values: AROUND["an object"](AROUND["a list"](values)),
}


@pytest.mark.parametrize("around", AROUND)
def test_what_is_taken_can_be_written_as_the_common_type_and_nothing_else_is_refused(around):
    """Large values and small ones, in either order."""
    for pair in product(LEAVES, LEAVES):
        tables = [pa.table({"n": AROUND[around](values)}) for values in pair]
        columns = FurtherColumns()
        try:
            for table in tables:
                columns.add(table, lambda: "p")
        except InputError:
            with pytest.raises(pa.ArrowException):
                common = pa.unify_schemas([table.schema for table in tables], promote_options="permissive")
                [table.cast(common) for table in tables]
        else:
            [table.cast(columns.schema) for table in tables]


def test_types_without_a_cast_are_refused():
    columns = FurtherColumns()
    columns.add(pa.table({"n": pa.array([1])}), lambda: "a.parquet rows 1-1")
    message = r"b\.parquet rows 1-1: the type differs .* 'n' \(decimal128\(2, 1\) after int64\); give"
    with pytest.raises(InputError, match=message):
        columns.add(pa.table({"n": pa.array([1.5]).cast(pa.decimal128(2, 1))}), lambda: "b.parquet rows 1-1")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("fraction", "digits"), [(pa.float64(), 18), (pa.float32(), 9)])
def test_decimals_that_fractions_would_round_are_refused_beside_them(turned, fraction, digits):
    columns, parts = FurtherColumns(), pa.array([0.5], fraction)
    price = pa.array([Decimal("1234567.89")], pa.decimal128(digits, 2))
    with pytest.raises(InputError, match=r"p\.parquet rows 1-1: the type differs .* in column 'n' \("):
        for values in (parts, price) if turned else (price, parts):
            columns.add(pa.table({"n": values}), lambda: "p.parquet rows 1-1")
    wider, columns = price.cast(pa.decimal128(20, 3)), FurtherColumns()
    for values in (wider, price) if turned else (price, wider):
        columns.add(pa.table({"n": values}), lambda: "p.parquet rows 1-1")
    assert columns.schema.types == [pa.decimal128(20, 3)]


def test_whole_numbers_alone_may_have_64_bits_and_small_ones_become_fractions():
    columns = FurtherColumns()
    columns.add(pa.table({"large": WHOLE, "small": pa.array([1, 2])}), lambda: "a")
    columns.add(pa.table({"large": WHOLE, "small": PARTS}), lambda: "b")
    assert columns.schema.types == [pa.int64(), pa.float64()]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_the_check_and_inspect_name_the_file_and_the_column(tmp_path, files, suffix):
    rows = [{**row, "n": LARGE} for row in passage_rows(25)]
    rows += [{"id": f"q{i}", "text": "x", "n": LARGE} for i in range(975)]
    rows += [{"id": "r", "text": "x", "n": 0.5}]
    if suffix == "jsonl":
        source = [tmp_path / "p.jsonl"]
        source[0].write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        source = [tmp_path / "p.parquet", tmp_path / "more.parquet"]
        for file, some in zip(source, (rows[:-1], rows[-1:]), strict=True):
            pq.write_table(pa.Table.from_pylist(some), file)
    _, questions = settings(files)
    corpus = Corpus(source=tuple(map(str, source)), shards=1)
    message = rf"p\.{suffix} rows 1-1000: column 'n' has int64 values that do not fit double, .*Integer value {LARGE} not in range"
    with pytest.raises(InputError, match=message) as error:
        Done(tmp_path / "out", corpus, questions)
    assert "\n" not in str(error.value)
    found = inspect(Config.partial({"corpus": corpus, "questions": questions}), lambda _: None)
    assert str(error.value) in found.problems.first.values()
