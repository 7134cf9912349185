"""The formats of others' files, with the quirks that their real files have."""

import gzip
import json
from pathlib import Path
from typing import get_args

import pytest

from multiview.config import DataFormat
from multiview.data.questions import Question
from multiview.data.reading.formats import FORMATS, detect
from multiview.data.reading.problems import Problems
from multiview.data.reading.readers import UNKNOWN_JUDGED, passage_tables, questions_of
from multiview.data.reading.sources import expand_sources, question_groups
from multiview.errors import InputError


def put(path: Path, content: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def passages(*files: str, **more) -> list[dict]:
    return [row for file in files for table in passage_tables(file, **more) for row in table.to_pylist()]


def questions(*files: str, **more) -> list[Question]:
    return [question for _, question in questions_of(files, **more)]


def test_the_setting_knows_the_formats():
    assert set(get_args(DataFormat)) == {"auto", *FORMATS}


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("a.json", '{"version": "1.1", "data": []}', "squad"),
        ("a.JSON", '{\n "data": []}', "squad"),
        ("a.json", ' \n[{"question": "?"', "dpr"),
        ("lines.json", '{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}\n', "jsonl"),
        ("a.jsonl", "", "jsonl"),
        ("a.ndjson", "", "jsonl"),
        ("a.pq", "", "parquet"),
        ("a.csv", "id,text\n1,x\n", "csv"),
        ("nq-test.csv", "who sings it\t['Linda Davis']\n", "qa"),
        ("trivia-test.qa.csv", 'Who was it?\t"[""A"", ""B \'C\'""]"\r\n', "qa"),
        ("psgs_w100.tsv", 'id\ttext\ttitle\n1\t"x"\tT\n', "tsv"),
        ("mine.tsv", "number\tcontent\n1\tx\n", "marco"),
        ("header.tsv", "ID\tText\n1\tx\n", "tsv"),
        ("long.json", '{"id": "a", "text": "' + "x" * 100_000 + '"}\n', "jsonl"),
        ("chapter.txt", "Chapter 0 of 5\n", "text"),
        ("collection.tsv", '0\tThe "Manhattan" project\n', "marco"),
        ("qrels.train.tsv", "1185869\t0\t0\t1\n", "qrels"),
        ("2019qrels-pass.txt", "19335 Q0 1017759 0\n", "qrels"),
        ("test.tsv", "query-id\tcorpus-id\tscore\n1\t31715818\t1\n", "qrels"),
        ("article.txt", "Once upon a time there was 1\n", "text"),
    ],
)
def test_the_format_is_told_by_name_and_first_line(tmp_path, name, content, form):
    for mark in ("", "\ufeff"):
        assert detect(put(tmp_path / name, mark + content), "auto", "corpus.format") == form
    packed = gzip.compress(content.encode())
    assert detect(put(tmp_path / f"{name}.gz", packed), "auto", "corpus.format") == form


def test_a_format_may_be_named_and_must_be_where_nothing_says_it(tmp_path):
    file = put(tmp_path / "corpus.dat", '{"id": "a", "text": "x"}\n')
    with pytest.raises(InputError, match=r"corpus\.dat.*corpus\.format to one of squad, dpr, .*text"):
        passages(file)
    assert passages(file, form="jsonl") == [{"id": "a", "title": "", "text": "x"}]
    mine = put(tmp_path / "mine.tsv", "number\tcontent\n1\tx\n")
    expected = [{"id": "1", "title": "", "text": "x"}]
    assert passages(mine, form="tsv", columns={"id": "number", "text": "content"}) == expected
    assert passages(mine, columns={"id": "number", "text": "content"}) == expected, (
        "the mapping tells a header"
    )


# --- DPR ---

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


def biencoder(tmp_path: Path) -> str:
    def context(id_, name="psg_id", **more):
        return {"title": f"T{id_}", "text": f"text {id_}", "score": 1000, name: id_, **more}

    rows = [
        {
            "dataset": "nq_train_psgs_w100",
            "question": "big little lies season 2 how many episodes",
            "answers": ["seven", "7"],
            "positive_ctxs": [context("18768923", "passage_id", title_score=1), context("7", "passage_id")],
            "negative_ctxs": [context("5", "passage_id")],
            "hard_negative_ctxs": [],
        },
        {"question": "none?", "answers": ["x"], "positive_ctxs": [], "negative_ctxs": [context(9)]},
        {"question": "number?", "answers": ["y"], "positive_ctxs": [context(7)]},
    ]
    return put(tmp_path / "biencoder-nq-train.json", "\ufeff" + json.dumps(rows, indent=4))


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
    with pytest.raises(InputError, match=r"x\.qa\.csv line 2: not DPR's question, tab and list"):
        questions(file)


# --- BEIR ---


def beir(folder: Path, *splits: str) -> Path:
    put(
        folder / "corpus.jsonl",
        '{"_id": "4983", "title": "", "text": "Alterations.", "metadata": {}}\n'
        '{"_id": "5836", "title": "Myelodysplasia", "text": "Abnormal.", "metadata": {"url": "u"}}\n',
    )
    put(
        folder / "queries.jsonl",
        "".join(
            json.dumps({"_id": str(i), "text": f"claim {i}", "metadata": {"5836": [{"sentences": [1]}]}})
            + "\n"
            for i in range(5)
        ),
    )
    for number, split in enumerate(splits):
        put(
            folder / "qrels" / f"{split}.tsv",
            f"query-id\tcorpus-id\tscore\r\n{number}\t4983\t1\r\n{number}\t5836\t2\r\n4\t4983\t0\r\n",
        )
    return folder


def test_a_beir_folder_is_its_passages_or_the_judged_questions_of_a_split(tmp_path):
    folder = str(beir(tmp_path / "scifact", "train", "test"))
    assert passages(*expand_sources([folder], "corpus")) == [
        {"id": "4983", "title": "", "text": "Alterations.", "metadata": "{}"},
        {"id": "5836", "title": "Myelodysplasia", "text": "Abnormal.", "metadata": '{"url": "u"}'},
    ]
    train, dev = (Question(qid, f"claim {qid}", (), None, ("5836", "4983"), (2, 1)) for qid in "01")
    assert questions(*expand_sources([folder], "train")) == [train], "the more relevant passage is first"
    assert questions(*expand_sources([folder], "dev")) == [dev]
    for name in (f"{folder}/qrels/train.tsv", f"{folder}/qrels/*n.tsv"):
        named = expand_sources([name, f"{folder}/queries.jsonl"], "dev")
        assert [q.qid for q in questions(*named)] == ["0"], "a file of judgements that is named is the one"
    assert [q.qid for q in questions(*expand_sources([f"{folder}/qrels/train.tsv"], "dev"))] == ["0"]


def test_a_beir_folder_without_the_judgements_of_a_use_says_which_there_are(tmp_path):
    folder = str(beir(tmp_path / "covid", "test"))
    with pytest.raises(InputError, match=r"no judgements of train \(only of test\).*questions\.source"):
        expand_sources([folder], "train")
    (tmp_path / "covid/qrels/test.tsv").unlink()
    with pytest.raises(InputError, match=r"no judgements of dev\.small or dev or test \(none\)"):
        expand_sources([folder], "dev")


# --- MS MARCO ---


def marco(folder: Path) -> Path:
    put(
        folder / "collection.tsv",
        '0\tThe presence of "communication\u2028amid" scientific minds\r\n1\t"Unbalanced\tquote and tab\n',
    )
    put(folder / "queries.train.tsv", '121352\tdefine extreme\n634306\twhat does "chattel" mean\n')
    put(folder / "queries.dev.small.tsv", "1048585\twhat is paula deen's brother\n2\tnot judged\n")
    put(folder / "qrels.train.tsv", "634306\t0\t1\t1\n634306\t0\t1\t1\n")
    put(folder / "qrels.dev.small.tsv", "1048585 0 0 1\n")
    put(folder / "qrels.dev.tsv", "2 0 0 1\n")
    return folder


def test_marcos_files_have_tabs_and_neither_header_nor_quoting(tmp_path):
    folder = str(marco(tmp_path / "msmarco"))
    expected = [
        {"id": "0", "title": "", "text": 'The presence of "communication\u2028amid" scientific minds'},
        {"id": "1", "title": "", "text": '"Unbalanced\tquote and tab'},
    ]
    assert passages(*expand_sources([folder], "corpus")) == expected
    assert passages(f"{folder}/collection.tsv") == expected
    train = [Question("634306", 'what does "chattel" mean', (), None, ("1",))]
    assert questions(*expand_sources([folder], "train")) == train
    assert questions(f"{folder}/queries.train.tsv", f"{folder}/qrels.train.tsv") == train
    dev = questions(*expand_sources([folder], "dev"))
    assert dev == [Question("1048585", "what is paula deen's brother", (), None, ("0",))]


def test_judgements_are_of_the_queries_beside_them_and_answers_count_without(tmp_path):
    """Of two sources together nothing is lost, and one's judgements are not the other's."""
    scifact = str(beir(tmp_path / "scifact", "train", "test"))
    rows = [{"_id": "1", "text": "another question 1"}, {"_id": "2", "text": "another question 2"}]
    put(tmp_path / "other" / "queries.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    put(tmp_path / "other" / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore\n2\tz\t1\n")
    put(tmp_path / "other" / "corpus.jsonl", '{"_id": "z", "text": "x"}\n')
    qa = put(tmp_path / "nq-test.qa.csv", "who?\t['a']\nwhy?\t['b']\n")
    sources = [scifact, str(tmp_path / "other"), qa]
    found = [q for group in question_groups(sources, "dev") for q in questions(*group)]
    assert [(q.question, q.positive_ids) for q in found] == [
        ("claim 1", ("5836", "4983")),
        ("another question 2", ("z",)),
        ("who?", ()),
        ("why?", ()),
    ]


def test_queries_without_judgements_are_no_questions(tmp_path):
    folder = str(marco(tmp_path / "msmarco"))
    with pytest.raises(
        InputError, match=r"queries\.train\.tsv row 1 .*neither an answer nor a gold passage.*qrels"
    ):
        questions(f"{folder}/queries.train.tsv")
    with pytest.raises(InputError, match=r"qrels\.train\.tsv: no passages in it, but judgements"):
        passages(f"{folder}/qrels.train.tsv")


def test_rows_that_are_not_marcos_or_no_judgements(tmp_path):
    with pytest.raises(InputError, match=r"collection\.tsv line 2: not MS MARCO's two columns"):
        passages(put(tmp_path / "collection.tsv", "0\tx\nno tab\n"))
    file = put(tmp_path / "q.tsv", "query-id\tcorpus-id\tscore\n1\t2\thigh\n")
    with pytest.raises(InputError, match=r"q\.tsv line 2: not a judgement"):
        questions(file)


def test_judgements_have_grades_and_those_not_above_zero_are_no_positives(tmp_path):
    queries = put(tmp_path / "queries.tsv", "q\twho?\nr\twhat?\ns\twhy?\n")
    qrels = put(
        tmp_path / "2019qrels-pass.txt",
        "q Q0 a 1\nq Q0 b 3\nq Q0 c 0\nq Q0 d -1\nq Q0 e 3\nr Q0 a 1\ns Q0 b 0\n",
    )
    assert questions(queries, qrels) == [
        Question("q", "who?", (), None, ("b", "e", "a"), (3, 3, 1)),
        Question("r", "what?", (), None, ("a",)),
    ], "the most relevant first; s has none"


def test_judged_questions_that_are_not_there_are_remarked_and_refused_where_none_is(tmp_path):
    queries = put(tmp_path / "queries.tsv", "q\twho?\n")
    qrels = put(tmp_path / "qrels.tsv", "q 0 a 1\ngone 0 a 1\naway 0 a 0\n")
    remarks = Problems()
    assert [q.qid for _, q in questions_of([queries, qrels], remark=remarks)] == ["q"]
    assert remarks.counts == {UNKNOWN_JUDGED: 2}
    assert "qrels.tsv: question gone is judged" in remarks.first[UNKNOWN_JUDGED]
    put(tmp_path / "qrels.tsv", "gone 0 a 1\naway 0 a 1\n")
    with pytest.raises(InputError, match=r"qrels\.tsv: none of the 2 judged questions \(first: gone\)"):
        questions(queries, qrels)


# --- tables with a header ---


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_a_table_with_a_header_a_mark_and_crlf(tmp_path, suffix, delimiter):
    def table(*rows: list[str]) -> bytes:
        return ("\ufeff" + "".join(delimiter.join(row) + "\r\n" for row in rows)).encode()

    file = put(
        tmp_path / f"p.{suffix}",
        table(["id", "text", "title", "year"], ["1", '"a, ""b""\r\nc\td"', "", "1900"], ["2", "x", "T", ""]),
    )
    assert passages(file) == [
        {"id": "1", "title": "", "text": 'a, "b"\r\nc\td', "year": "1900"},
        {"id": "2", "title": "T", "text": "x", "year": None},
    ]
    file = put(
        tmp_path / f"q.{suffix}",
        table(
            ["qid", "question", "answers", "answer_starts", "positive_ids", "relevance"],
            ["1", "Who?", '"[""a"", ""b""]"', '"[0, 4]"', "\"['1', '2']\"", '"[1, 3]"'],
            ["2", "What?", "[sic]", "7", "2", "2"],
            ["3", "Why?", "so", "", "3", ""],
        ),
    )
    assert questions(file) == [
        Question("1", "Who?", ("a", "b"), (0, 4), ("1", "2"), (1, 3)),
        Question("2", "What?", ("[sic]",), (7,), ("2",), (2,)),
        Question("3", "Why?", ("so",), None, ("3",)),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,text\n1,x,y\n", r"p\.csv line 2: 3 cells under 2 columns \(id, text\)"),
        ('id,text\n1,"x\n', r"p\.csv line 2: .*a cell that begins with a quote"),
        ("id,id\n1,x\n", r"p\.csv: the first line names a column twice"),
        ("pid,text\n1,x\n", r"p\.csv: no column 'id' among pid, text"),
    ],
)
def test_a_table_that_is_none(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        passages(put(tmp_path / "p.csv", content))


def test_a_cell_may_be_as_long_as_an_article(tmp_path):
    long = "word " * 100_000
    assert passages(put(tmp_path / "p.csv", f"id,text\n1,{long}\n"))[0]["text"] == long


def test_columns_of_the_user_s_own_may_be_mixed_and_nested(tmp_path):
    rows = [
        {"id": 1, "text": "x", "year": 1500, "refs": [{}]},
        {"id": "b", "text": "y", "year": "1500 BC", "refs": [{"a": 1}, {"b": 2}]},
    ]
    file = put(tmp_path / "p.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert passages(file) == [
        {"id": "1", "title": "", "text": "x", "year": "1500", "refs": "[{}]"},
        {"id": "b", "title": "", "text": "y", "year": "1500 BC", "refs": '[{"a": 1}, {"b": 2}]'},
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "p.jsonl",
            '{"id": "a", "text": "bad \\ud800 char"}\n',
            "p.jsonl rows 1-1: column 'text' holds half a char",
        ),
        ("p.jsonl", '{"id": "a", "text": ["x"]}\n{"id": "b", "text": "y"}\n', "column 'text' differ in type"),
        ("p.json", '[{"id": "a", "text": "x"}]', "not DPR's .*one a line, with the suffix .jsonl"),
    ],
)
def test_what_cannot_be_a_column_is_a_line(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        passages(put(tmp_path / name, content))


def test_numbers_as_other_tools_write_them(tmp_path):
    row = {"qid": 1, "question": "?", "answers": [3.14], "answer_starts": 30.0, "positive_ids": 7}
    assert questions(put(tmp_path / "q.jsonl", json.dumps(row))) == [
        Question("1", "?", ("3.14",), (30,), ("7",))
    ]
    folder = beir(tmp_path / "scifact", "train")
    put(folder / "qrels/train.tsv", "query-id\tcorpus-id\tscore\n0\t4983\t1.0\n")
    assert questions(*expand_sources([str(folder)], "train"))[0].positive_ids == ("4983",)


def test_null_positives_of_dpr_are_none(tmp_path):
    row = {"question": "?", "answers": ["a"], "positive_ctxs": None, "negative_ctxs": None}
    file = put(tmp_path / "biencoder.json", json.dumps([row]))
    assert questions(file)[0].positive_ids == () and passages(file) == []
