"""Lists in files of JSON: read as Python's parser reads them, or refused in a line and in little memory."""

import cProfile
import gzip
import json
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multiview.data.reading.json_rows import DEEPEST, json_items, rows_of
from multiview.data.reading.tables import tables_of_rows
from multiview.data.reading.training_files import squad_entries, training_entries
from multiview.errors import InputError

TEXTS = st.text(st.sampled_from('ab"\\{}[],: é東😀\n\u2028\x7f'), max_size=8)
VALUES = st.recursive(
    st.one_of(
        TEXTS,
        st.integers(-(10**9), 10**9),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.none(),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
ITEMS = st.lists(st.one_of(st.dictionaries(TEXTS, VALUES, max_size=4), VALUES), max_size=6)


@settings(max_examples=100, deadline=None)
@given(items=ITEMS, ascii=st.booleans(), indent=st.sampled_from([None, 1]))
@example(items=[], ascii=True, indent=None)
def test_items_are_those_of_pythons_parser(tmp_path_factory, items, ascii, indent):
    file = tmp_path_factory.mktemp("items") / "x.json"
    for key, content in {
        "": items,
        "data": {"version": "1.1", "data": items},
        "data ": {"data ": items, "version": "1.1", "more": "x"},
        "other": {"other": items, "version": {"a": 1, "other": 2}},
    }.items():
        file.write_text(json.dumps(content, ensure_ascii=ascii, indent=indent))
        assert list(json_items(str(file), key)) == items


@pytest.mark.parametrize(
    "content", ["", " ", "{", '{"data": [', '{"data": [{"a": "b"},]}', '{"data": [{}]}}', '{"data": [NaN]}',
                '{"data": [{a: 1}]}', '{"data": [{"a": "\\x"}]}', '{"data": [{"a": "\n"}]}'],
)  # fmt: skip
def test_what_is_no_json_is_refused(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match=r"x\.json: cannot be read"):
        list(json_items(str(tmp_path / "x.json"), "data"))


def test_bytes_that_are_no_utf8_are_refused(tmp_path):
    for bad in (b"\xff", b"\xed\xa0\xbd", b"\xc3"):
        (tmp_path / "x.json").write_bytes(b'{"data": [{"a": "' + bad + b'"}]}')
        with pytest.raises(InputError, match=r"x\.json: not UTF-8; convert the file"):
            list(json_items(str(tmp_path / "x.json"), "data"))


def test_a_compressed_file_and_a_byte_order_mark(tmp_path):
    for content in (b'{"data": [{}, {"a": 1}]}', b'\xef\xbb\xbf{"data": [{}, {"a": 1}]}'):
        (tmp_path / "x.json.gz").write_bytes(gzip.compress(content))
        assert list(json_items(str(tmp_path / "x.json.gz"), "data")) == [{}, {"a": 1}]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('[{"a": 0}, {"c": [{"a": 1, "\\u0061": {}}]}]', "'a' is given twice in one object"),
        ('{"data": [{}], "data": "x"}', "'data' is given twice in one object"),
        ('{"v": {}, "v": {}, "data": [{}]}', "'v' is given twice in one object"),
    ],
)
def test_a_key_given_twice_is_refused(tmp_path, content, line):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match=rf"x\.json: {line}; give it once"):
        list(json_items(str(tmp_path / "x.json"), "data" if content.startswith("{") else ""))


@pytest.mark.parametrize("content", ['{"data.item": 1, "data": [2]}', '{"data": {"item": 1}}'])
def test_what_only_has_the_path_of_an_item_is_none(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(
        InputError, match=r"x\.json: a key is called '(data\.)?item', as an item's path; rename it"
    ):
        list(json_items(str(tmp_path / "x.json"), "data"))


def test_a_long_text_is_read_in_few_pieces(tmp_path):
    """ijson begins a text again with each piece: the time is the square of their number."""
    rows = [{"text": "x" * 3_000_000}, {"text": "[,{" * 9_000}, {"text": "y"}]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    profile = cProfile.Profile()
    assert profile.runcall(list, json_items(str(tmp_path / "x.json"))) == rows
    calls = {getattr(stat.code, "co_qualname", ""): stat.callcount for stat in profile.getstats()}
    assert 2 <= calls["_blocks"] < 30


def test_without_a_limit_of_digits_python_reads_every_whole_number(tmp_path):
    """As under PYTHONINTMAXSTRDIGITS=0."""
    (tmp_path / "x.jsonl").write_text('{"a": 1, "b": -1' + "0" * 5000 + "}\n")
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        assert list(rows_of(str(tmp_path / "x.jsonl"))) == [{"a": 1, "b": -(10**5000)}]
    finally:
        sys.set_int_max_str_digits(limit)


DEPTH = 200_000
FILES = {
    "list.json": "[" * DEPTH,
    "closed.json": "[" * DEPTH + "]" * DEPTH,
    "squad.json": '{"data": [' * DEPTH,
    "paragraph.json": '{"data": [{"paragraphs": ' + "[" * DEPTH,
    "objects.json": '{"a":' * DEPTH,
    "rows.jsonl": "[" * DEPTH + "\n",
    "column.jsonl": '{"id": "a", "text": "b", "c": ' + "[" * DEPTH + "]" * DEPTH + "}\n",
}
READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from multiview.data.reading.readers import passage_tables
from multiview.errors import InputError
for file in sys.argv[1:]:
    try:
        list(passage_tables(file))
    except InputError as error:
        print(error)
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


def test_200_kb_of_brackets_are_one_line_and_little_memory(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    paths = [tmp_path / name for name in FILES]
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *lines, megabytes = done.stdout.splitlines()
    for path, line in zip(paths, lines, strict=True):
        assert str(path.name) in line and ("nested" in line or "not JSON" in line), line
    assert int(megabytes) < 1000


def test_brackets_within_texts_do_not_count(tmp_path):
    text = "[" * 5000 + '{\\"' * 5000
    article = {"title": "t", "paragraphs": [{"context": text, "qas": []}]}
    (tmp_path / "s.json").write_text(json.dumps({"data": [article] * 3}))
    assert [passage["text"] for (passage,), _ in squad_entries(str(tmp_path / "s.json"))] == [text] * 3
    entry = {"question": text, "answers": [text], "positive_ctxs": []}
    (tmp_path / "d.json").write_text(json.dumps([entry] * 3))
    assert [row["question"] for _, (row,) in training_entries(str(tmp_path / "d.json"))] == [text] * 3


@pytest.mark.parametrize(("depth", "refused"), [(DEEPEST, False), (DEEPEST + 1, True)])
def test_the_deepest_nesting(tmp_path, depth, refused):
    (tmp_path / "x.json").write_text("[" * depth + "]" * depth)
    if refused:
        with pytest.raises(InputError, match=r"x\.json: objects or lists are nested more than 500 deep"):
            list(json_items(str(tmp_path / "x.json")))
    else:
        assert len(list(json_items(str(tmp_path / "x.json")))) == 1


def test_a_nested_column_that_json_cannot_write_is_a_line():
    nested: dict = {}
    for _ in range(100_000):
        nested = {"a": nested}
    with pytest.raises(InputError, match="column 'c'"):
        list(tables_of_rows([{"c": nested}], "x.jsonl"))
