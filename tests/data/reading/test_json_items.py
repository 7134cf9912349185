"""Lists of objects in JSON: read by Python's parser as ijson reads them."""

import gzip
import json

import ijson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multiview.data.reading import json_items as module
from multiview.data.reading.files import open_stream
from multiview.data.reading.json_items import json_items
from multiview.data.reading.nesting import ShallowJson
from multiview.data.reading.surrogates import HALVES, WholeCharacters
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


def outcome(read) -> tuple[list, str | None]:
    """The items that are read, and the line that ends them."""
    items = []
    try:
        for item in read():
            items.append(item)
    except InputError as error:
        return items, str(error)
    return items, None


def by_ijson(file: str, key: str):
    with open_stream(file) as stream:
        path = f"{key}.item" if key else "item"
        yield from ijson.items(ShallowJson(WholeCharacters(stream, file), file), path, use_float=True)


def same(file, content: bytes, key: str) -> tuple[list, str | None]:
    file.write_bytes(content)
    items, line = outcome(lambda: json_items(str(file), key))
    # Half a character is a question mark to ijson; either way the file is refused when its next block is read.
    items = [json.loads(HALVES.sub("?", json.dumps(item, ensure_ascii=False))) for item in items]
    assert (items, line) == outcome(lambda: by_ijson(str(file), key))
    return items, line


@pytest.fixture(params=[7, 64, 1 << 20])
def block(request, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", request.param)


@settings(max_examples=150, deadline=None)
@given(
    items=ITEMS,
    ascii=st.booleans(),
    indent=st.sampled_from([None, 1]),
    block=st.sampled_from([5, 40, 1 << 20]),
)
@example(items=[], ascii=True, indent=None, block=5)
def test_items_are_those_of_ijson(tmp_path_factory, items, ascii, indent, block):
    file = tmp_path_factory.mktemp("items") / "x.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        for key, content in {
            "": items,
            "data": {"version": "1.1", "data": items},
            "data ": {"data ": items, "version": "1.1", "more": "x"},
            "other": {"other": items, "version": {"a": 1}},
        }.items():
            found = same(file, json.dumps(content, ensure_ascii=ascii, indent=indent).encode(), key)
            assert found == (items, None)


ARTICLE = '{"a": "b"}'
TOP = "'data' is given twice in the object around the list; give it once"


@pytest.mark.parametrize(
    "content",
    [
        *("", " ", "{", "{}", "[]", "null", '"data"', '{"data": []}', '{"data": {}}', '{"data": null}', '{"data": ['),
        *('{"data": [] }\n', '{"version": "data", "data": [2]}', '{"data": ["x"]}'),
        '{"data.item": "x", "data": [{}]}',
        '{"more": {"data": [1]}, "data": [{}]}',
        '{"data": [{}], "b": 1, "c": "d"}',
        *(f'{{"data": [{ARTICLE}{end}' for end in ("", ",", ",]}", "]", "]]", "]}", "]} x", '], "a": "b"', "}]}", ", 1]}")),
        *(f'{{"data": [{ARTICLE}, {item}, {ARTICLE}]}}' for item in ("NaN", "Infinity", "{'a': 1}", "{a: 1}", "[{}]", "01")),
        *(f'{{"data": [{ARTICLE}, {{"a": {value}}}, {ARTICLE}]}}' for value in ("NaN", "-Infinity", "1e5", "-0", "1E400", "01", "9" * 18, "9" * 25)),
        *(f'{{"data": [{ARTICLE}, {{"a": "{text}"}}]}}' for text in ("\n", "\t", "\\x", "\\u12", "\\ud83d", "\\ud83d\\ude00", "\0")),
    ],
)  # fmt: skip
def test_any_other_form_is_as_with_ijson(tmp_path, content, block):
    same(tmp_path / "x.json", content.encode(), "data")
    same(tmp_path / "x.json", content.removeprefix('{"data": ').removesuffix("}").encode(), "")


def test_bytes_that_are_no_utf8_are_as_with_ijson(tmp_path, block):
    for bad in (b"\xff", b"\xed\xa0\xbd", b"\xc3"):
        same(tmp_path / "x.json", b'{"data": [{"a": "b"}, {"a": "' + bad + b'"}]}', "data")


def test_a_file_that_ends_early_gives_what_is_whole_and_then_the_reason(tmp_path, block):
    whole = json.dumps({"data": [{"a": "é" * number} for number in range(9)]}, ensure_ascii=False).encode()
    for end in range(len(whole)):
        _, line = same(tmp_path / "x.json", whole[:end], "data")
        assert line is not None and "x.json: cannot be read" in line


def test_a_compressed_file_and_a_byte_order_mark(tmp_path):
    for content in (b'{"data": [{}, {"a": 1}]}', b'\xef\xbb\xbf{"data": [{}, {"a": 1}]}'):
        (tmp_path / "x.json.gz").write_bytes(gzip.compress(content))
        assert list(json_items(str(tmp_path / "x.json.gz"), "data")) == [{}, {"a": 1}]


def test_an_object_longer_than_the_longest_is_left_to_ijson(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 10)
    monkeypatch.setattr(module, "LONGEST", 100)
    items = [{"a": "x" * 50}, {"a": "y" * 1000}, {"a": "z"}]
    assert same(tmp_path / "x.json", json.dumps(items).encode(), "") == (items, None)


def test_objects_in_a_list_need_no_ijson(tmp_path, monkeypatch):
    monkeypatch.setattr(ijson, "items", None)
    items = [{"a": [1, {"b": "]},"}]}, {}]
    for key, content in {"": items, "data": {"version": "1.1", "data": items, "more": "x"}}.items():
        (tmp_path / "x.json").write_text(json.dumps(content))
        assert list(json_items(str(tmp_path / "x.json"), key)) == items


def another_form(file: str, key: str):
    raise InputError(f"{file}: not a list of objects")


@pytest.mark.parametrize(
    ("content", "items", "line"),
    [
        ('[{"a": 0}, {"a": 1, "b": 2, "a": 3}]', 1, "'a' is given twice in {'a': 1, 'b': 2}; give it once"),
        ('[{"a": 0}, {"c": [{"a": 1, "\\u0061": {}}]}]', 1, "'a' is given twice in {'a': 1}; give it once"),
        ('{"data": [], "data": [1]}', 1, TOP),
        ('{"data": [{}], "data": [{"b": 1}]}', 2, TOP),
        ('{"data": "x", "data": [{}]}', 1, TOP),
        ('{"data": [{}], "data": "x"}', 1, TOP),
        ('{"v": "1", "data": [{}], "v": ": "}', 1, TOP.replace("data", "v")),
        ('{"v": {}, "v": {}, "data": [{}]}', 1, TOP.replace("data", "v")),
    ],
)
@pytest.mark.parametrize("objects", ["whole", "by ijson"])
def test_a_key_given_twice_is_refused(tmp_path, monkeypatch, block, content, items, line, objects):
    if objects == "by ijson":
        monkeypatch.setattr(module, "_objects", another_form)
    file = tmp_path / "x.json"
    file.write_text(content)
    found, reason = outcome(lambda: json_items(str(file), "data" if content.startswith("{") else ""))
    assert reason == f"{file}: {line}"
    assert len(found) <= items  # ijson is ahead of its items


def test_keys_of_other_objects_and_texts_with_colons_are_not_given_twice(tmp_path, block):
    same(
        tmp_path / "x.json",
        b'{"a": "\x5c\x5c: ", "b": "a", "data": [{"a": {"a": 1}}, {"a": 1}], "c": ": "}',
        "data",
    )
    same(tmp_path / "x.json", b'{"a": {"a": 1, "data": 2}, "data": [{"data": 1}], "b": {"a": 1}}', "data")
