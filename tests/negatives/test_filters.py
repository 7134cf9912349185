"""Which hits become negatives: no positive, no answer, no padding."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.data.answers import QuestionAnswers, has_answer
from multiview.data.passages import PassageLookup, equal_texts
from multiview.data.questions import positive_ids
from multiview.errors import InputError
from multiview.negatives.filters import AnswerHits, Positives, filter_hits
from tests.fixtures.artifacts import passage, question, write_passages

WORDS = ["red", "green", "blue", "grey"]

texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)


def holding(numbers, ids, passages, questions, mode) -> np.ndarray:
    """Which hits hold an answer, over a corpus of these passages."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = PassageLookup(write_passages(Path(folder) / "passages", passages, 2))
        return AnswerHits(questions, ids, corpus, mode).holds(numbers)


@st.composite
def retrieved(draw_):
    """Passages, questions with one to three positives, and hits of each with padding at the end."""
    passages = [
        passage(f"p{i}", text, "red blue")
        for i, text in enumerate(draw_(st.lists(texts, min_size=1, max_size=8)))
    ]
    numbers = range(len(passages))
    k = draw_(st.integers(1, 10))
    questions, rows, names = [], [], [*(p.id for p in passages), "gone"]
    for q in range(draw_(st.integers(1, 4))):
        positives = draw_(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        answers = draw_(st.lists(st.sampled_from([*WORDS, "!?", "red green"]), min_size=1, max_size=2))
        questions.append(question(f"q{q}", "?", answers, positives))
        hits = draw_(st.permutations(numbers))[: draw_(st.integers(0, k))]
        rows.append([*hits, *[-1] * (k - len(hits))][:k])
    return passages, questions, np.array(rows, np.int64), draw_(st.permutations(passages))


@settings(max_examples=60, deadline=None)
@given(retrieved())
def test_no_negative_is_a_positive_or_holds_an_answer_or_is_padding(case):
    passages, questions, numbers, shuffled = case
    ids = pa.array([p.id for p in passages])
    answer = holding(numbers, ids, shuffled, questions, "string")
    positive = Positives(ids, questions).hits(numbers)
    assert not positive[numbers < 0].any() and not answer[numbers < 0].any()
    kept, excluded = filter_hits(numbers, {"positive": positive, "answer": answer})
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
        assert numbers[q][kept[q]].tolist() == expected
    assert [hits.sum() for hits in excluded.values()] == counted


@given(st.lists(st.lists(st.sampled_from("abcdxy"), max_size=9), max_size=6), st.data())
def test_positives_are_those_that_the_corpus_has(named, data):
    ids, questions = pa.array(list("abcd")), [question(f"q{n}", "?", [], of) for n, of in enumerate(named)]
    positives = Positives(ids, questions)
    rows = [["abcd".index(name) for name in of if name in "abcd"] for of in named]
    assert positives.rows.tolist() == [row for of in rows for row in of]
    assert positives.questions.tolist() == [number for number, of in enumerate(rows) for _ in of]
    assert positives.first.tolist() == [of[0] if of else -1 for of in rows]
    retrieved = [data.draw(st.lists(st.integers(-1, 3), min_size=4, max_size=4)) for _ in named]
    hits = positives.hits(np.array(retrieved, np.int64).reshape(-1, 4))
    assert hits.tolist() == [[row in of for row in found] for found, of in zip(retrieved, rows, strict=True)]


@given(retrieved())
@settings(max_examples=40, deadline=None)
def test_a_text_of_a_positive_is_no_negative_under_another_id(case):
    """Whatever the order of the corpus, and where the index lacks some of its passages."""
    passages, questions, numbers, shuffled = case
    with tempfile.TemporaryDirectory() as folder:
        others = [passage(f"other {p.id}", p.text, p.title) for p in shuffled[::2]]
        corpus = write_passages(Path(folder) / "passages", [*others, *shuffled], 2)
        equal = equal_texts(corpus, positive_ids(questions))
    hits = Positives(pa.array([p.id for p in passages]), questions, equal).hits(numbers)
    text_of = {p.id: p.text for p in passages}
    for asked, rows, found in zip(questions, numbers, hits, strict=True):
        gold = {text_of[id_] for id_ in asked.positive_ids if id_ in text_of}
        assert found.tolist() == [row >= 0 and passages[row].text in gold for row in rows]


def test_answers_may_be_patterns():
    ids, numbers = pa.array(["a", "b"]), np.array([[0, 1]])
    passages = [passage("a", "In 1969 it flew."), passage("b", "It flew.")]
    asked = [question("q", "?", [r"19\d\d"], ["b"])]
    assert holding(numbers, ids, passages, asked, "regex").tolist() == [[True, False]]
    assert holding(numbers, ids, passages, asked, "string").tolist() == [[False, False]]


def test_a_retrieved_passage_that_is_not_in_the_corpus_is_named():
    rows, ids, asked = np.array([[0, 1]]), pa.array(["a", "b"]), [question("q", "?", ["x"], ["a"])]
    with pytest.raises(InputError, match="not in this corpus .first: 'b'"):
        holding(rows, ids, [passage("a", "x")], asked, "string")


def test_a_pair_is_matched_once_however_often_it_occurs(monkeypatch):
    pairs, answered = [], QuestionAnswers.answered

    def counted(self, texts, rows, asking):
        pairs.extend(zip(texts.take(pa.array(rows)).to_pylist(), asking.tolist(), strict=True))
        return answered(self, texts, rows, asking)

    monkeypatch.setattr(QuestionAnswers, "answered", counted)
    passages = [passage(id_, f"text {id_}") for id_ in "abc"]
    asked = [question(f"q{n}", "?", ["a"], []) for n in range(6)]
    held = holding(np.array([[0, 1, 1, 2, -1]] * 6), pa.array([*"abc"]), passages, asked, "string")
    assert held.tolist() == [[True, False, False, False, False]] * 6 and len(pairs) == 3 * 6
