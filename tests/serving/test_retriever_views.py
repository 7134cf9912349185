"""A search of the first views of each passage: by an index of architecture meta, without encoding again."""

import json
from copy import copy

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.cli.search import print_answers
from multiview.errors import InputError
from multiview.index.ranking import TopPassages
from multiview.index.stored_views import LONGEST_VIEW
from multiview.index.view_index import ViewIndex
from multiview.model.layouts import LAYOUTS
from multiview.model.systems import resolve
from multiview.serving.retriever import load
from tests.fixtures.system_indexes import make


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("meta"), {"meta": {"model": {"architecture": "meta"}}}, views=2)


@given(st.integers(0, 2**32), st.integers(1, 5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_search_of_the_first_views_is_that_of_an_index_of_them(seed: int, count: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 7, rng.integers(1, 40))
    counts[0] = 6
    offsets = np.cumsum(counts) - counts
    draw = (lambda shape: rng.integers(-2, 3, shape)) if whole else rng.standard_normal
    views, queries = draw((counts.sum(), 4)).astype(np.float16), draw((3, 4)).astype(np.float32)
    ids = pa.array([f"p{number}" for number in rng.permutation(len(counts))])
    kept = np.concatenate([np.arange(o, o + min(c, count)) for o, c in zip(offsets, counts, strict=True)])
    fewer = np.minimum(counts, count)

    def index(views: np.ndarray, counts: np.ndarray) -> ViewIndex:
        header = {LONGEST_VIEW: float(np.linalg.norm(views.astype(float), axis=1).max(initial=0))}
        return ViewIndex(views, ids, np.cumsum(counts) - counts, counts, header)

    first = index(views, counts).first_views(count, LAYOUTS["meta"])
    alone = index(views[kept], fewer)
    for among in (None, rng.random(len(counts)) < 0.5):
        same(first.search(queries, 10, among=among), alone.search(queries, 10, among=among))
    ranges = [(0, 1), (1, 3), (0, None)]
    for one, other in zip(*(each.search_views(ranges, queries, 9) for each in (first, alone)), strict=True):
        same(one, other)
    asked = rng.integers(0, 3, 20), rng.integers(-1, len(counts), 20)
    np.testing.assert_array_equal(first.pair_scores(queries, *asked), alone.pair_scores(queries, *asked))
    for row in range(len(counts)):
        np.testing.assert_array_equal(first.views_of(row), alone.views_of(row))


def same(one: TopPassages, other: TopPassages) -> None:
    for name in ("passages", "scores", "winning_views"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_search_serve_and_evaluate_read_the_first_views(made, capsys) -> None:
    address, question = made.index("meta"), made.questions[0]
    retriever = load(address, views=2)
    whole = retriever.index.stored_counts
    assert (whole == 4).all() and len(retriever.index.views) == whole.sum()
    (hits,) = retriever.search([question], k=5, explain=True)
    query = retriever.question_vector(question)
    for hit in hits:
        row = retriever.index.row_of(hit.id)
        assert row is not None
        stored = retriever.index.views[4 * row : 4 * row + 2].astype(np.float32) @ query
        np.testing.assert_allclose([view.score for view in hit.views], stored, rtol=1e-5)
        assert hit.score == pytest.approx(stored.max(), rel=1e-5) and hit.best.number == 1 + stored.argmax()
    print_answers(iter([[question]]), address, 5, json=True, views=2)
    printed = json.loads(capsys.readouterr().out)
    assert [hit["id"] for hit in printed["hits"]] == [hit.id for hit in hits]
    folder = made.files(made.record("meta/round-0/evaluate", "evaluation"))
    rows = pq.read_table(folder / "questions.parquet").to_pylist()
    assert {row["top_view"] for row in rows} == {0, 1}
    best = [hits[0].id for hits in retriever.search(made.questions, 1)]
    assert [row["top_passage_id"] for row in rows] == best


def test_what_cannot_be_searched_by_first_views_is_refused(made, indexes) -> None:
    for address, views, line in (
        (made.index("meta"), 5, "views=5: the index has 4 views per passage; choose 1 to 4"),
        (
            indexes.index("camvr"),
            2,
            "views=2: the first views of architecture camvr do not stand for a passage",
        ),
    ):
        with pytest.raises(InputError, match=line):
            load(address, views=views)
    approximate = copy(load(made.index("meta")).index)
    approximate.exact = False
    with pytest.raises(InputError, match="views=2: an approximate index .*index.kind=exact"):
        approximate.first_views(2, LAYOUTS["meta"])
    approximate.exact, approximate.kept = True, pa.array([[True]] * len(approximate))
    with pytest.raises(InputError, match="views=2: the index leaves out views by index.merge_views"):
        approximate.first_views(2, LAYOUTS["meta"])


@pytest.mark.parametrize(
    ("model", "index", "line"),
    [
        ({"architecture": "camvr"}, {}, "evaluation.views: 2 .*architecture camvr"),
        ({"architecture": "meta", "views": 1}, {}, "evaluation.views: 2, but model.views is 1"),
        ({"architecture": "meta"}, {"kind": "compact"}, "evaluation.views: 2 needs index.kind=exact"),
        ({"architecture": "meta"}, {"merge_views": 0.9}, "evaluation.views: 2 needs .* all views"),
    ],
)
def test_an_evaluation_of_first_views_is_refused_before_work_begins(model, index, line) -> None:
    with pytest.raises(InputError, match=line):
        resolve({"model": model, "index": index, "evaluation": {"views": 2}})
