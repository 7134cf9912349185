"""Each figure equals its plain formula; run and qrels files say the same to other tools."""

import json
import math

import ir_measures
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Evaluation
from multiview.data.questions import Question, relevance
from multiview.errors import InputError
from multiview.evaluation.evaluate import write_evaluation
from multiview.evaluation.metrics import first_rank, gold_metrics, means, top_k_accuracy
from multiview.evaluation.top_hits import HitViews
from multiview.evaluation.trec import quoted, read_qrels, read_trec_run, write_qrels, write_trec_run
from multiview.index.exact import TopPassages
from tests.fixtures.artifacts import passage, question, write_passages
from tests.fixtures.events import RecordedEvents


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 30))
def test_accuracy_is_the_share_of_questions_with_a_hit_in_the_top_k(seed, questions, depth):
    hits = np.random.default_rng(seed).random((questions, depth)) < 0.1
    at = [1, 5, 20]
    plain = {f"accuracy_at_{k}": sum(any(row[:k]) for row in hits.tolist()) / questions for k in at}
    everyone = np.ones(questions, bool)
    assert means(top_k_accuracy(first_rank(hits), everyone, at)) == pytest.approx(plain, abs=1e-12)


def test_questions_without_answers_do_not_count():
    values = top_k_accuracy(np.array([1, 0, 0]), np.array([True, True, False]), [1])
    np.testing.assert_array_equal(values["accuracy_at_1"], [1, 0, np.nan])
    assert means(values) == {"accuracy_at_1": 0.5}
    assert means(top_k_accuracy(np.array([0]), np.array([False]), [1])) == {}


def test_first_rank():
    hits = np.array([[0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
    assert first_rank(hits).tolist() == [3, 1, 0]
    assert first_rank(np.zeros((2, 0), bool)).tolist() == [0, 0]


@st.composite
def rankings_with_gold(draw):
    names = [f"d{i}" for i in range(15)]
    size = draw(st.integers(1, 5))
    rankings = {f"q{i}": draw(st.permutations(names))[: draw(st.integers(0, 15))] for i in range(size)}
    graded = st.dictionaries(st.sampled_from([*names, "not in the corpus"]), st.integers(1, 3), max_size=3)
    return rankings, {qid: draw(graded) for qid in rankings}


@settings(max_examples=100, deadline=None)
@given(rankings_with_gold())
def test_gold_metrics_are_their_plain_formulas_in_our_order(case):
    rankings, gold = case
    values = gold_metrics(rankings, gold, [1, 5], 15)
    plain = {qid: plain_gold_metrics(rankings[qid], gold[qid]) for qid in gold if gold[qid]}
    assert set(values) == {"recall_at_1", "recall_at_5", "mrr_at_10", "ndcg_at_10"}
    for name, of in values.items():
        expected = [plain[qid][name] if qid in plain else math.nan for qid in gold]
        np.testing.assert_allclose(of, expected, atol=1e-6)
    total = {name: sum(p[name] for p in plain.values()) / len(plain) for name in values if plain}
    assert means(values) == pytest.approx(total, abs=1e-6)


def plain_gold_metrics(ranking: list[str], grades: dict[str, int]) -> dict[str, float]:
    """One question's, in float64; nDCG = Σ grade / log2(rank + 1), over that of the best order."""
    recall = {f"recall_at_{k}": len(set(ranking[:k]) & set(grades)) / len(grades) for k in (1, 5)}
    first = next((rank for rank, name in enumerate(ranking[:10], 1) if name in grades), math.inf)
    found = sum(grades.get(name, 0) / math.log2(rank + 1) for rank, name in enumerate(ranking[:10], 1))
    best = sorted(grades.values(), reverse=True)[:10]
    ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, 1))
    return recall | {"mrr_at_10": 1 / first, "ndcg_at_10": found / ideal}


def test_ndcg_by_hand():
    """Grades 1, none, 3 at ranks 1 to 3, where 3, 1 would be best: (1 + 3 / 2) / (3 + 1 / log2 3)."""
    values = gold_metrics({"q": ["a", "x", "b"]}, {"q": {"b": 3, "a": 1}}, [], 10)
    assert values["ndcg_at_10"] == pytest.approx([(1 + 3 / 2) / (3 + 1 / math.log2(3))], abs=1e-6)


@pytest.mark.parametrize(
    ("depth", "names"),
    [
        (9, {"recall_at_1"}),
        (10, {"recall_at_1", "mrr_at_10", "ndcg_at_10"}),
        (1000, {"recall_at_1", "recall_at_1000", "mrr_at_10", "ndcg_at_10"}),
    ],
)
def test_the_depth_says_which_metrics_there_are(depth, names):
    assert set(gold_metrics({"q": ["a"]}, {"q": {"a": 1}}, [1], depth)) == names


def test_recall_at_1000_counts_to_rank_1000_and_no_further():
    ranking = [f"p{i}" for i in range(1001)]
    values = gold_metrics({"q": ranking}, {"q": {"p999": 1, "p1000": 1}}, [], 1001)
    assert values["recall_at_1000"].tolist() == [0.5]


# -- files -------------------------------------------------------------------------------------

names = st.text(st.sampled_from("aé% \t\n\u2028\u3000~/"), max_size=5)


@settings(max_examples=100, deadline=None)
@given(names)
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


def by_trec(folder, measure) -> float:
    """What ir_measures says of the two files."""
    qrels = ir_measures.read_trec_qrels(str(folder / "qrels.trec"))
    run = ir_measures.read_trec_run(str(folder / "run.trec"))
    return ir_measures.calc_aggregate([measure], qrels, run)[measure]


def test_bad_lines_are_named(tmp_path):
    (tmp_path / "run").write_text("q Q0 a 1 2.0 tag\nq Q0 a 1\n")
    with pytest.raises(InputError, match="line 2 has 4 fields"):
        read_trec_run(tmp_path / "run")
    (tmp_path / "run").write_text("q Q0 a first 2.0 tag\n")
    with pytest.raises(InputError, match="rank 'first'"):
        read_trec_run(tmp_path / "run")
    with pytest.raises(InputError, match="missing"):
        read_qrels(tmp_path / "nothing")


# -- the artifact ------------------------------------------------------------------------------


def test_other_tools_find_our_figures_in_the_files(tmp_path):
    """Where scores do not tie. Three questions of twelve: one without gold, one without results."""
    rng = np.random.default_rng(0)
    passages = [passage(f"p{i}", f"text {i}") for i in range(40)]
    questions = []
    for i in range(12):
        drawn = rng.choice(40, 4, replace=False).tolist() if i else []
        grades = {f"p{number}": int(rng.integers(1, 4)) for number in drawn}
        questions.append(Question(f"q {i}", "?", ("text 1",), None, tuple(grades), relevance(grades)))
    top = TopPassages.empty(12, 20)
    for row in range(11):
        top.passages[row] = rng.permutation(40)[:20]
        top.scores[row] = np.sort(rng.random(20).astype(np.float32))[::-1]
    folder = write_passages(tmp_path / "passages", passages)
    (tmp_path / "out").mkdir()
    ids = pa.array([p.id for p in passages])
    asked = Evaluation(depth=20, at=(1, 5))
    write_evaluation(tmp_path / "out", top, ids, folder, questions, asked, "string", RecordedEvents())
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    for name, measure in {
        "ndcg_at_10": ir_measures.nDCG @ 10,
        "mrr_at_10": ir_measures.RR @ 10,
        "recall_at_5": ir_measures.R @ 5,
    }.items():
        assert 0 < metrics[name] == pytest.approx(by_trec(tmp_path / "out", measure), abs=1e-6), name
    table = pq.read_table(tmp_path / "out" / "questions.parquet")
    for name, mean in metrics.items():
        values = [value for value in table.column(name).to_pylist() if value is not None]
        assert len(values) == (12 if name.startswith("accuracy") else 11)
        assert mean == pytest.approx(sum(values) / len(values), abs=1e-12)


def test_an_evaluation_by_hand(tmp_path):
    """Four questions over five passages; p4 holds q0's answer only in its title, which is not searched."""
    texts = {"p0": "red fox", "p1": "blue whale", "p2": "a red car", "p3": "green tea"}
    passages = [passage(id_, text) for id_, text in texts.items()] + [passage("p4", "nothing", "red")]
    folder = write_passages(tmp_path / "passages", passages, shards=2)
    questions = [
        question("q0", "?", ["red"], ["p2"]),
        question("q1", "?", ["tea"], ["p3"]),
        question("q2", "?", ["blue"], ["p1", "p4"]),
        question("q3", "?", ["zebra"], ["p0"]),
    ]
    ranked = np.array([[4, 0, 2], [0, 1, 3], [4, 1, -1], [-1, -1, -1]])
    scores = np.where(ranked < 0, -np.inf, [[3.0, 2.0, 1.0]]).astype(np.float32)
    top = TopPassages(ranked, scores, np.where(ranked < 0, -1, 5).astype(np.int32))
    ids = pa.array([p.id for p in passages])

    def views_of(rows, numbers):
        """Six views a passage, of which the last wins and stands for a part of the text in two questions."""
        spans = [(0, 3), (2, 7), None, None]
        return [
            [HitViews([0.0] * 5 + [1.0], [None] * 5 + [spans[row]]) for number in found if number >= 0]
            for row, found in zip(rows, numbers, strict=True)
        ]

    def write(name):
        (tmp_path / name).mkdir()
        events = RecordedEvents()
        write_evaluation(
            tmp_path / name,
            top,
            ids,
            folder,
            questions,
            Evaluation(depth=3, at=(1, 2, 3, 100)),
            "string",
            events,
            find_views=views_of,
        )
        return tmp_path / name, events

    out, events = write("one")
    # First answers: p0 at 2, p3 at 3, p1 at 2, none. Gold: p2 at 3, p3 at 3, p4 at 1 and p1 at 2, none.
    expected = {
        "accuracy_at_1": 0.0,
        "accuracy_at_2": 0.5,
        "accuracy_at_3": 0.75,
        "recall_at_1": 0.5 / 4,
        "recall_at_2": 1 / 4,
        "recall_at_3": 3 / 4,
    }
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics == pytest.approx(expected)  # nothing at 100, beyond the depth
    assert {name: value for name, value, _ in events.metrics} == metrics
    table = pq.read_table(out / "questions.parquet")
    assert table.column("recall_at_2").to_pylist() == [0, 0, 1, 0]
    assert table.column("accuracy_at_2").to_pylist() == [1, 0, 1, 0]
    assert table.drop_columns(list(metrics)).to_pylist() == [
        {
            "qid": "q0",
            "rank_of_first_answer": 2,
            "rank_of_first_gold": 3,
            "top_passage_id": "p4",
            "top_score": 3.0,
            "top_view": 5,
            "top_start": 0,
            "top_stop": 3,
        },
        {
            "qid": "q1",
            "rank_of_first_answer": 3,
            "rank_of_first_gold": 3,
            "top_passage_id": "p0",
            "top_score": 3.0,
            "top_view": 5,
            "top_start": 2,
            "top_stop": 7,
        },
        {
            "qid": "q2",
            "rank_of_first_answer": 2,
            "rank_of_first_gold": 1,
            "top_passage_id": "p4",
            "top_score": 3.0,
            "top_view": 5,
            "top_start": None,
            "top_stop": None,
        },
        {
            "qid": "q3",
            "rank_of_first_answer": None,
            "rank_of_first_gold": None,
            "top_passage_id": None,
            "top_score": None,
            "top_view": None,
            "top_start": None,
            "top_stop": None,
        },
    ]
    assert list(read_trec_run(out / "run.trec")) == ["q0", "q1", "q2"]
    assert read_qrels(out / "qrels.trec")["q2"] == {"p1": 1, "p4": 1}
    again, _ = write("two")
    for file in out.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes()
