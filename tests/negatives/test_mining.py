"""Mining: what each filter leaves out, what is counted, and that nothing else becomes a negative.

The whole step, with a real model, runs in tests/negatives/test_mining_by_model.py.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Config, Mining
from multiview.data.answers import has_answer
from multiview.model.systems import resolve
from multiview.negatives.filters import above_margin, filter_hits
from multiview.negatives.mining import (
    MiningResult,
    best_positive_scores,
    report,
    report_counts,
    sample_negatives,
)
from multiview.negatives.negatives_file import (
    negatives_table,
    read_positives,
    with_positives,
    write_negatives,
)
from multiview.steps.table import STEPS
from tests.fixtures.artifacts import passage, question
from tests.fixtures.events import RecordedEvents
from tests.fixtures.mined_vectors import ONE, asked, line, mined_vectors, plain_scores

# -- the margin --------------------------------------------------------------------------------

numbers = st.floats(-200, 200, width=32)
margins = st.none() | st.floats(0, 50, allow_subnormal=False)
shares = st.none() | st.floats(0, 2, allow_subnormal=False)


@settings(max_examples=100, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=6), numbers | st.just(-np.inf), margins, shares)
def test_a_hit_is_above_the_margin_by_the_plain_formula(hits, positive, margin, share):
    above = above_margin(np.array([hits], np.float32), np.array([positive], np.float32), margin, share)
    for hit, left_out in zip(hits, above[0], strict=True):
        if positive == -np.inf:
            assert not left_out, "a question without a positive in the index has no margin"
            continue
        expected = (margin is not None and hit > positive - margin) or hit > positive - (share or 0) * abs(
            positive
        )
        assert left_out == expected
        assert left_out or hit <= positive, "whatever its sign, no margin lets a hit above the positive"


def test_a_relative_margin_is_right_for_negative_scores():
    """95 % of -10 is -9.5, above the positive: the hits at -9.6 and -10.2 would pass for negatives."""
    hits = np.array([[-9.6, -10.2, -10.6], [99.0, 95.5, 94.5]], np.float32)
    above = above_margin(hits, np.array([-10.0, 100.0], np.float32), None, 0.05)
    assert above.tolist() == [[True, True, False], [True, True, False]]


def test_the_positive_s_score_is_that_of_the_best_one_also_beyond_the_hits(tmp_path):
    small = line(tmp_path, [9.0, 8.0, 7.0, 6.0, 5.0, 1.0])
    mined = small.mine(asked("p5", "p4"), depth=3, margin=0.0)
    assert mined.positive_scores == pytest.approx([5.0])
    assert not mined.filtered.kept.any() and mined.filtered.totals()["margin"] == 3
    mined = small.mine(asked("p1", "gone"), depth=6, margin=2.0)
    assert small.names(mined, mined.sampled) == ["p3", "p4", "p5"]
    mined = small.mine(asked("p1"), depth=6, relative_margin=0.25)
    assert small.names(mined, mined.sampled) == ["p3", "p4", "p5"], "6 is 75 % of 8"


def test_a_hit_that_ties_with_its_positive_is_not_above_it_by_rounding(tmp_path):
    rng = np.random.default_rng(0)
    same = rng.normal(size=2) * 9
    queries = rng.normal(size=(40, 2)).astype(np.float32)
    twins = mined_vectors(tmp_path, [passage(f"p{i}", f"x {i}") for i in range(9)], [[same]] * 9)
    mined = twins.mine(
        [question(f"q{i}", "?", ["gold"], ["p3"]) for i in range(40)], queries, depth=9, margin=0.0
    )
    assert mined.filtered.totals()["margin"] == 0
    assert mined.filtered.kept.sum() == 40 * 8


def test_questions_without_a_positive_in_the_index_have_no_margin_and_are_counted(tmp_path):
    small = line(tmp_path, [9.0, 8.0, 7.0])
    questions = [*asked("p2"), question("r", "?", ["gold"], ["gone"]), question("s", "?", ["gold"], [])]
    mined = small.mine(questions, np.repeat(ONE, 3, 0), depth=3, margin=0.5)
    assert mined.filtered.excluded["margin"].tolist() == [2, 0, 0]
    assert mined.positive_scores is not None
    assert mined.positive_scores.tolist() == [7.0, -np.inf, -np.inf]
    rows = report(mined, ["q", "r", "s"])
    assert rows["positive_score"].to_pylist() == [7.0, None, None]
    events = RecordedEvents()
    report_counts(rows, Mining(number=1, margin=0.5), events)
    assert events.facts["questions_without_margin"] == 2 and "2 of 3 questions" in events.warnings[-1]


def test_missing_positives_are_not_the_last_passage(tmp_path):
    """-1 as an index is the last row: here the best passage of all."""
    small = line(tmp_path, [1.0, 2.0, 99.0])
    scores = best_positive_scores(small.index, np.repeat(ONE, 2, 0), [*asked("gone"), *asked("p1", "p0")])
    assert scores.tolist() == [-np.inf, 2.0]


# -- the range ---------------------------------------------------------------------------------


def test_the_range_is_of_the_ranking_as_retrieved_not_of_what_the_filter_leaves(tmp_path):
    small = line(tmp_path, [9.0, 8.0, 7.0, 6.0, 5.0, 4.0], {1: "gold", 3: "gold"})
    mined = small.mine(asked("p0"), depth=5, range_start=2)
    assert small.names(mined, mined.sampled) == ["p2", "p4"], "p0 and p1 are the two best, filtered or not"
    assert mined.filtered.totals() == {"range": 2, "positive": 0, "answer": 1}


# -- the ranking -------------------------------------------------------------------------------


def test_hits_are_ranked_by_inner_product_and_by_the_best_view(tmp_path):
    """By cosine `near` would be first; with views averaged, or zeros for absent ones, `several` would not be second."""
    passages = [passage(name, "x") for name in ("near", "large", "several", "below")]
    views = [[[1.0, 0.0]], [[30.0, 40.0]], [[-50.0, 0.0], [20.0, 0.0]], [[-2.0, 0.0], [-3.0, 0.0]]]
    small = mined_vectors(tmp_path, passages, views)
    mined = small.mine(asked(), depth=4)
    assert small.names(mined, mined.sampled) == ["large", "several", "near", "below"]
    assert mined.top.scores.tolist() == [[30.0, 20.0, 1.0, -2.0]]


# -- too few -----------------------------------------------------------------------------------


def test_too_few_survivors_stay_too_few_however_deep_the_search(tmp_path):
    small = line(tmp_path, [9.0, 8.0, 7.0, 6.0], {1: "gold"})
    mined = small.mine(asked("p0"), depth=50, number=30, margin=2.5)
    assert small.names(mined, mined.sampled) == ["p3"]
    assert mined.top.passages.shape == (1, 4)
    assert mined.filtered.totals() == {"range": 0, "positive": 1, "answer": 1, "margin": 1}
    events = RecordedEvents()
    report_counts(report(mined, ["q"]), Mining(number=30), events)
    assert events.facts["questions_with_fewer"] == 1 and events.facts["hits"] == 4
    assert "fewer than mining.number=30 mined negatives for 1 of 1 question" in events.warnings[0]


# -- hits that hold an answer ------------------------------------------------------------------


def test_answer_hits_are_left_out_kept_or_made_positives(tmp_path):
    small = line(tmp_path, [9.0, 8.0, 7.0, 6.0, 5.0], {0: "gold too", 1: "gold", 3: "all gold"})
    left = {}
    for answers in ("exclude", "keep", "positives"):
        mined = small.mine(asked("p1"), depth=5, range_start=1, answer_hits=answers)
        left[answers] = small.names(mined, mined.sampled), small.names(mined, mined.found)
    assert left == {
        "exclude": (["p2", "p4"], []),
        "keep": (["p2", "p3", "p4"], []),
        # A passed-over rank is no negative, but an answer there is an answer; the gold passage is known.
        "positives": (["p2", "p4"], ["p0", "p3"]),
    }


def test_the_text_of_a_positive_is_not_mined_under_another_id(tmp_path):
    small = line(tmp_path, [9.0, 8.0, 7.0], {0: "the same", 2: "the same"})
    for answers in ("exclude", "keep", "positives"):
        mined = small.mine(asked("p2"), answer_hits=answers)
        assert small.names(mined, mined.sampled) == ["p1"] and not mined.found.any()
        assert mined.filtered.totals()["positive"] == 2


def test_a_found_positive_is_what_training_reads(tmp_path):
    ids = pa.array(["a", "b", "c"])
    numbers_ = np.array([[2, 0, -1], [1, -1, -1]])
    scores = np.array([[3, 2, -np.inf], [5, -np.inf, -np.inf]], np.float32)
    kept = np.array([[True, False, False], [False, False, False]])
    found = np.array([[False, True, False], [True, False, False]])
    table = negatives_table("mined", ["x", "y"], numbers_, scores, kept, ids)
    assert read_positives_of(tmp_path, table) == {}, "a file of BM25 negatives"
    table = with_positives(table, numbers_, found, ids)
    assert table.to_pylist() == [
        {"qid": "x", "source": "mined", "negative_ids": ["c"], "scores": [3.0], "positive_ids": ["a"]},
        {"qid": "y", "source": "mined", "negative_ids": [], "scores": [], "positive_ids": ["b"]},
    ]
    assert read_positives_of(tmp_path, table) == {"x": ["a"], "y": ["b"]}


def read_positives_of(folder: Path, table: pa.Table) -> dict[str, list[str]]:
    write_negatives(folder, table)
    return read_positives(folder)


# -- all together ------------------------------------------------------------------------------


def test_a_hit_counts_at_the_first_reason_that_leaves_it_out():
    rows = np.array([[4, 3, 2, -1]])
    first, second = np.array([[True, False, False, True]]), np.array([[True, True, False, True]])
    filtered = filter_hits(rows, {"first": first, "second": second})
    assert filtered.kept.tolist() == [[False, False, True, False]]
    assert filtered.totals() == {"first": 1, "second": 1}


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Thirty passages with up to three views, half of them holding `gold`; some texts come several times."""
    rng = np.random.default_rng(1)
    passages = [passage(f"p{i}", f"{'gold' if rng.random() < 0.5 else 'x'} {i % 9}") for i in range(30)]
    views = [rng.normal(size=(rng.integers(1, 4), 2)) * 5 for _ in passages]
    return mined_vectors(tmp_path_factory.mktemp("crowd"), passages, views)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 9),
    st.integers(10, 40),
    st.integers(1, 12),
    st.sampled_from(["exclude", "keep", "positives"]),
    st.none() | st.floats(0, 5),
    st.none() | st.floats(0, 0.5),
    st.integers(0, 2**32),
)
def test_whatever_the_settings_counts_add_up_and_each_negative_is_one(
    crowd, start, depth, number, answers, margin, share, seed
):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(4, 2)).astype(np.float32)
    questions = [
        question(f"q{i}", "?", ["gold"], [f"p{n}" for n in rng.choice(32, rng.integers(0, 3), replace=False)])
        for i in range(4)
    ]
    mined = crowd.mine(
        questions,
        queries,
        range_start=start,
        depth=depth,
        number=number,
        answer_hits=answers,
        margin=margin,
        relative_margin=share,
    )
    plain = plain_scores(crowd, queries)
    reported = report(mined, [q.qid for q in questions])
    rows = reported.to_pylist()
    for i, (asked_, row) in enumerate(zip(questions, rows, strict=True)):
        left_out = sum(value for name, value in row.items() if name.startswith("excluded_"))
        assert row["hits"] == min(depth, 30) == left_out + row["left"]
        assert row["drawn"] == min(number, row["left"])
        order = np.argsort(-plain[i])
        best = max([plain[i][int(p[1:])] for p in asked_.positive_ids if int(p[1:]) < 30], default=None)
        positive = {p.text for p in crowd.passages if p.id in asked_.positive_ids}
        expected = [
            crowd.passages[n].id
            for n in order[start:depth]
            if crowd.passages[n].text not in positive
            and (answers == "keep" or not has_answer(crowd.passages[n].text, asked_.answers))
            and (best is None or margin is None or plain[i][n] <= best - margin)
            and (best is None or share is None or plain[i][n] <= best - share * abs(best))
        ]
        assert crowd.names(mined, mined.filtered.kept, i) == expected
        assert set(crowd.names(mined, mined.sampled, i)) <= set(expected)
        found = crowd.names(mined, mined.found, i)
        assert not set(found) & {*asked_.positive_ids, *crowd.names(mined, mined.sampled, i)}
    table = negatives_table("mined", [q.qid for q in questions], *hits(mined), mined.sampled, crowd.index.ids)
    for i, row in enumerate(table.to_pylist()):
        np.testing.assert_allclose(
            row["scores"], [plain[i][int(name[1:])] for name in row["negative_ids"]], rtol=1e-5, atol=1e-5
        )
    events = RecordedEvents()
    report_counts(reported, Mining(number=number), events)
    for name in rows[0]:
        if name not in ("qid", "positive_score"):
            assert events.facts[name] == sum(row[name] for row in rows)
    metrics = {name: value for name, value, _ in events.metrics}
    assert metrics.items() >= events.facts.items()


def hits(mined: MiningResult) -> tuple[np.ndarray, np.ndarray]:
    return mined.top.passages, mined.top.scores


# -- the key -----------------------------------------------------------------------------------


def test_a_round_s_negatives_are_found_again_by_content_never_by_name():
    """A cache by the model's name gives round two the negatives of round one."""
    step = STEPS["mine"]
    chosen = step.parse(step.configure(Config()))
    inputs = dict.fromkeys(step.inputs, "as before")
    keys = {step.key(chosen, inputs | {name: "another"}, {}) for name in step.inputs}
    assert len(keys | {step.key(chosen, inputs, {})}) == 1 + len(step.inputs)


def test_every_setting_of_mining_is_in_the_key():
    step = STEPS["mine"]
    changes = {
        "depth": 7,
        "range_start": 1,
        "number": 7,
        "answer_hits": "keep",
        "margin": 0.0,
        "relative_margin": 0.0,
        "cross_encoder_above": 0.7,
        "with_bm25": False,
        "seed": 7,
    }
    assert {*changes, "cross_encoder"} == set(Mining.model_fields)
    configs = [Config(), *(Config.model_validate({"mining": {k: v}}) for k, v in changes.items())]
    keys = {step.key(step.parse(step.configure(config)), {}, {}) for config in configs}
    assert len(keys) == 1 + len(changes)


@pytest.mark.parametrize("start", [200, 500])
def test_a_range_without_ranks_is_refused(start):
    with pytest.raises(Exception, match="mining.range_start: should be less than mining.depth=200"):
        resolve({"mining": {"range_start": start}})


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
