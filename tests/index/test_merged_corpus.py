"""Views that say the same as an earlier one of their passage are left out, whatever shards and blocks they are read in."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multiview.encoding.embeddings import QUERIES_FIELD, ROWS_FILE, Embeddings
from multiview.errors import InputError
from multiview.index import merged_corpus
from multiview.index.merged_corpus import distinct_views
from multiview.index.view_index import ViewIndex
from tests.fixtures.artifacts import write_embeddings, write_index

FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def kept(views: np.ndarray, cosine: float) -> list[int]:
    """By the definition, view by view."""
    found: list[int] = []
    for number, view in enumerate(views.astype(np.float64)):
        earlier = views[found].astype(np.float64)
        lengths = np.linalg.norm(earlier, axis=1) * np.linalg.norm(view)
        if not (earlier @ view > cosine * lengths).any():
            found.append(number)
    return found


@FEW
@given(st.integers(0, 2**32), st.sampled_from([0.001, 0.5, 0.9, 0.999]), st.integers(1, 20))
def test_a_view_is_left_out_for_an_earlier_one_that_is_kept(tmp_path_factory, seed, cosine, at_once):
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("made")
    passages = [rng.normal(size=(rng.integers(6), 4)).astype(np.float16) for _ in range(12)]
    for views in passages:  # some are equal, but for their length, and some are null
        for number in np.flatnonzero(rng.random(len(views)) < 0.4):
            views[number] = views[rng.integers(len(views))] * np.float16(rng.integers(3))
    expected = [kept(views, cosine) for views in passages]
    ids = [f"p{number:02d}" for number in range(len(passages))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged_corpus, "COMPARED_AT_ONCE", at_once)
        shard = Embeddings(write_embeddings(folder / "whole", ids, [*passages, np.empty((0, 4))]))
        keep = np.split(distinct_views(shard, cosine), np.cumsum([len(views) for views in passages])[:-1])
        assert [np.flatnonzero(each).tolist() for each in keep] == expected
        parts = [
            write_embeddings(folder / part, ids[where], [*passages[where], np.empty((0, 4))])
            for part, where in (("a", slice(5)), ("b", slice(5, None)))
        ]
        write_index(folder / "index", folder / "whole", merge_views=cosine)
        write_index(folder / "parts", *parts, merge_views=cosine)
    for name in ("views.f16", "passages.parquet", "index.json"):
        assert (folder / "index" / name).read_bytes() == (folder / "parts" / name).read_bytes()
    index = ViewIndex.load(folder / "index")
    queries = rng.normal(size=(5, 4)).astype(np.float32)
    by_hand = [
        views[found].astype(np.float64) @ queries.T for views, found in zip(passages, expected, strict=True)
    ]
    top = index.search(queries, len(ids))
    for question in range(len(queries)):
        for row, score, winner in top.hits(question):
            assert score == pytest.approx(by_hand[row][:, question].max())
            assert by_hand[row][winner, question] == pytest.approx(score)
    for row, found in enumerate(expected):
        np.testing.assert_array_equal(index.views_of(row), passages[row][found].astype(np.float32))
        assert np.flatnonzero(index.kept_rows(row)).tolist() == found
        assert len(index.kept_rows(row)) == len(passages[row])


def test_passages_read_with_queries_and_passages_read_without_are_no_index(tmp_path):
    asked, other = (
        write_embeddings(tmp_path / name, [name], [np.ones((1, 2))]) for name in ("asked", "other")
    )
    queries = pa.array([["who?"]], QUERIES_FIELD.type)
    pq.write_table(pq.read_table(asked / ROWS_FILE).append_column(QUERIES_FIELD, queries), asked / ROWS_FILE)
    for shards in ((asked, other), (other, asked)):
        with pytest.raises(
            InputError, match=r"asked: these .* with queries, and those of \S+other without: enc"
        ):
            write_index(tmp_path / "index", *shards)
