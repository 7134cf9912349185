"""DPR's own files: passages, training questions, test questions."""

import gzip
import json

import pytest

from multiview.config import Questions
from multiview.data.questions import Question
from multiview.data.reading.readers import read_all_questions
from multiview.data.reading.training_files import CONTEXTS, training_entries
from multiview.errors import InputError, Report
from tests.fixtures.format_files import biencoder, passages, put, questions

PSGS = (
    "id\ttext\ttitle\r\n"
    '1\t"Aaron Aaron ( or ; """"Ahärôn"""") is a prophet\tand a brother."\tAaron\r\n'
    "2\tplain, without quotes\t\r\n"
)


def test_dprs_passages_have_a_header_and_quoted_texts(tmp_path):
    file = put(tmp_path / "psgs_w100.tsv.gz", gzip.compress(PSGS.encode()))
    assert passages(file) == [
        {"id": "1", "title": "Aaron", "text": 'Aaron Aaron ( or ; ""Ahärôn"") is a prophet\tand a brother.'},
        {"id": "2", "title": "", "text": "plain, without quotes"},
    ]


def test_dprs_training_questions_name_their_passages(tmp_path):
    assert questions(biencoder(tmp_path)) == [
        Question(
            "biencoder-nq-train-1",
            "big little lies season 2 how many episodes",
            ("seven", "7"),
            None,
            ("18768923", "7"),
        ),
        Question("biencoder-nq-train-2", "none?", ("x",), None, ()),
        Question("biencoder-nq-train-3", "number?", ("y",), None, ("7",)),
    ]


def test_dprs_hard_negatives_are_read_and_its_other_negatives_are_not(tmp_path):
    contexts = {kind: [{"psg_id": f"{kind[0]}{i}"} for i in range(2)] for kind in CONTEXTS}
    rows = [{"question": "?", "answers": ["a"], **contexts}]
    (question,) = questions(put(tmp_path / "train.json", json.dumps(rows)))
    assert (question.positive_ids, question.negative_ids) == (("p0", "p1"), ("h0", "h1"))


def test_dprs_training_files_bring_the_passages_that_they_name(tmp_path):
    assert [row["id"] for row in passages(biencoder(tmp_path))] == ["18768923", "7", "5", "9", "7"]
    assert passages(biencoder(tmp_path))[0] == {
        "id": "18768923",
        "title": "T18768923",
        "text": "text 18768923",
    }


def test_dprs_test_questions_have_answers_and_no_passages(tmp_path):
    file = put(
        tmp_path / "nq-test.qa.csv",
        "who got the first nobel prize in physics\t['Wilhelm Conrad Röntgen', \"Röntgen's\"]\r\n"
        '"who said ""hi"" first?"\t"[""A"", ""B \'C\'""]"\r\n',
    )
    assert questions(file) == [
        Question(
            "nq-test-1",
            "who got the first nobel prize in physics",
            ("Wilhelm Conrad Röntgen", "Röntgen's"),
            None,
            (),
        ),
        Question("nq-test-2", 'who said "hi" first?', ("A", "B 'C'"), None, ()),
    ]
    with pytest.raises(InputError, match=r"nq-test\.qa\.csv: no passages in it, but DPR's questions"):
        passages(file)


def test_a_list_of_answers_is_read_and_never_run(tmp_path):
    file = put(tmp_path / "x.qa.csv", "who?\t['a']\nwho?\t__import__('os').getcwd()\n")
    with pytest.raises(InputError, match=r"x\.qa\.csv line 2: answers .* looks like a list"):
        questions(file)


@pytest.mark.parametrize(
    "pair", [("1/nq.json", "2/NQ.json.gz"), ("nq.qa.csv", "nq.csv"), ("nq.json", "nq.qa.csv")]
)
def test_files_of_one_name_have_no_ids_that_tell_their_questions_apart(tmp_path, pair):
    rows = {True: json.dumps([{"question": "?", "answers": ["a"]}]).encode(), False: b"who?\t['a']\n"}
    contents = [rows[".json" in name] for name in pair]
    files = [
        put(tmp_path / name, gzip.compress(content) if name.endswith(".gz") else content)
        for name, content in zip(pair, contents, strict=True)
    ]
    assert {questions(file)[0].qid for file in files} == {"nq-1"}
    with pytest.raises(InputError, match=r"question id 'nq-1' was used before, in .* its name: rename it"):
        read_all_questions(Questions(source=tuple(files)), Report())
    other = put(tmp_path / "other.json", rows[True])
    assert len(read_all_questions(Questions(source=(files[0], other)), Report())[0]) == 2


def test_null_positives_of_dpr_are_none(tmp_path):
    row = {"question": "?", "answers": ["a"], "positive_ctxs": None, "negative_ctxs": None}
    file = put(tmp_path / "biencoder.json", json.dumps([row]))
    assert questions(file)[0].positive_ids == () and passages(file) == []


@pytest.mark.parametrize("kind", CONTEXTS)
def test_contexts_that_are_no_list_are_named(tmp_path, kind):
    for contexts in (0.5, True, {"text": "no list"}, "no list", {}, "", 0, False):
        row = {"question": "?", "answers": ["a"], kind: contexts}
        file = put(tmp_path / "train.json", json.dumps([row]))
        with pytest.raises(InputError, match=rf"train\.json row 1: {kind} is no list of passages"):
            passages(file)


def test_half_a_character_in_a_list_of_answers_is_refused(tmp_path):
    """Python's syntax can write one, as JSON's can; no later step could encode it."""
    file = put(tmp_path / "x.qa.csv", "who?\t['a']\nwho?\t['\\ud83d', 'b']\n")
    with pytest.raises(InputError, match=r"x\.qa\.csv row 2 \(question x-2\): answers hold half a character"):
        questions(file)


@pytest.mark.parametrize(
    "negatives",
    [
        {"negative": "b"},
        {"negatives": ["b", "c"]},
        {"negative_1": "b", "negative_2": "c"},
        {"negative1": "b", "negative2": "", "negative3": None, "negative4": "c"},
        {"neg": ["b", "c"]},
        {"hard_negatives": ["b", "c"], "negative": "d"},
    ],
)
def test_all_negatives_of_a_training_question_are_read(tmp_path, negatives):
    file = tmp_path / "train.jsonl"
    file.write_text(json.dumps({"anchor": "Who?", "positive": "a", **negatives}))
    ((passages, questions),) = training_entries(str(file))
    texts = {row["id"]: row["text"] for row in passages}
    given = [
        text for each in negatives.values() for text in ([each] if isinstance(each, str) else each or [])
    ]
    (question,) = questions
    assert [texts[id_] for id_ in question["negative_ids"]] == [text for text in given if text]
    assert [texts[id_] for id_ in question["positive_ids"]] == ["a"]
