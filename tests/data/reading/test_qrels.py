"""BEIR's folders and MS MARCO's files: queries, and judgements beside them."""

import json

import pytest

from multiview.data.questions import LARGEST_GRADE, Question
from multiview.data.reading.files import COMPRESSIONS
from multiview.data.reading.qrels import REGRADED
from multiview.data.reading.readers import IRRELEVANT_ALONE, UNKNOWN_JUDGED, questions_of
from multiview.data.reading.sources import expand_sources, question_groups
from multiview.errors import InputError, Report
from tests.fixtures.format_files import beir, jsonl, marco, passages, put, questions


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
    for suffix in COMPRESSIONS:
        for name in ("queries.jsonl", "corpus.jsonl"):
            (tmp_path / "scifact" / name).rename(packed := tmp_path / "scifact" / f"{name}{suffix}")
            assert str(packed) in expand_sources(
                [f"{folder}/qrels/train.tsv"], "dev" if name[0] == "q" else "corpus"
            )
            packed.rename(tmp_path / "scifact" / name)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_judgements_that_are_named_find_compressed_neighbours(tmp_path, suffix):
    folder = beir(tmp_path / "scifact", "train", "test")
    for name in ("corpus.jsonl", "queries.jsonl"):
        (folder / name).rename(folder / f"{name}{suffix}")  # how a file is compressed is told by its bytes
    named = [f"{folder}/qrels/test.tsv"]
    assert expand_sources(named, "corpus") == [f"{folder}/corpus.jsonl{suffix}"]
    assert [q.qid for q in questions(*expand_sources(named, "dev"))] == ["1"]


def test_a_beir_folder_without_the_judgements_of_a_use_says_which_there_are(tmp_path):
    folder = str(beir(tmp_path / "covid", "test"))
    with pytest.raises(InputError, match=r"no judgements of train \(only of test\).*questions\.source"):
        expand_sources([folder], "train")
    (tmp_path / "covid/qrels/test.tsv").unlink()
    with pytest.raises(
        InputError, match=r"no judgements of dev\.small or dev or validation or test \(none\)"
    ):
        expand_sources([folder], "dev")


# --- MS MARCO ---


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
    """Two sources together keep all their questions, each with its own judgements."""
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


def test_a_pattern_of_judgements_alone_is_no_collection(tmp_path):
    queries = put(tmp_path / "queries.tsv", "q\twho?\nr\twhat?\n")
    for qid in "qr":
        put(tmp_path / f"qrels.{qid}.tsv", f"{qid} 0 a 1\n")
    (group,) = question_groups([queries, str(tmp_path / "qrels.*.tsv")], "train")
    assert [q.qid for q in questions(*group)] == ["q", "r"]


def test_queries_without_judgements_are_no_questions(tmp_path):
    folder = str(marco(tmp_path / "msmarco"))
    with pytest.raises(
        InputError, match=r"queries\.train\.tsv row 1 .*neither an answer nor a gold passage.*qrels"
    ):
        questions(f"{folder}/queries.train.tsv")
    with pytest.raises(InputError, match=r"qrels\.train\.tsv: no passages in it, but judgements"):
        passages(f"{folder}/qrels.train.tsv")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("q\0\t0\tp\t1", r"id 'q\\x00' holds a NUL character"),
        ("q\t0\tp\0\t1", r"id 'p\\x00' holds a NUL character"),
        # An empty id was the placeholder of a passage that is no piece of an article: all of them were gold.
        ("q\t0\t\t1", "not a judgement"),
        ("\t0\tp\t1", "not a judgement"),
        (f"q\t0\tp\t{LARGEST_GRADE + 1}", r"grades go up to 10,000, not 10,001; rescale them"),
        ("q\t0\tp\thigh", "not a judgement"),
    ],
)
def test_what_is_no_judgement_names_its_line(tmp_path, line, said):
    queries = put(tmp_path / "queries.tsv", "q\twho?\n")
    qrels = put(tmp_path / "qrels.tsv", f"q\t0\ta\t{LARGEST_GRADE}\n{line}\n")
    with pytest.raises(InputError, match=rf"qrels\.tsv line 2: {said}"):
        questions(queries, qrels)


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


@pytest.mark.parametrize("header", ["Query ID,Doc ID,Relevance", "query-id,corpus-id,score"])
def test_a_header_of_judgements_may_have_blanks_in_its_names(tmp_path, header):
    queries = put(tmp_path / "queries.tsv", "q\twho?\n")
    (question,) = questions(queries, put(tmp_path / "qrels.csv", f"{header}\nq,a,2\n"))
    assert question.positive_ids == ("a",)


def test_a_table_with_a_text_is_none_of_judgements(tmp_path):
    """Though it has columns that may be a document, a question's topic and a grade."""
    corpus = put(tmp_path / "corpus.csv", "docid,topic,label,text\n1,2,3,Orlen has a tower.\n")
    assert [row["text"] for row in passages(corpus)] == ["Orlen has a tower."]
    queries = put(tmp_path / "queries.tsv", "q\twho?\n")
    (question,) = questions(queries, put(tmp_path / "qrels.tsv", "qid\tdocid\trel\tpassage\nq\ta\t1\tIt.\n"))
    assert question.positive_ids == ("a",), "its name says that it holds judgements"


def test_queries_and_their_judgements_may_both_be_named(tmp_path):
    folder = str(beir(tmp_path / "scifact", "train", "test"))
    named = [f"{folder}/queries.jsonl", f"{folder}/qrels/test.tsv"]
    for sources in (named, named[::-1]):
        (group,) = question_groups(sources, "dev")
        assert [question.qid for question in questions(*group)] == ["1"]


def test_of_a_pair_judged_twice_the_last_grade_counts_and_others_are_counted(tmp_path):
    queries = put(tmp_path / "queries.tsv", "q\twho?\n")
    qrels = put(tmp_path / "qrels.tsv", "q 0 a 1\nq 0 b 2\nq 0 c 2\nq 0 a 1\nq 0 b 1\nq 0 c 0\nq 0 a 3\n")
    report = Report()
    ((_, question),) = questions_of([queries, qrels], report=report)
    assert question.grades == {"a": 3, "b": 1}, "a grade of 0 counts, too"
    assert report.remarks.counts == {REGRADED: 3}, "equal grades are no remark"
    assert (
        report.remarks.first[REGRADED]
        == f"{qrels} line 5: question q and passage b have grade 1, and 2 before"
    )


def test_questions_that_are_judged_without_a_relevant_passage_are_counted(tmp_path):
    queries = put(tmp_path / "queries.tsv", "q\twho?\nr\twhat?\ns\twhy?\n")
    qrels = put(tmp_path / "qrels.tsv", "q 0 a 1\nr 0 a 0\nr 0 b -1\n")
    report = Report()
    assert [q.qid for _, q in questions_of([queries, qrels], report=report)] == ["q"]
    assert report.remarks.counts == {IRRELEVANT_ALONE: 1}, "nobody judged the last one"


def test_judged_questions_that_are_not_there_are_remarked_and_refused_where_none_is(tmp_path):
    queries = put(tmp_path / "queries.tsv", "q\twho?\n")
    qrels = put(tmp_path / "qrels.tsv", "q 0 a 1\ngone 0 a 1\naway 0 a 0\n")
    report = Report()
    assert [q.qid for _, q in questions_of([queries, qrels], report=report)] == ["q"]
    assert report.remarks.counts == {UNKNOWN_JUDGED: 2}
    assert "qrels.tsv: no file of questions has 'gone'" in report.remarks.first[UNKNOWN_JUDGED]
    put(tmp_path / "qrels.tsv", "gone 0 a 1\naway 0 a 1\n")
    with pytest.raises(InputError, match=r"qrels\.tsv: none of 2 judged questions \(first: 'gone'\)"):
        questions(queries, qrels)


def test_judgements_beside_positives_count_where_there_are_none_and_must_not_differ(tmp_path):
    qrels = put(tmp_path / "qrels.dev.tsv", "q\t0\ta\t2\nq\t0\tb\t1\nr\t0\ta\t0\n")
    triples = put(tmp_path / "qidpidtriples.tsv", "q\tc\td\ns\tc\td\n")
    row = {"qid": "q", "question": "who?"}
    (found,) = questions(jsonl(tmp_path / "alone.jsonl", row), qrels)
    same = {"positive_ids": ["b", "a"], "relevance": [1, 2]}
    for given in ({"positive_ids": None}, {"positive_ids": []}, {"positive_ids": float("nan")}, same):
        (read,) = questions(jsonl(tmp_path / "q.jsonl", row | given), qrels)
        assert read.grades == found.grades == {"a": 2, "b": 1}
    for qid, given in (("q", ["a", "b"]), ("q", ["c"]), ("r", ["a"])):
        line = rf"q\.jsonl row 1 \(question {qid}\): .* qrels\.dev\.tsv"
        file = jsonl(tmp_path / "q.jsonl", row | {"qid": qid, "positive_ids": given})
        with pytest.raises(InputError, match=line):
            questions(file, qrels)
    own = [row | {"positive_ids": ["e"]}, row | {"qid": "s", "positive_ids": ["e"]}]
    read = questions(jsonl(tmp_path / "q.jsonl", *own), triples)
    assert [(q.positive_ids, q.negative_ids) for q in read] == [(("e",), ("d",))] * 2, (
        "triples are no judgements"
    )
