"""Passages that are kept while a file's questions are read."""

import json

import pytest

from multiview.config import Corpus, Questions
from multiview.data.reading import json_items
from multiview.data.reading.formats import FORMATS
from multiview.data.reading.kept import KeptPassages
from multiview.errors import InputError
from tests.fixtures.format_files import put
from tests.fixtures.split_run import Done


def paragraph(number: int) -> dict:
    text = f"Text {number}. More of it."
    answers = [{"text": "Text", "answer_start": 0}]
    return {"context": text, "qas": [{"id": f"q{number}", "question": "Which?", "answers": answers}]}


def squad_file(folder, count: int = 2500) -> str:
    articles = [
        {"title": f"T_{first}", "paragraphs": [paragraph(n) for n in range(first, min(first + 700, count))]}
        for first in range(0, count, 700)
    ]
    return put(folder / "train.json", json.dumps({"version": "1.1", "data": articles}))


def dpr_file(folder) -> str:
    def context(id_, text):
        return {"passage_id": id_, "title": None if id_ == "2" else "T", "text": text}

    entries = [
        {"question": "a?", "answers": ["x"], "positive_ctxs": [context("1", "x y")], "negative_ctxs": []},
        {
            "question": "b?",
            "answers": ["y"],
            "positive_ctxs": [context("2", "y")],
            "hard_negative_ctxs": None,
        },
    ]
    return put(folder / "biencoder.json", json.dumps(entries))


@pytest.mark.parametrize(("form", "write"), [("squad", squad_file), ("dpr", dpr_file)])
def test_kept_tables_are_those_of_the_formats_reader(tmp_path, form, write):
    file, kept = write(tmp_path), KeptPassages(tmp_path)
    format_ = FORMATS[form]
    assert format_.joint and format_.passages and format_.questions
    assert list(kept.questions(file, format_.joint)) == list(format_.questions(file))
    expected = list(format_.passages(file))
    for _ in range(2):  # they are read twice
        tables = list(kept.tables(file, form))
        assert [table.schema for table in tables] == [table.schema for table in expected]
        assert tables == expected


@pytest.mark.parametrize("write", [squad_file, dpr_file])
def test_split_parses_a_file_once(tmp_path, monkeypatch, write):
    opened = []

    def counted(file):
        opened.append(file)
        return open_stream(file)

    open_stream = json_items.open_stream
    monkeypatch.setattr(json_items, "open_stream", counted)
    file = write(tmp_path)
    done = Done(tmp_path / "out", Corpus(shards=2), Questions(source=(file,), dev_share=0.5))
    assert opened == [file] and len(done.passages) == len(done.train) + len(done.dev)


def test_a_file_with_faulty_passages_is_not_kept_and_its_reader_names_the_fault(tmp_path):
    entries = json.loads((tmp_path / dpr_file(tmp_path)).read_text())
    entries[1]["negative_ctxs"] = [{"text": "no id"}]
    file = put(tmp_path / "faulty.json", json.dumps(entries))
    kept, joint = KeptPassages(tmp_path), FORMATS["dpr"].joint
    assert joint and len(list(kept.questions(file, joint))) == 2
    with pytest.raises(InputError, match=r"faulty\.json row 2: a passage without passage_id"):
        list(kept.tables(file, "dpr"))


def test_a_file_that_was_not_read_to_its_end_is_not_kept(tmp_path):
    file, kept, joint = squad_file(tmp_path), KeptPassages(tmp_path), FORMATS["squad"].joint
    assert joint
    next(kept.questions(file, joint))
    assert sum(table.num_rows for table in kept.tables(file, "squad")) == 2500
