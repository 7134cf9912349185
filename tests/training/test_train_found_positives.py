"""Positives that mining found, as training takes them."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from multiview.config import Config, Train
from multiview.data.questions import Question
from multiview.steps.context import StepContext
from multiview.training.batches import excluded_passages, passage_ids
from multiview.training.data import training_data
from multiview.training.example_order import QuestionStream
from tests.fixtures import training_material
from tests.fixtures.events import RecordedEvents


def test_the_text_of_a_positive_is_no_negative_under_another_id(tmp_path: Path) -> None:
    """Neither as a hard negative that a file names, nor where another question brings it into the batch."""
    passages = [training_material.passage(i) for i in range(4)]
    passages += [replace(passages[0], id="again"), replace(passages[1], id="second again")]
    passages += [replace(passages[3], id="found again")]
    questions = [
        Question("q0", "?", ("x",), None, ("p000", "p001")),
        Question("q1", "?", ("x",), None, ("again",)),
        Question("q2", "?", ("x",), None, ("p002",)),
    ]
    pool = {"q0": ["again", "p003", "second again"], "q2": ["second again", "found again"]}
    inputs = training_material.training_inputs(tmp_path, passages, questions, pool, {"q2": ["p003"]})
    context = StepContext(Config(train=Train(batch_size=3, epochs=1)), inputs, {}, RecordedEvents())
    data = training_data(context, tmp_path)
    assert isinstance(data.stream, QuestionStream)
    left = {"q0": {"bm25": ["p003"]}, "q2": {"bm25": ["second again"]}}
    assert {qid: dict(data.stream.pool[qid]) for qid in pool} == left
    examples = sorted(data.stream.step(0), key=lambda example: example.question.qid)
    ids = passage_ids(examples)
    assert ids == ["p000", "again", "p002", "p003", "second again"]
    excluded = excluded_passages(examples, ids, None, data.equal)
    assert {(q, ids[p]) for q, p in excluded.nonzero().tolist()} == {
        (0, "again"),
        (0, "second again"),  # the text of its second positive, which is not in the batch
        (1, "p000"),
        (2, "p003"),
    }


def test_found_positives_are_drawn_where_asked_and_are_never_negatives(tmp_path: Path) -> None:
    passages = [training_material.passage(i) for i in range(6)]
    questions = [
        Question("q0", "?", ("x",), (3,), ("p000",)),
        Question("q1", "?", ("x",), (3,), ("gone",)),
        Question("q2", "?", ("x",), None, ()),
        Question("q3", "?", ("x",), None, ("gone",)),
    ]
    pool = {q.qid: ["p004", "p001", "p005"] for q in questions}
    found = {"q0": ["p001", "p002"], "q1": ["p001"], "q2": ["p003"]}
    inputs = training_material.training_inputs(tmp_path, passages, questions, pool, found)
    events = RecordedEvents()
    context = StepContext(Config(train=Train(batch_size=3, epochs=60)), inputs, {}, events)
    first_data = training_data(context, tmp_path)
    first = first_data.stream
    assert isinstance(first, QuestionStream)
    assert first.positives == [["p000"], ["p001"], ["p003"]] and events.facts["dropped_questions"] == 1
    expected = {"q0": ["p004", "p005"], "q1": ["p004", "p005"], "q2": ["p004", "p001", "p005"]}
    assert {qid: first.pool[qid] for qid in expected} == {qid: {"bm25": ids} for qid, ids in expected.items()}
    assert "p002" not in first_data.passages, "nobody trains on it"
    drawn_from_all = Config(train=Train(batch_size=3, epochs=60, positive_passage="drawn"))
    drawn_data = training_data(replace(context, settings=drawn_from_all), tmp_path)
    items, texts = drawn_data.stream, drawn_data.passages
    assert isinstance(items, QuestionStream)
    examples = [items[i] for i in range(len(items))]
    drawn = Counter(example.positive for example in examples if example.question.qid == "q0")
    assert set(drawn) == {"p000", "p001", "p002"} and min(drawn.values()) > 8, "20 of each expected"
    assert {example.positive for example in examples} <= set(texts)
    assert [items[i] for i in reversed(range(len(items)))] == examples[::-1]
    # All of them are masked where other questions bring them into the batch.
    example = next(e for e in examples if e.positive == "p000")
    example = replace(example, negatives=("p001", "p002", "p003"))
    assert excluded_passages([example], ["p000", "p001", "p002", "p003"], None, {}).tolist() == [
        [False, True, True, False]
    ]
    # The offset is into p000, the question's own; no offset outlives its passage.
    assert [q.answer_starts for q in items.questions] == [(3,), (3,), None]
    assert [q.positive_ids[0] for q in items.questions] == ["p000", "gone", "p003"]


def test_a_found_positive_that_a_held_out_question_asks_for_is_not_trained_on(tmp_path: Path) -> None:
    """Nor under another id."""
    passages = [training_material.passage(i) for i in range(10)]
    questions = [Question(f"q{i}", "?", ("x",), None, (f"p{i:03d}",) if i else ()) for i in range(10)]
    found = [passage.id for passage in passages] + [f"{passage.id} again" for passage in passages]
    passages += [replace(passage, id=f"{passage.id} again") for passage in passages]
    none, all_found = ({q.qid: ids for q in questions} for ids in ([], found))
    inputs = training_material.training_inputs(tmp_path, passages, questions, none, all_found)
    for drawn in ("first", "drawn"):
        train = Train(batch_size=3, epochs=1, negatives=0, validate_steps=1, positive_passage=drawn)
        data = training_data(StepContext(Config(train=train), inputs, {}, RecordedEvents()), tmp_path)
        assert isinstance(data.stream, QuestionStream) and data.held_out
        held = {id_ + again for ids in data.held_out.gold.values() for id_ in ids for again in ("", " again")}
        trained = set().union(*data.stream.positives)
        assert held and trained == set(found) - held if drawn == "drawn" else held.isdisjoint(trained)
        assert len(data.stream.questions) == 10 - len(data.held_out.questions)
        # Nor are they negatives of the questions that they may answer.
        assert all(held <= set(question.positive_ids) for question in data.stream.questions)
