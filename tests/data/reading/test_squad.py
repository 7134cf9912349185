"""SQuAD's JSON, read as a stream."""

import json

import pytest

from multiview.errors import InputError
from tests.fixtures.format_files import passages, put, questions

ARTICLE = {"title": "A_b", "paragraphs": [{"context": "One text.", "qas": []}]}


def test_a_list_of_no_articles_has_no_passages(tmp_path):
    file = put(tmp_path / "s.json", json.dumps({"version": "1.1", "data": []}))
    assert passages(file) == [] == questions(file)


@pytest.mark.parametrize(
    "content",
    [
        {"version": "1.1", "data": {"title": "x"}},
        {"version": "1.1", "data": None},
        {"version": "1.1", "data": [ARTICLE, {"title": "no paragraphs"}]},
        {"version": "1.1", "data": [ARTICLE, "no object"]},
        {"version": "1.1", "data": [{"paragraphs": [{"context": 1, "qas": []}]}]},
        {"version": "1.1", "data": [{"paragraphs": [{"context": "x", "qas": {}}]}]},
    ],
)
def test_another_form_is_refused_by_its_file(tmp_path, content):
    file = put(tmp_path / "s.json", json.dumps(content))
    for read in (passages, questions):
        with pytest.raises(InputError, match=r"s\.json: not SQuAD's JSON \(data, paragraphs, context, qas\)"):
            read(file)


@pytest.mark.parametrize("before", [0, 1 << 16, (1 << 16) - 8])
@pytest.mark.parametrize("half", ["a \ud800 b", "\udc00", "\\\ud83d", "\ud83d\ud83d\ude00", "😀\ude00"])
def test_half_a_character_is_refused(tmp_path, half, before):
    with pytest.raises(InputError, match=r"s\.json: holds half a character"):
        passages(one_paragraph(tmp_path, "x" * before + half))


@pytest.mark.parametrize("before", range((1 << 16) - 90, (1 << 16) - 40))
def test_a_character_of_two_escapes_is_read_wherever_a_block_ends(tmp_path, before):
    text = "x" * before + "😀 \\ud800 😀"
    assert passages(one_paragraph(tmp_path, text))[0]["text"] == text


def one_paragraph(folder, text: str) -> str:
    article = {"title": "T", "paragraphs": [{"context": text, "qas": []}]}
    return put(folder / "s.json", json.dumps({"version": "1.1", "data": [article]}))
