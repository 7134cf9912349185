"""MS MARCO's triples of ids, beside its queries and judgements."""

import gzip

import pytest

from multiview.config import Config
from multiview.data.inspection import sort_by_use
from multiview.data.reading.qrels import MORE_NEGATIVES, MOST_NEGATIVES
from multiview.data.reading.readers import UNKNOWN_JUDGED, questions_of
from multiview.errors import InputError, Report
from tests.fixtures.format_files import marco, passages, put, questions


def test_they_give_negatives_and_positives_where_no_judgement_does(tmp_path):
    folder = marco(tmp_path / "msmarco")
    lines = b"634306\t0\t1\n634306\t1\t7\n121352\t5\t6\n121352\t5\t8\n121352\t4\t6\n9\t1\t2\n"
    file = put(tmp_path / "qidpidtriples.train.full.2.tsv.gz", gzip.compress(lines))
    report = Report()
    queries = [str(folder / "queries.train.tsv"), file]
    found = [q for _, q in questions_of(queries, report=report)]
    assert [(q.qid, q.positive_ids, q.negative_ids) for q in found] == [
        ("121352", ("5", "4"), ("6", "8")),
        ("634306", ("0", "1"), ("1", "7")),
    ]
    assert report.remarks.counts == {UNKNOWN_JUDGED: 1}
    judged = questions(*queries, str(folder / "qrels.train.tsv"))
    assert [(q.qid, q.positive_ids) for q in judged] == [("121352", ("5", "4")), ("634306", ("1",))]
    none = put(tmp_path / "qrels.tsv", "121352\t0\t77\t0\n")
    judged = questions(*queries, none)
    assert [(q.qid, q.positive_ids) for q in judged] == [("121352", ("5", "4")), ("634306", ("0", "1"))]


def test_the_first_negatives_are_kept_and_the_others_counted(tmp_path):
    queries = put(tmp_path / "queries.tsv", "1\twho?\n2\twhat?\n")
    lines = [f"1\t0\t{number}\n" for number in (*range(MOST_NEGATIVES), *range(MOST_NEGATIVES + 5))]
    file = put(tmp_path / "qidpidtriples.tsv", "".join([*lines, "2\t0\t1\n"]))
    report = Report()
    first, second = (q for _, q in questions_of([queries, file], report=report))
    assert first.negative_ids == tuple(map(str, range(MOST_NEGATIVES))) and second.negative_ids == ("1",)
    assert report.remarks.counts == {MORE_NEGATIVES: 5}
    assert report.remarks.first == {MORE_NEGATIVES: f"{file} line {2 * MOST_NEGATIVES + 1}: question 1"}


def test_an_id_with_a_nul_character_is_refused_and_they_bring_no_passages(tmp_path):
    queries = put(tmp_path / "queries.tsv", "1\twho?\n")
    nul = put(tmp_path / "qidpidtriples.tsv", "1\t0\t2\n1\t0\t2\0\n")
    with pytest.raises(InputError, match=r"triples\.tsv line 2: id '2\\x00' holds a NUL character"):
        questions(queries, nul)
    with pytest.raises(InputError, match=r"qidpidtriples\.tsv: no passages in it, but triples of ids"):
        passages(nul)


def test_an_inspection_takes_them_for_training(tmp_path):
    file = put(tmp_path / "qidpidtriples.train.tsv", "1\t0\t2\n")
    assert sort_by_use([file], Config())["train"] == [file]
