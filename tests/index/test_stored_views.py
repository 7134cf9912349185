"""Views in a store are read in blocks that are checked, and searched with the same results as in memory."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.artifacts.staging import StoredFile
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.index import exact, stored_views, view_index
from multiview.index.exact import ALL_VIEWS, ExactSearch
from multiview.index.ranking import TieOrder
from multiview.index.stored_views import StreamedViews, longest_view, open_views, score_rows
from tests.fixtures.analysed_model import hand_index, passage_scores


class CountingStore(LocalStore):
    """A folder that counts how often each part of a file is read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read_parts: Counter[int] = Counter()

    def read_part(self, path: str, start: int, stop: int) -> bytes:
        self.read_parts[start] += 1
        return super().read_part(path, start, stop)


def written(folder: Path, views: np.ndarray, rows_per_block: int) -> tuple[CountingStore, StreamedViews]:
    """Views in a store, and as they are read from there."""
    store = CountingStore(folder)
    (folder / "views.f16").write_bytes(views.tobytes())
    file = StoredFile(store, "views.f16", views.nbytes)
    digests = [
        hashlib.sha256(views[start : start + rows_per_block].data).hexdigest()
        for start in range(0, len(views), rows_per_block)
    ]
    return store, StreamedViews(file, views.shape, rows_per_block, digests)


def some_views(rows: int, dim: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float16)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 2**32))
def test_slices_and_rows_are_those_of_the_array(tmp_path_factory, rows, rows_per_block, seed):
    views = some_views(rows, seed=seed)
    _, streamed = written(tmp_path_factory.mktemp("views"), views, rows_per_block)
    assert streamed.shape == views.shape and len(streamed) == rows
    rng = np.random.default_rng(seed)
    for _ in range(10):
        start, stop = rng.integers(0, rows + 3, 2)
        np.testing.assert_array_equal(streamed[start:stop], views[start:stop])
        some = rng.integers(0, rows, rng.integers(0, 8))
        np.testing.assert_array_equal(streamed.take(some, axis=0), views.take(some, axis=0))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 40),
    st.sampled_from([1, 2, 70]),
    st.integers(1, 12),
    st.sampled_from([1.0, 0.3]),
    st.integers(0, 2**32),
)
def test_a_search_of_views_in_a_store_equals_one_in_memory(
    tmp_path_factory, passages, rows_per_block, questions, k, share, seed
):
    """To the bit: passages, scores and winning views, by all views and by some, among all passages and among some."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, passages)
    views = rng.integers(-2, 3, (int(counts.sum()), 4)).astype(np.float16)  # of which many tie
    _, streamed = written(tmp_path_factory.mktemp("views"), views, rows_per_block)
    queries = rng.integers(-3, 4, (questions, 4)).astype(np.float32)
    ties = TieOrder(pa.array([str(number) for number in rng.permutation(passages)]))
    ranges = [ALL_VIEWS, (0, 1), (1, 3)]
    among = None if share == 1 else rng.random(passages) < share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "QUESTIONS_AT_ONCE", 40)
        found, expected = (
            ExactSearch(matrix, np.cumsum(counts) - counts, ties, longest_view(views)).top(
                queries, k, ranges, among=among
            )
            for matrix in (streamed, views)
        )
    for one, other in zip(found, expected, strict=True):
        for name in ("passages", "scores", "winning_views"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_search_reads_each_block_once(tmp_path):
    """And scores what it proposes from blocks that are in memory, however many questions there are."""
    views = some_views(6_000, 32)
    store, streamed = written(tmp_path, views, 100)
    queries = np.random.default_rng(1).standard_normal((300, 32)).astype(np.float32)
    offsets = np.arange(0, 6_000, 3)
    ties = np.arange(len(offsets))
    search = ExactSearch(streamed, offsets, ties, longest_view(views))
    search.top(queries, 20, [ALL_VIEWS, (0, 1)])
    assert len(store.read_parts) == 60
    assert set(store.read_parts.values()) == {1}


def test_given_passages_are_scored_in_one_reading(tmp_path, monkeypatch):
    """However many pairs are scored at once, and however many passages one question has beside the others."""
    rng = np.random.default_rng(0)
    passages = [rng.standard_normal((1 + number % 4, 8)) for number in range(300)]
    mapped, streaming = (hand_index(passages, [f"p{number:03}" for number in range(300)]) for _ in range(2))
    assert isinstance(mapped.views, np.ndarray)
    store, streamed = written(tmp_path, mapped.views, 50)
    streaming.views = streamed
    rows = np.full((100, 30), -1)
    rows[:, 0] = rng.integers(0, 300, 100)
    rows[7] = rng.integers(0, 300, 30)
    queries = rng.standard_normal((100, 8)).astype(np.float32)
    expected = passage_scores(mapped, queries, rows)
    for module in (stored_views, view_index):
        monkeypatch.setattr(module, "PAIRS_AT_ONCE", 9)
    np.testing.assert_array_equal(passage_scores(streaming, queries, rows), expected)
    assert len(store.read_parts) == 15 and set(store.read_parts.values()) == {1}


def test_a_few_blocks_are_held(tmp_path):
    views = some_views(1_000)
    store, streamed = written(tmp_path, views, 10)
    _ = streamed[0:1_000]
    assert len(streamed._held) == stored_views.HELD
    _ = streamed[980:1_000]
    assert set(store.read_parts.values()) == {1}, "the last blocks are still there"
    _ = streamed[0:5]
    assert store.read_parts[0] == 2


def test_rows_in_any_number_are_scored_as_in_memory(tmp_path):
    views = some_views(500, 16)
    _, streamed = written(tmp_path, views, 7)
    rows = np.sort(np.random.default_rng(0).choice(500, 200))
    questions = np.zeros(200, np.int64)
    rows, first = np.unique(rows, return_index=True)
    queries = np.random.default_rng(1).standard_normal((1, 16))
    np.testing.assert_array_equal(
        score_rows(streamed, rows, queries, questions[first]),
        score_rows(views, rows, queries, questions[first]),
    )


def test_a_block_that_is_altered_cut_or_gone_is_named(tmp_path):
    views = some_views(20)
    _, streamed = written(tmp_path, views, 8)
    file = tmp_path / "views.f16"
    damaged = bytearray(views.tobytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    np.testing.assert_array_equal(streamed[:16], views[:16])
    with pytest.raises(
        InputError, match=r"views\.f16: block 2 is not what was written \(sha256 differs\); delete"
    ):
        _ = streamed[16:20]
    _, streamed = written(tmp_path, views, 8)
    file.write_bytes(views.tobytes()[:-2])
    with pytest.raises(InputError, match="block 2 is not what was written"):
        streamed.take(np.array([19]))
    _, streamed = written(tmp_path, views, 8)
    file.unlink()
    with pytest.raises(InputError, match=r"views\.f16: is gone since this step began"):
        _ = streamed[:1]


def test_a_file_of_another_size_and_an_index_without_digests_are_refused(tmp_path):
    file = StoredFile(LocalStore(tmp_path), "views.f16", 70)
    header = {"views": 12, "dim": 3, "rows_per_block": 5, "block_sha256": ["", "", ""]}
    with pytest.raises(
        InputError, match=r"views\.f16: 70 bytes and 3 block digests, but 12 views of 3 float16"
    ):
        open_views(tmp_path / "views.f16", header, file)
    file = StoredFile(LocalStore(tmp_path), "views.f16", 72)
    assert len(open_views(tmp_path / "views.f16", header, file)) == 12
    with pytest.raises(InputError, match="72 bytes and 0 block digests, but 12 views"):
        open_views(tmp_path / "views.f16", {"views": 12, "dim": 3}, file)
