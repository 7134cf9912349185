"""Hard negatives: what BM25 finds, what the filter leaves, what the draw takes, what training reads."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Bm25
from multiview.data.answers import has_answer
from multiview.errors import InputError
from multiview.negatives.bm25 import Bm25Index, best_scores
from multiview.negatives.filtering import answer_holding, filter_hits, positive_hits
from multiview.negatives.mined import sample_negatives
from multiview.negatives.pool import negatives_table, read_negatives, write_negatives
from tests.fixtures.artifacts import passage, question

PASSAGES = [
    passage("d", "The capital of France is Paris.", "France"),
    passage("b", "Lyon was a capital once.", "Lyon"),
    passage("c", "Lyon was a capital once.", "Lyon"),
    passage("a", "Nothing of interest here.", "Else"),
    passage("e", "", ""),
]


def ids_of(index, top, row=0):
    return [index.ids[n].as_py() for n in top.passages[row] if n >= 0]


# -- BM25 --------------------------------------------------------------------------------------


def test_bm25_is_lucene_s_formula():
    """Robertson's IDF of Lucene, ln(1 + (N - n + 0.5) / (n + 0.5)), k1 = 0.9, b = 0.4, in float64."""
    docs = [
        ["franc", "capit", "franc", "pari"],
        ["lyon", "lyon", "capit", "onc"],
        ["els", "noth", "interest", "here"],
    ]
    index = Bm25Index([PASSAGES[0], PASSAGES[1], PASSAGES[3]], Bm25(), "english")
    top = index.search(["capital France"], 3)
    mean = np.mean([len(doc) for doc in docs])
    expected = []
    for doc in docs:
        score = 0.0
        for word in ("capit", "franc"):
            n = sum(word in other for other in docs)
            tf = doc.count(word)
            score += np.log(1 + (3 - n + 0.5) / (n + 0.5)) * tf / (tf + 0.9 * (0.6 + 0.4 * len(doc) / mean))
        expected.append(score)
    assert ids_of(index, top) == ["d", "b"]
    np.testing.assert_allclose(top.scores[0, :2], expected[:2], rtol=1e-6)
    assert top.winning_views[0].tolist() == [0, 0, -1]


def test_bm25_ties_go_to_the_smaller_id_and_only_shared_words_count():
    index = Bm25Index(PASSAGES, Bm25(), "english")
    top = index.search(["capitals", "of the", "", "zzz unseen"], 4)
    assert ids_of(index, top, 0) == ["b", "c", "d"]  # of equal length; stemmed; the others share no word
    for row in (1, 2, 3):  # stop words alone, nothing, unknown words
        assert ids_of(index, top, row) == []
        assert np.isneginf(top.scores[row]).all()
    reverse = Bm25Index(PASSAGES[::-1], Bm25(), "english")
    assert ids_of(reverse, reverse.search(["capitals"], 4)) == ids_of(index, top, 0)


def test_bm25_of_a_language_without_stemmer_or_stop_words_takes_words_as_they_stand():
    index = Bm25Index(PASSAGES, Bm25(), "klingon")
    assert ids_of(index, index.search(["capitals"], 4)) == []
    assert ids_of(index, index.search(["of"], 4)) == ["a", "d"]  # the shorter first


def test_bm25_of_passages_without_words():
    index = Bm25Index([passage("x", "?"), passage("y", "")], Bm25(), "english")
    assert ids_of(index, index.search(["anything"], 2)) == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 40), st.randoms())
def test_best_scores_are_a_plain_sort(values, k, shuffler):
    scores = np.array(values, np.float32)
    rank = list(range(len(values)))
    shuffler.shuffle(rank)
    plain = sorted((i for i in range(len(values)) if values[i] > 0), key=lambda i: (-values[i], rank[i]))[:k]
    assert best_scores(scores, np.array(rank), k).tolist() == plain


# -- the filter --------------------------------------------------------------------------------

WORDS = ["red", "green", "blue", "grey"]
texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)


@st.composite
def retrieved(draw_):
    """Passages, questions with one to three positives, and hits of each with padding at the end."""
    passages = [
        passage(f"p{i}", text, "red blue")
        for i, text in enumerate(draw_(st.lists(texts, min_size=1, max_size=8)))
    ]
    numbers = range(len(passages))
    k = draw_(st.integers(1, 10))
    questions, rows = [], []
    for q in range(draw_(st.integers(1, 4))):
        positives = draw_(
            st.lists(
                st.sampled_from([p.id for p in passages] + ["gone"]), min_size=1, max_size=3, unique=True
            )
        )
        questions.append(
            question(
                f"q{q}",
                "?",
                draw_(st.lists(st.sampled_from([*WORDS, "!?", "red green"]), min_size=1, max_size=2)),
                positives,
            )
        )
        hits = draw_(st.permutations(numbers))[: draw_(st.integers(0, k))]
        rows.append([*hits, *[-1] * (k - len(hits))][:k])
    return passages, questions, np.array(rows, np.int64), draw_(st.permutations(passages))


@settings(max_examples=150, deadline=None)
@given(retrieved())
def test_no_negative_is_a_positive_or_holds_an_answer_or_is_padding(case):
    passages, questions, numbers, shuffled = case
    ids = pa.array([p.id for p in passages])
    answer = answer_holding(numbers, ids, iter(shuffled), questions, "string")
    positive = positive_hits(numbers, ids, questions)
    assert not positive[numbers < 0].any() and not answer[numbers < 0].any()
    left = filter_hits(numbers, {"positive": positive, "answer": answer})
    counted = [0, 0]
    for q, asked in enumerate(questions):
        expected = []
        for number in numbers[q]:
            if number < 0:
                continue
            if passages[number].id in asked.positive_ids:
                counted[0] += 1
            elif has_answer(passages[number].text, asked.answers):
                counted[1] += 1
            else:
                expected.append(number)
        assert numbers[q][left.kept[q]].tolist() == expected
    assert list(left.totals().values()) == counted


def test_every_positive_is_excluded_not_only_the_first():
    ids = pa.array(["a", "b", "c"])
    hits = positive_hits(np.array([[2, 1, 0]]), ids, [question("q", "?", ["x"], ["a", "c"])])
    assert hits.tolist() == [[True, False, True]]


def test_answers_may_be_patterns():
    ids, numbers = pa.array(["a", "b"]), np.array([[0, 1]])
    passages = [passage("a", "In 1969 it flew."), passage("b", "It flew.")]
    asked = [question("q", "?", [r"19\d\d"], ["b"])]
    assert answer_holding(numbers, ids, passages, asked, "regex").tolist() == [[True, False]]
    assert answer_holding(numbers, ids, passages, asked, "string").tolist() == [[False, False]]


def test_a_retrieved_passage_that_is_not_in_the_corpus_is_named():
    with pytest.raises(InputError, match="'b' was retrieved but is not in the passages"):
        answer_holding(
            np.array([[0, 1]]),
            pa.array(["a", "b"]),
            [passage("a", "x")],
            [question("q", "?", ["x"], ["a"])],
            "string",
        )


# -- the draw ----------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 5))
def test_draw_takes_what_is_asked_from_what_is_kept_whatever_the_other_questions(seed, number, draw_seed):
    rng = np.random.default_rng(seed)
    kept = rng.random((6, 15)) < rng.random((6, 1))
    qids = [f"q{i}" for i in range(6)]
    drawn = sample_negatives(kept, qids, number, draw_seed)
    assert not (drawn & ~kept).any()
    assert drawn.sum(axis=1).tolist() == np.minimum(kept.sum(axis=1), number).tolist()
    order = rng.permutation(6)
    shuffled = sample_negatives(kept[order], [qids[i] for i in order], number, draw_seed)
    np.testing.assert_array_equal(shuffled, drawn[order])
    for i in range(6):
        np.testing.assert_array_equal(
            sample_negatives(kept[i : i + 1], qids[i : i + 1], number, draw_seed)[0], drawn[i]
        )


def test_draw_depends_on_seed_and_question_and_is_even():
    kept = np.ones((400, 20), bool)
    qids = [f"q{i}" for i in range(400)]
    one, two = sample_negatives(kept, qids, 5, 0), sample_negatives(kept, qids, 5, 1)
    assert (one != two).any(axis=1).mean() > 0.95
    assert len({row.tobytes() for row in one}) > 350
    # Each of 20 places is drawn with probability 1/4: 100 of 400, standard deviation 8.7.
    assert np.abs(one.sum(axis=0) - 100).max() < 45


# -- the artifact ------------------------------------------------------------------------------


def test_table_keeps_rank_order_and_empty_rows():
    ids = pa.array(["a", "b", "c"])
    numbers = np.array([[2, 0, 1], [1, -1, -1], [0, 2, -1]])
    kept = np.array([[True, False, True], [False, False, False], [True, True, False]])
    scores = np.array([[3, 2, 1], [5, -np.inf, -np.inf], [2, 2, -np.inf]], np.float32)
    table = negatives_table("mined", ["x", "y", "z"], numbers, scores, kept, ids)
    assert table.to_pylist() == [
        {"qid": "x", "source": "mined", "negative_ids": ["c", "b"], "scores": [3.0, 1.0]},
        {"qid": "y", "source": "mined", "negative_ids": [], "scores": []},
        {"qid": "z", "source": "mined", "negative_ids": ["a", "c"], "scores": [2.0, 2.0]},
    ]


def test_pool_joins_sources_and_drops_duplicates(tmp_path):
    ids = pa.array(["a", "b", "c"])
    ones = np.ones((2, 2))
    kept = np.ones((2, 2), bool)
    bm25 = negatives_table("bm25", ["x", "y"], np.array([[1, 0], [2, 1]]), ones, kept, ids)
    mined = negatives_table("mined", ["y", "x"], np.array([[1, 0], [0, 2]]), ones, kept, ids)
    write_negatives(tmp_path, pa.concat_tables([bm25, mined]))
    assert read_negatives(tmp_path) == {"x": ["b", "a", "c"], "y": ["c", "b", "a"]}


def test_pool_names_a_file_that_is_not_negatives(tmp_path):
    with pytest.raises(InputError, match=r"negatives\.parquet: missing"):
        read_negatives(tmp_path)
    pq.write_table(pa.table({"qid": ["x"]}), tmp_path / "negatives.parquet")
    with pytest.raises(InputError, match="lacks the columns negative_ids, scores, source"):
        read_negatives(tmp_path)
