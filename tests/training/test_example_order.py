"""The order of a training's data: each epoch's permutation, the number of steps, and the draws of hard negatives."""

import pickle
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Train
from multiview.config.overrides import read_preset
from multiview.data.questions import Question
from multiview.model.systems import resolve, stage_settings
from multiview.negatives.negatives_file import Pool
from multiview.training.example_order import QuestionStream


def stream(pool: Pool, **options: object) -> QuestionStream:
    questions = [Question(qid, "?", ("a",), None, (f"positive of {qid}",)) for qid in pool]
    positives = [question.positive_ids for question in questions]
    return QuestionStream(questions, positives, pool, Train.model_validate({"batch_size": 1, **options}))


def of_source(name: str, number: int) -> list[str]:
    return [f"{name}-{i}" for i in range(number)]


def pool_of(sizes: Mapping[str, int]) -> dict[str, list[str]]:
    return {name: of_source(name, number) for name, number in sizes.items()}


def source_counts(items: QuestionStream, qid: str) -> Counter[str]:
    """How often the negatives of a question came from each source."""
    drawn = [items[i] for i in range(len(items))]
    return Counter(
        name.partition("-")[0]
        for example in drawn
        if example.question.qid == qid
        for name in example.negatives
    )


SIZES = st.dictionaries(st.sampled_from(["bm25", "mined", "given"]), st.integers(0, 60), min_size=1)


@given(st.lists(SIZES, min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_every_source_of_a_question_has_the_same_share(
    sizes: list[dict[str, int]], rounds: int, seed: int, negatives: int
) -> None:
    """Over as many epochs as a question has sources, each gives `train.negatives`, where it has as many."""
    pool = {f"q{i}": pool_of(size) for i, size in enumerate(sizes)}
    for qid, sources in pool.items():
        real = [name for name, ids in sources.items() if ids]
        items = stream(pool, epochs=max(1, rounds * len(real)), seed=seed, negatives=negatives)
        if all(len(sources[name]) >= negatives for name in real):
            expected = {name: rounds * negatives for name in real if negatives}
            assert source_counts(items, qid) == expected
        again = stream({qid: sources}, epochs=max(1, rounds * len(real)), seed=seed, negatives=negatives)
        alone = [again[i].negatives for i in range(len(again))]
        drawn = [items[i] for i in range(len(items))]
        assert [e.negatives for e in drawn if e.question.qid == qid] == alone, "of no other question"


@given(SIZES, st.integers(0, 9), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_a_question_has_as_many_negatives_as_there_are_and_each_once(
    sizes: dict[str, int], negatives: int, seed: int
) -> None:
    """A source that has too few leaves its turns to the others; a passage of two sources is one negative."""
    sources = pool_of(sizes)
    sources["twice"] = [ids[0] for ids in sources.values() if ids]
    available = {name for ids in sources.values() for name in ids}
    items = stream({"q": sources}, epochs=5, negatives=negatives, seed=seed)
    for item in range(len(items)):
        drawn = items[item].negatives
        assert len(set(drawn)) == len(drawn) == min(negatives, len(available)) and set(drawn) <= available


def test_few_mined_negatives_are_met_half_of_the_time_and_each_as_often() -> None:
    """From the joined pool it would be 9 % of the time. Within a source the draws are uniform, up to chance."""
    sizes, epochs = {"bm25": 50, "mined": 5}, 2000
    items = stream({"q": pool_of(sizes)}, epochs=epochs)
    assert source_counts(items, "q") == {"bm25": epochs / 2, "mined": epochs / 2}
    drawn = Counter(items[i].negatives[0] for i in range(len(items)))
    for source, size in sizes.items():
        expected = epochs / 2 / size
        deviation = (expected * (1 - 1 / size)) ** 0.5
        assert all(abs(drawn[name] - expected) < 4.5 * deviation for name in of_source(source, size))


def test_the_first_source_is_another_for_other_questions_and_seeds() -> None:
    """Half of a batch has mined negatives from the first epoch on."""
    pool = {f"q{i}": pool_of({"bm25": 50, "mined": 5}) for i in range(400)}
    for seed in range(3):
        items = stream(pool, epochs=1, seed=seed)
        mined = sum(items[i].negatives[0].startswith("mined") for i in range(400))
        assert 150 < mined < 250


def asked(count: int, **sizes: int) -> dict[str, dict[str, list[str]]]:
    return {f"q{i}": pool_of(sizes) for i in range(count)}


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_every_epoch_is_another_permutation_without_what_does_not_fill_a_batch(
    count: int, batch: int, seed: int
) -> None:
    items = stream(asked(count), batch_size=batch, epochs=3, seed=seed)
    size = min(batch, count)
    per_epoch = count // size * size
    assert len(items) == 3 * per_epoch == items.steps * size
    epochs = [[items[e * per_epoch + i].question.qid for i in range(per_epoch)] for e in range(3)]
    assert all(len(set(order)) == per_epoch for order in epochs)
    if per_epoch > 8:
        assert epochs[0] != epochs[1] != epochs[2]


def test_an_item_depends_on_its_index_alone_also_in_a_process_that_is_not_forked() -> None:
    once, other = (
        stream(asked(7, bm25=10), batch_size=3, epochs=4, negatives=3, seed=seed) for seed in (0, 1)
    )
    forwards = [once[i] for i in range(len(once))]
    again = pickle.loads(pickle.dumps(once))
    assert [again[i] for i in reversed(range(len(again)))] == forwards[::-1]
    assert [other[i] for i in range(len(other))] != forwards


def test_max_steps_cuts_epochs_short() -> None:
    assert stream(asked(10), batch_size=4, epochs=5).steps == 10
    assert stream(asked(10), batch_size=4, epochs=5, max_steps=3).steps == 3
    assert stream(asked(10), batch_size=4, epochs=0.5).steps == 1


def test_cocondenser_s_second_round_is_as_long_as_its_recipe() -> None:
    """tevatron: 20 epochs over the questions with BM25's negatives and again with the mined ones, 128 per step."""
    config = stage_settings(resolve(read_preset("cocondenser-two-round")), "round_two")
    questions, recipe = 60_000, 18_740
    positives = [["p"]] * questions
    items = QuestionStream(
        [Question(f"q{i}", "?", (), None, ("p",)) for i in range(questions)], positives, {}, config.train
    )
    # Each of our epochs leaves out an incomplete batch.
    assert items.steps == pytest.approx(recipe, rel=0.002)
