"""SQuAD's JSON, read as a stream."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from multiview.data.questions import Question
from multiview.data.reading.json_rows import BUFFER
from multiview.errors import InputError
from tests.fixtures.format_files import CONTEXT, SQUAD, passages, put, questions

SQUAD_ID = "sq-" + hashlib.sha1(CONTEXT.encode()).hexdigest()[:14]
ARTICLE = {"title": "A_b", "paragraphs": [{"context": "One text.", "qas": []}]}


@pytest.mark.parametrize(
    "content",
    [
        {"version": "1.1", "data": {"title": "x"}},
        {"version": "1.1", "data": None},
        {"version": "1.1", "data": []},
        {"version": "1.1", "data": [ARTICLE, {"title": "no paragraphs"}]},
        {"version": "1.1", "data": [ARTICLE, "no object"]},
        {"version": "1.1", "data": [{**ARTICLE, "title": True}]},
    ],
)
def test_another_form_is_refused_by_its_file(tmp_path, content):
    file = put(tmp_path / "s.json", json.dumps(content))
    for read in (passages, questions):
        with pytest.raises(InputError, match=r"s\.json: not SQuAD's JSON \(data, paragraphs, context, qas\)"):
            read(file)


@pytest.mark.parametrize("before", [0, BUFFER, BUFFER - 8])
@pytest.mark.parametrize("half", ["a \ud800 b", "\udc00", "\\\ud83d", "\ud83d\ud83d\ude00", "😀\ude00"])
def test_half_a_character_is_refused(tmp_path, half, before):
    with pytest.raises(InputError, match=r"s\.json: holds half a character"):
        passages(one_paragraph(tmp_path, "x" * before + half))


def test_a_character_of_two_escapes_is_read_wherever_a_block_ends(tmp_path):
    for before in range(BUFFER - 90, BUFFER - 40):
        text = "x" * before + "😀 \\ud800 😀"
        assert passages(one_paragraph(tmp_path, text))[0]["text"] == text


def one_paragraph(folder, text: str) -> str:
    article = {"title": "T", "paragraphs": [{"context": text, "qas": []}]}
    return put(folder / "s.json", json.dumps({"version": "1.1", "data": [article]}))


def test_squad(tmp_path):
    file = put(tmp_path / "train.json", json.dumps(SQUAD))
    assert passages(file) == [{"id": SQUAD_ID, "title": "Some Words", "text": CONTEXT}]
    assert questions(file) == [Question("q1", "What is a word?", ("Élan", "Zürich"), (0, 22), (SQUAD_ID,))]


def test_squads_unanswerable_questions_are_refused(tmp_path):
    squad = json.loads(json.dumps(SQUAD))
    squad["data"][0]["paragraphs"][0]["qas"][0]["answers"] = []
    (tmp_path / "v2.json").write_text(json.dumps(squad))
    with pytest.raises(InputError, match=r"v2\.json row 1 \(question q1\).*SQuAD 2\.0"):
        questions(str(tmp_path / "v2.json"))


@pytest.mark.parametrize(("title", "read"), [(None, ""), ("A_b", "A b")])
def test_the_title_of_a_squad_article_may_be_missing(tmp_path, title, read):
    (tmp_path / "s.json").write_text(json.dumps({"data": [{**SQUAD["data"][0], "title": title}]}))
    assert passages(str(tmp_path / "s.json"))[0]["title"] == read


def test_its_json_and_parquet_forms_are_one_and_the_same():
    """SQuAD itself, where that is at hand."""
    folder = Path(os.environ.get("MULTIVIEW_DATA") or Path(__file__).parents[4] / "shared" / "data") / "squad"
    if not folder.is_dir():
        pytest.skip("no SQuAD here: MULTIVIEW_DATA names no folder with squad/ in it")
    squad = str(folder / "rebuilt/dev-v1.1.rebuilt.json.gz")
    asked = questions(squad)
    columns = {"positive_ids": "positive_passage_id"}
    assert len(asked) == 10_570 and asked == questions(str(folder / "dev.parquet"), columns=columns)
    kept = ("id", "title", "text")
    found, others = (
        {tuple(row[name] for name in kept) for row in passages(file)}
        for file in (squad, str(folder / "passages.parquet"))
    )
    assert len(found) == 2067 and found < others
