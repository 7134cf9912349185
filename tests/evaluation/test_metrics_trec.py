"""Files of runs and judgments: TREC's own form, also for ids with white space."""

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.evaluation.metrics import quoted, write_qrels, write_trec_run
from tests.fixtures.by_trec import by_trec, read_qrels, read_trec_run

WORDS = st.text(st.sampled_from("aé% \t\n\u2028\u3000~/"), max_size=5)


@settings(max_examples=100, deadline=None)
@given(WORDS)
def test_quoted_ids_are_one_word_and_come_back(tmp_path_factory, name):
    word = quoted(name)
    assert (word.split() or [""]) == [word] and not any(c.isspace() for c in word)
    path = tmp_path_factory.mktemp("run") / "run.trec"
    if name:
        write_trec_run(path, {name: [(name, 1.5)]})
        assert read_trec_run(path) == {name: [(name, 1.5)]}


def test_an_id_without_white_space_is_written_as_it_is():
    assert [quoted(name) for name in ("sq-12", "a/b:c", "Zürich")] == ["sq-12", "a/b:c", "Zürich"]
    assert [quoted(name) for name in ("a b", "50%")] == ["a%20b", "50%25"]


def test_files_are_trec_s_own_and_come_back(tmp_path):
    run = {"q1": [("b", 2.5), ("a", 0.1)], "q 2": [("c", -1.0)]}
    write_trec_run(tmp_path / "run.trec", run, tag="camvr")
    gold = {"q1": {"a": 2}, "q 2": {"c": 1, "d": 3}}
    write_qrels(tmp_path / "qrels.trec", gold)
    assert (tmp_path / "qrels.trec").read_text() == "q1 0 a 2\nq%202 0 c 1\nq%202 0 d 3\n"
    assert (tmp_path / "run.trec").read_text().splitlines() == [
        "q1 Q0 b 1 2.5 camvr",
        "q1 Q0 a 2 0.100000001 camvr",
        "q%202 Q0 c 1 -1 camvr",
    ]
    read = read_trec_run(tmp_path / "run.trec")
    assert list(read) == ["q1", "q 2"]
    assert np.float32(read["q1"][1][1]) == np.float32(0.1)
    assert read_qrels(tmp_path / "qrels.trec") == gold
    assert by_trec(tmp_path, ir_measures.RR) == pytest.approx((1 / 2 + 1) / 2)
