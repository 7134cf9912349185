"""The order of a training's data: each epoch's permutation, the draws of hard negatives, and the number of steps."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Train
from multiview.data.questions import Question
from multiview.training.example_order import QuestionStream


def plain_questions(count: int) -> list[Question]:
    return [Question(f"q{i}", "?", ("a",), None, (f"p{i}",)) for i in range(count)]


def stream(count: int, pool: dict[str, list[str]] | None = None, **options: Any) -> QuestionStream:
    questions = plain_questions(count)
    sources = {qid: {"bm25": ids} for qid, ids in (pool or {}).items()}
    return QuestionStream(questions, [q.positive_ids for q in questions], sources, Train(**options))


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_every_epoch_is_another_permutation_without_what_does_not_fill_a_batch(
    count: int, batch: int, seed: int
) -> None:
    items = stream(count, batch_size=batch, epochs=3, seed=seed)
    size = min(batch, count)
    per_epoch = count // size * size
    assert len(items) == 3 * per_epoch == items.steps * size
    epochs = [[items[e * per_epoch + i].question.qid for i in range(per_epoch)] for e in range(3)]
    for order in epochs:
        assert len(set(order)) == per_epoch
    if per_epoch > 8:
        assert epochs[0] != epochs[1] != epochs[2]


def test_an_item_depends_on_its_index_alone() -> None:
    pool = {f"q{i}": [f"n{j}" for j in range(10)] for i in range(7)}
    once = stream(7, pool, batch_size=3, epochs=4, negatives=3)
    again = stream(7, pool, batch_size=3, epochs=4, negatives=3)
    forwards = [once[i] for i in range(len(once))]
    assert [again[i] for i in reversed(range(len(again)))] == forwards[::-1]
    other = stream(7, pool, batch_size=3, epochs=4, negatives=3, seed=1)
    assert [other[i] for i in range(len(other))] != forwards


def test_hard_negatives_are_drawn_without_replacement_anew_each_epoch() -> None:
    pool = {"q0": [f"n{j}" for j in range(6)], "q1": ["only"], "q2": []}
    items = stream(3, pool, batch_size=3, epochs=200, negatives=2)
    drawn = Counter()
    for i in range(len(items)):
        example = items[i]
        assert (
            len(set(example.negatives)) == len(example.negatives) == min(2, len(pool[example.question.qid]))
        )
        assert set(example.negatives) <= set(pool[example.question.qid])
        drawn.update(example.negatives)
    assert drawn["only"] == 200
    assert all(40 < drawn[name] < 95 for name in pool["q0"])  # 200 · 2/6 expected


def test_max_steps_cuts_epochs_short() -> None:
    assert stream(10, batch_size=4, epochs=5).steps == 10
    assert stream(10, batch_size=4, epochs=5, max_steps=3).steps == 3
    assert stream(10, batch_size=4, epochs=0.5).steps == 1
