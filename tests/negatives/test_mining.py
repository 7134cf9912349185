"""Mining: what each filter leaves out, what is counted, and that nothing else becomes a negative.

The whole step, with a real model, runs in tests/negatives/test_mining_by_model.py.
"""

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multiview.config import Mining
from multiview.data.answers import has_answer
from multiview.model.systems import resolve
from multiview.negatives.filters import above_margin
from multiview.negatives.mining import (
    MiningResult,
    report,
    report_counts,
    sample_negatives,
)
from multiview.negatives.negatives_file import (
    negatives_table,
)
from tests.fixtures.artifacts import passage, question
from tests.fixtures.events import RecordedEvents
from tests.fixtures.mined_vectors import mined_vectors, plain_scores

numbers = st.floats(-200, 200, width=32)
margins = st.none() | st.floats(0, 50, allow_subnormal=False)
shares = st.none() | st.floats(0, 2, allow_subnormal=False)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-60, 60), min_size=1, max_size=6), numbers | st.just(-np.inf), margins, shares)
@example([0.4, -0.2, -0.6], -10.0, None, 0.05)  # 95 % of -10 is -9.5, above the positive
def test_a_hit_is_above_the_margin_by_the_plain_formula(nearer, positive, margin, share):
    """Of hits that score `nearer` than the positive, or less."""
    hits = np.array([np.nan_to_num(positive, neginf=0) + np.array(nearer)], np.float32)
    above = above_margin(hits, np.array([positive], np.float32), margin, share)
    for hit, left_out in zip(hits[0].tolist(), above[0], strict=True):
        if positive == -np.inf:
            assert not left_out, "a question without a positive in the index has no margin"
            continue
        limits = [positive - (share or 0) * abs(positive), positive if margin is None else positive - margin]
        assert left_out == any(hit > limit for limit in limits)
        assert left_out or hit <= positive, "whatever its sign, no margin lets a hit above the positive"


def test_a_hit_that_ties_with_its_positive_is_not_above_it_by_rounding(tmp_path):
    rng = np.random.default_rng(0)
    same = rng.normal(size=2) * 9
    queries = rng.normal(size=(40, 2)).astype(np.float32)
    twins = mined_vectors(tmp_path, [passage(f"p{i}", f"x {i}") for i in range(9)], [[same]] * 9)
    mined = twins.mine(
        [question(f"q{i}", "?", ["gold"], ["p3"]) for i in range(40)], queries, depth=9, margin=0.0
    )
    assert not mined.excluded["margin"].any()
    assert mined.kept.sum() == 40 * 8


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
def test_whatever_the_settings_each_hit_is_a_negative_or_left_out_for_the_first_reason(
    crowd, start, depth, number, answers, margin, share, seed
):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(4, 2)).astype(np.float32)
    questions = [
        question(f"q{i}", "?", ["gold"], [f"p{n}" for n in rng.choice(32, rng.integers(0, 3), replace=False)])
        for i in range(4)
    ]
    chosen = {"range_start": start, "depth": depth, "number": number, "answer_hits": answers}
    mined = crowd.mine(questions, queries, margin=margin, relative_margin=share, **chosen)
    plain = plain_scores(crowd, queries)
    reported = report(mined, [q.qid for q in questions])
    rows, without = reported.to_pylist(), 0
    for i, (asked, row) in enumerate(zip(questions, rows, strict=True)):
        best = max([plain[i][int(p[1:])] for p in asked.positive_ids if int(p[1:]) < 30], default=None)
        positive = {p.text for p in crowd.passages if p.id in asked.positive_ids}
        margins = [] if best is None else [margin, share and share * abs(best)]
        reasons, left, found = Counter(), [], []
        for rank, n in enumerate(np.argsort(-plain[i])[:depth]):
            known = crowd.passages[n].text in positive
            answered = has_answer(crowd.passages[n].text, asked.answers)
            reason = {
                "range": rank < start,
                "positive": known,
                "answer": answered and answers != "keep",
                "margin": any(plain[i][n] > best - less for less in margins if less is not None),
                "left": True,
            }
            reasons[first := next(name for name, applies in reason.items() if applies)] += 1
            left += [crowd.passages[n].id] * (first == "left")
            found += [crowd.passages[n].id] * (answered and not known and answers == "positives")
        assert crowd.names(mined, mined.kept, i) == left
        assert crowd.names(mined, mined.found, i) == found
        assert set(crowd.names(mined, mined.sampled, i)) <= set(left)
        excluded = {
            name.removeprefix("excluded_"): n for name, n in row.items() if name.startswith("excluded_")
        }
        assert excluded == {name: reasons[name] for name in excluded} and row["left"] == reasons["left"]
        assert row["hits"] == min(depth, 30) == sum(excluded.values()) + row["left"]
        assert row["drawn"] == min(number, row["left"]) and row["positives_found"] == len(found)
        has_margin = best is not None and (margin, share) != (None, None)
        assert row["positive_score"] == (pytest.approx(best, rel=1e-5, abs=1e-5) if has_margin else None)
        without += best is None
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
    if (margin, share) != (None, None):
        report_counts(reported, Mining(number=number, margin=margin, relative_margin=share), events)
        assert events.facts["questions_without_margin"] == without
    assert events.facts["questions_with_fewer"] == sum(row["drawn"] < number for row in rows)
    metrics = {name: value for name, value, _ in events.metrics}
    assert metrics.items() >= events.facts.items()


def hits(mined: MiningResult) -> tuple[np.ndarray, np.ndarray]:
    return mined.top.passages, mined.top.scores


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
