"""What the split step refuses: one line that names the file, row or setting, and nothing written."""

import json
from pathlib import Path

import pytest

from multiview.config import Corpus, Questions
from multiview.errors import InputError
from tests.fixtures.split_run import Done, passage_rows, question_rows, settings, write


def fails(tmp_path: Path, message: str, corpus: Corpus, questions: Questions) -> None:
    with pytest.raises(InputError, match=message) as error:
        Done(tmp_path / "failed", corpus, questions)
    assert "\n" not in str(error.value)
    assert not [file for file in (tmp_path / "failed").rglob("*") if file.is_file()], "nothing is written"


def test_articles_that_are_cut_are_counted_by_their_pieces(tmp_path, files):
    """Of the second article of one id: the first has four pieces of two words."""
    articles = [{"id": "a", "text": "one two three four five six seven eight"}, {"id": "a", "text": "nine"}]
    source = write(tmp_path / "articles.jsonl", articles)
    fails(
        tmp_path,
        r"articles\.jsonl piece 5: passage id 'a-0' was used before, in articles\.jsonl piece 1",
        Corpus(source=(source,), cut="words", cut_length=2),
        settings(files)[1],
    )


def dpr(path: Path, *texts: str) -> str:
    """Entries of DPR's training file that each name passage 1, with these texts."""
    contexts = ({"passage_id": "1", "title": "T", "text": text} for text in texts)
    rows = [{"question": "Who?", "answers": ["king"], "positive_ctxs": [context]} for context in contexts]
    return write_json(path, rows)


def tevatron(path: Path, *texts: str) -> str:
    return write(
        path,
        [
            {"query_id": str(number), "query": "Who?", "positive_passages": [{"docid": "1", "text": text}]}
            for number, text in enumerate(texts)
        ],
    )


def write_json(path: Path, value: object) -> str:
    path.write_text(json.dumps(value))
    return str(path)


@pytest.mark.parametrize(("form", "suffix"), [(dpr, "json"), (tevatron, "jsonl")])
def test_passages_of_one_id_have_one_text(tmp_path, form, suffix):
    """The second question would have the first one's passage as gold, which it never named."""
    file, dev = (
        form(tmp_path / f"t.{suffix}", "The king.", "The king.", "Long live the king."),
        form(tmp_path / f"dev.{suffix}", "The king."),
    )
    message = (
        rf"t\.{suffix} row 3, counting its passages: passage id '1' has another text than in t\.{suffix} row 1, "
        r"here 'Long live the king\.'; give each text an id of its own"
    )
    fails(tmp_path, message, Corpus(shards=1), Questions(source=(file,), dev_source=(dev,)))
    form(Path(file), "The king.", "The king.")
    done = Done(tmp_path / "equal", Corpus(shards=1), Questions(source=(file,), dev_source=(dev,)))
    assert done.ids == ["1"], "equal copies are one passage"


def test_a_text_of_white_space_and_a_null_one_name_the_row(tmp_path, files):
    questions = settings(files)[1]
    for row, message in (
        ({"id": "z", "text": " \n"}, "row 2: passage 'z' has no text"),
        ({"id": "n", "text": None}, r"row 2: passage 'n' has no text.*corpus\.empty_text"),
    ):
        bad = write(tmp_path / "bad.jsonl", [passage_rows(1)[0], row])
        fails(tmp_path / row["id"], message, Corpus(source=(bad,)), questions)


def test_an_empty_file_of_questions(tmp_path, files):
    empty = Questions(source=(write(tmp_path / "empty.jsonl", []),))
    fails(tmp_path, r"empty\.jsonl: no questions", Corpus(source=(files.corpus,)), empty)


@pytest.mark.parametrize("shift", [-1, 1000])
def test_answers_that_their_passages_do_not_hold_say_what_stands_there(tmp_path, files, shift):
    rows = question_rows("t", 3, 3)
    rows[2]["answer_starts"][0] += shift
    rows[2]["answers"] = ["word3"]
    files.train = write(tmp_path / "t.jsonl", rows)
    message = (
        r"questions\.source: the gold passages of 1 of 3 questions are not in the corpus or do not hold the answer "
        r"\(first: question t2: answer 'word3' should stand at .* of passage p2, where '.*' is; .* holds none of the question's answers\); "
        r"mend the answers, or allow more with questions\.max_missing_gold"
    )
    fails(tmp_path, message, *settings(files))


def test_no_source_of_passages_or_questions(tmp_path, files):
    fails(tmp_path, r"corpus\.source: name the passages; train\.jsonl", Corpus(), settings(files)[1])
    fails(tmp_path / "q", r"questions\.source", settings(files)[0], Questions())
    made, corpus = Questions(origin="crop"), settings(files)[0]
    fails(tmp_path / "made", r"corpus\.source: .* none is named", Corpus(), made)
    gold = corpus.model_copy(update={"keep": "gold"})
    fails(tmp_path / "gold", r"corpus\.keep=gold: .* corpus\.keep=all", gold, made)


def test_a_mapping_to_a_column_that_no_file_has(tmp_path, files):
    """All grades would be 1. Columns that one of the files has are those of an optional column."""
    rows = [row | {"grades": 3} for row in question_rows("t", 40, 20)]
    files.train = write(tmp_path / "t.jsonl", rows)
    mapped = {"relevance": "grade", "answers": "answers"}
    message = r"questions\.columns=\{relevance: grade\}: no file of questions has .*; did you mean grades\?"
    corpus, asked = settings(files)
    fails(tmp_path, message, corpus, asked.model_copy(update={"columns": mapped}))
    mapped["relevance"] = "grades"
    done = Done(tmp_path / "out", corpus, asked.model_copy(update={"columns": mapped}))
    assert {q.relevance for q in done.train} == {(3,)} and {q.relevance for q in done.dev} == {None}
    dev = [{"qid": "d", "question": "?", "positive_ids": "p1"}, {**rows[0], "qid": "e", "marks": 2}]
    files.dev = write(tmp_path / "d.jsonl", dev)
    asked = settings(files)[1].model_copy(update={"columns": {"relevance": "marks"}})
    done = Done(tmp_path / "later", corpus, asked)
    assert [q.relevance for q in done.dev] == [None, (2,)], "a column of a later row is one of the file's"


def test_a_mapping_is_not_for_files_that_name_no_columns(tmp_path):
    file = dpr(tmp_path / "t.json", "The king.")
    asked = Questions(source=(file,), dev_source=(dpr(tmp_path / "d.json", "The king."),))
    asked = asked.model_copy(update={"columns": {"relevance": "grade"}})
    assert len(Done(tmp_path / "out", Corpus(shards=1), asked).train) == 1


def test_files_of_one_name_are_told_apart(tmp_path, files):
    same = [
        write(folder / "p.jsonl", [{"id": "a", "text": "x"}]) for folder in (tmp_path / "1", tmp_path / "2")
    ]
    message = rf"{same[1]} row 1: passage id 'a' was used before, in {same[0]} row 1"
    fails(tmp_path / "no", message, Corpus(source=tuple(same)), settings(files)[1])
