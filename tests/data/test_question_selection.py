"""Which questions are used: every draw depends on the seed and the ids, never on the order."""

import hashlib
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.data.question_selection import (
    ASKED_AGAIN,
    LOST_GOLD,
    UNKNOWN_POSITIVES,
    held_out,
    limited,
    one_per_passage,
    questions_per_passage,
    with_known_positives,
    with_shared_positives,
)
from multiview.data.questions import Question
from multiview.errors import Report


def question(qid: str, *positives: str, starts: tuple[int, ...] | None = None) -> Question:
    return Question(qid, f"What is {qid}?", ("answer",), starts, positives or ("p",))


@st.composite
def question_lists(draw):
    number = draw(st.integers(1, 30))
    passages = draw(st.lists(st.integers(0, 8), min_size=number, max_size=number))
    return [question(f"q{i}", f"p{passage}") for i, passage in enumerate(passages)]


def shuffled(items: list, random) -> list:
    items = list(items)
    random.shuffle(items)
    return items


@given(question_lists(), st.integers(1, 40), st.integers(0, 3), st.randoms())
@settings(max_examples=100, deadline=None)
def test_a_limit_keeps_the_lowest_draws_in_the_order_they_came(questions, limit, seed, random):
    kept = limited(questions, limit, seed)
    lowest = sorted(
        (q.qid for q in questions), key=lambda qid: hashlib.sha256(f"{seed}:{qid}".encode()).hexdigest()
    )
    assert {q.qid for q in kept} == set(lowest[:limit])
    assert kept == [q for q in questions if q in kept]
    assert set(limited(shuffled(questions, random), limit, seed)) == set(kept)


def test_no_limit_keeps_all_and_another_seed_draws_others():
    questions = [question(f"q{i}") for i in range(50)]
    assert limited(questions, None, 0) == limited(questions, 50, 0) == questions
    assert limited(questions, 10, 0) != limited(questions, 10, 1)


@given(question_lists(), st.integers(0, 3), st.randoms())
@settings(max_examples=100, deadline=None)
def test_one_question_of_each_passage(questions, seed, random):
    kept = one_per_passage(questions, seed)
    assert Counter(q.positive_ids[0] for q in kept) == dict.fromkeys(
        {q.positive_ids[0] for q in questions}, 1
    )
    assert kept == [q for q in questions if q in kept]
    assert set(one_per_passage(shuffled(questions, random), seed)) == set(kept)
    assert questions_per_passage(kept) == 1.0


def test_a_limit_after_one_per_passage_does_not_favour_passages_with_many_questions():
    questions = [question(f"a{i}", f"one{i}") for i in range(300)]
    questions += [question(f"b{i}-{j}", f"many{i}") for i in range(300) for j in range(10)]
    kept = limited(one_per_passage(questions, 0), 300, 0)
    # Half of the passages have many questions; of 300 draws out of 600, 150 ± 5 standard deviations.
    assert 110 < sum(q.positive_ids[0].startswith("many") for q in kept) < 190


@given(question_lists(), st.floats(0.01, 0.99), st.integers(0, 3), st.randoms())
@settings(max_examples=100, deadline=None)
def test_held_out_questions_share_no_passage_with_training(questions, share, seed, random):
    passages = {q.positive_ids[0] for q in questions}
    if len(passages) < 2:
        assert held_out(questions, share, seed) == (questions, [])
        return
    train, dev = held_out(questions, share, seed)
    train_passages, dev_passages = ({q.positive_ids[0] for q in part} for part in (train, dev))
    assert train_passages | dev_passages == passages and not train_passages & dev_passages
    assert len(dev_passages) == min(max(round(share * len(passages)), 1), len(passages) - 1)
    assert sorted(train + dev, key=questions.index) == questions
    assert set(held_out(shuffled(questions, random), share, seed)[1]) == set(dev)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 9)), max_size=20),
    st.integers(0, 3),
)
@settings(max_examples=100, deadline=None)
def test_rows_that_ask_the_same_share_their_gold_passages_and_are_held_out_together(rows, seed):
    questions = [
        Question(f"q{row}", f"What is {asked}?", (f"a{answer}",), (0,), (f"p{passage}",))
        for row, (asked, answer, passage) in enumerate(rows)
    ]
    report = Report()
    shared = with_shared_positives(questions, report)
    for question, found in zip(questions, shared, strict=True):
        alike = {
            q.positive_ids[0]
            for q in questions
            if (q.question, q.answers) == (question.question, question.answers)
        }
        assert found.positive_ids[0] == question.positive_ids[0] and found.answer_starts == (0,)
        assert set(found.positive_ids) == alike and len(found.positive_ids) == len(alike)
    assert sum(len(q.positive_ids) > 1 for q in shared) == report.remarks.counts.get(ASKED_AGAIN, 0)
    if rows:
        train, dev = held_out(shared, 0.3, seed)
        asked = [{(q.question, q.answers) for q in part} for part in (train, dev)]
        assert not asked[0] & asked[1] and {*train, *dev} == {*shared}, "no row is lost"
        first = {min(q.positive_ids) for q in shared}
        assert len({min(q.positive_ids) for q in dev}) == min(max(round(0.3 * len(first)), 1), len(first) - 1)
        assert {*held_out(shared[::-1], 0.3, seed)[1]} == {*dev}


def test_unknown_positives_go_and_with_the_first_of_them_its_offsets():
    questions = [
        question("all", "a", "b", starts=(3,)),
        question("second", "x", "a", starts=(3,)),
        question("first", "a", "x", starts=(3,)),
        question("none", "x", "y"),
    ]
    report = Report()
    kept = with_known_positives(questions, {"a", "b"}, report)
    assert report.remarks.counts == {UNKNOWN_POSITIVES: 2, LOST_GOLD: 1}
    assert [(q.qid, q.positive_ids, q.answer_starts) for q in kept] == [
        ("all", ("a", "b"), (3,)),
        ("second", ("a",), None),
        ("first", ("a",), (3,)),
    ]


def test_grades_stay_with_their_positives():
    graded = Question("q", "?", ("x",), (3,), ("a", "b", "c"), (3, 1, 2))
    assert graded.grades == {"a": 3, "b": 1, "c": 2} and question("q", "a", "b").grades == {"a": 1, "b": 1}
    (kept,) = with_known_positives([graded], {"a", "c"}, Report())
    assert (kept.grades, kept.answer_starts) == ({"a": 3, "c": 2}, (3,))
    (kept,) = with_known_positives([graded], {"b"}, Report())
    assert (kept.positive_ids, kept.relevance) == (("b",), None), "grades that are all 1 are none"


def test_avq_is_questions_per_passage_that_has_one():
    assert questions_per_passage([question("1", "a"), question("2", "a"), question("3", "b")]) == 1.5
    assert questions_per_passage([]) == 0.0
