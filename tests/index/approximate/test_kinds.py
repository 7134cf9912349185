"""Approximate indexes: scores of their own are never shown, and what they miss is measured."""

import json
import runpy
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from multiview.errors import InputError
from multiview.evaluation.analyses.matrices import mean_cosines
from multiview.evaluation.metrics import measure, passage_recall
from multiview.index import merged_corpus
from multiview.index.approximate import search
from multiview.index.approximate.kinds import default_lists
from multiview.index.view_index import ViewIndex
from tests.fixtures.analysed_model import passage_scores
from tests.fixtures.artifacts import write_embeddings, write_index
from tests.fixtures.events import RecordedEvents

KINDS = [
    *(
        "compact",
        "tiny",
        "hnsw",
        "IVF{lists},PQ8x4fs",
        "IVF{lists}_HNSW16,SQ8",
        "SQfp16",
        "IVF4,Flat,Refine(SQ8)",
    )
]
DIM = 32


class ClusteredViews(NamedTuple):
    views: list[np.ndarray]
    ids: list[str]
    queries: np.ndarray
    whole: Path
    halves: list[Path]
    folder: Path

    def build(self, folder: Path, kind: str, shards: list[Path] | None = None, **settings) -> RecordedEvents:
        return write_index(folder, *(shards or [self.whole]), kind=kind, **settings)

    def scores(self) -> np.ndarray:
        """The max over the stored views of every passage [questions, passages] float64, -inf without a view."""
        queries = self.queries.astype(np.float64)
        stored = [views.astype(np.float16).astype(np.float64) for views in self.views]
        every = [(queries @ v.T).max(axis=1) if len(v) else np.full(len(queries), -np.inf) for v in stored]
        return np.stack(every, axis=1)


@pytest.fixture(scope="module")
def clustered(tmp_path_factory) -> ClusteredViews:
    """700 passages of none to six views in 35 clusters of different lengths, and questions near views."""
    folder = tmp_path_factory.mktemp("kinds")
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(35, DIM))
    views = []
    for _ in range(700):
        middle = centres[rng.integers(35)] + 0.5 * rng.normal(size=DIM)
        views.append(middle + 0.5 * rng.normal(size=(rng.choice([0, 1, 1, 2, 3, 6]), DIM)))
    ids = [f"p{number}" for number in rng.permutation(700)]
    asked = np.concatenate(views)[:: len(views) // 10][:40]
    queries = (asked + 0.3 * rng.normal(size=asked.shape)).astype(np.float32)
    shards = {
        name: write_embeddings(folder / name, ids[part], views[part])
        for name, part in (("whole", slice(None)), ("a", slice(300)), ("b", slice(300, None)))
    }
    whole, *halves = shards.values()
    return ClusteredViews(views, ids, queries, whole, halves, folder)


@pytest.fixture(scope="module")
def exact(clustered) -> ViewIndex:
    clustered.build(clustered.folder / "exact", "exact")
    return ViewIndex.load(clustered.folder / "exact")


@pytest.fixture(scope="module", params=KINDS)
def built(request, clustered) -> tuple[Path, RecordedEvents]:
    folder = clustered.folder / f"index-{KINDS.index(request.param)}"
    return folder, clustered.build(folder, request.param)


@pytest.fixture(autouse=True, scope="module")
def several_additions():
    """Views are added in several blocks, which begin and end within the shards and their own blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged_corpus, "ROWS_PER_BLOCK", 200)
        yield


def test_most_of_the_true_passages_are_found(clustered, built):
    top = ViewIndex.load(built[0]).search(clustered.queries, 10)
    best = np.argsort(-clustered.scores(), axis=1)[:, :10]
    assert passage_recall(top.passages, best, 10) > 0.9
    assert not top.exact


def test_scores_and_winning_views_are_those_of_the_stored_views(clustered, built):
    top = ViewIndex.load(built[0]).search(clustered.queries, 20)
    scores = clustered.scores()
    assert (top.passages >= 0).all()
    for question, query in enumerate(clustered.queries.astype(np.float64)):
        found = top.passages[question]
        assert len(set(found)) == 20
        np.testing.assert_array_equal(top.scores[question], scores[question, found].astype(np.float32))
        assert (np.diff(top.scores[question]) <= 0).all()
        for passage, view in zip(found, top.winning_views[question], strict=True):
            assert view == (clustered.views[passage].astype(np.float16).astype(np.float64) @ query).argmax()


def test_scores_that_float32_cannot_tell_apart_order_passages_as_they_do_exactly(tmp_path):
    views = [np.array([[1, 0]]), np.array([[1, 2.0**-10]])]
    shard = write_embeddings(tmp_path / "embeddings", ["a", "b"], views)
    for kind in ("exact", "Flat"):
        write_index(tmp_path / kind, shard, kind=kind)
        top = ViewIndex.load(tmp_path / kind).search(np.array([[1, 2.0**-20]]), 2)
        assert (top.passages.tolist(), top.scores.tolist()) == ([[1, 0]], [[1, 1]]), kind


def test_what_reads_views_reads_the_stored_ones(clustered, exact, built):
    """`pair_scores`, `view_scores`, and the analyses that copy views or go through all of them."""
    index = ViewIndex.load(built[0])
    numbers = np.tile(np.arange(-1, 699), (len(clustered.queries), 1))
    expected = np.concatenate([np.full((len(numbers), 1), -np.inf), clustered.scores()[:, :699]], axis=1)
    np.testing.assert_allclose(passage_scores(index, clustered.queries, numbers), expected, rtol=1e-6)
    for number in (0, 1, 5, 699):
        stored = clustered.views[number].astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(index.views_of(number), stored)
        np.testing.assert_allclose(
            index.view_scores(clustered.queries[0], number), stored @ clustered.queries[0], rtol=1e-5
        )
    one, other = (mean_cosines(i.views, i.view_counts) for i in (index, exact))
    np.testing.assert_array_equal(one, other)
    one, other = (i.search_views([(0, 2)], clustered.queries, 5)[0] for i in (index, exact))
    np.testing.assert_array_equal(one.passages, other.passages)
    assert one.exact, "the analysis itself looks at every first and second view"


def test_many_questions_are_searched_as_few(clustered, built, monkeypatch):
    index = ViewIndex.load(built[0])
    together = index.search(clustered.queries, 10)
    monkeypatch.setattr(search, "FETCHED_AT_ONCE", 1000)
    parts = index.search(clustered.queries, 10)
    for name in ("passages", "scores", "winning_views"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(together, name))


def test_all_passages_come_back_where_all_are_asked_for(clustered, built):
    """However few lists a search looks into; but a graph does not lead everywhere."""
    index = ViewIndex.load(built[0])
    index.header |= {"probes": 1, "rerank": 0}
    top = index.search(clustered.queries[:3], 700)
    real = np.flatnonzero([len(views) for views in clustered.views])
    for found, scores in zip(top.passages, top.scores, strict=True):
        got = found[found >= 0]
        assert np.isneginf(scores[len(got) :]).all() and (found[: len(got)] == got).all()
        if "HNSW" in index.header["factory"]:
            assert 0.3 * len(real) < len(got) == len(set(got)) and set(got) <= set(real)
        else:
            assert set(got) == set(real)


def test_two_shards_merged_are_the_index_of_one(clustered, built, tmp_path):
    """Byte for byte, graphs too: the same input and seed give the same files, however views are spread over shards and
    blocks."""
    kind = KINDS[int(built[0].name.rpartition("-")[2])]
    clustered.build(tmp_path / "two", kind, clustered.halves)
    for file in built[0].iterdir():
        assert (tmp_path / "two" / file.name).read_bytes() == file.read_bytes(), file.name


def test_the_header_says_how_it_was_built(clustered, built):
    folder, events = built
    header = json.loads((folder / "index.json").read_text())
    assert header["exact"] is False and header["kind"] == KINDS[int(folder.name.rpartition("-")[2])]
    metrics = {name: value for name, value, _ in events.metrics}
    assert metrics["bytes_per_passage"] == (folder / "index.faiss").stat().st_size / 700
    assert events.facts["build_seconds"] > 0
    assert events.steps[-1] == (header["views"], header["views"], "views")


def test_seed_and_rerank_are_those_of_the_settings(clustered, tmp_path):
    content = []
    for number, seed in enumerate((0, 0, 1)):
        clustered.build(tmp_path / str(number), "compact", seed=seed, rerank=7)
        content.append((tmp_path / str(number) / "index.faiss").read_bytes())
    assert content[0] == content[1] != content[2], "k-means begins elsewhere"
    assert ViewIndex.load(tmp_path / "0").header["rerank"] == 7


def test_recall_is_the_share_of_the_true_passages(clustered, exact, tmp_path):
    """By the definition, and as the questions of an evaluation measure an index that finds half."""
    best = exact.search(clustered.queries, 12).passages
    np.testing.assert_array_equal(best, np.argsort(-clustered.scores(), axis=1)[:, :12])
    found, true = np.array([[3, 9, 1, 7], [5, -1, -1, -1]]), np.array([[1, 2, 3, 9], [5, 6, -1, -1]])
    assert passage_recall(found, true, 4) == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert passage_recall(found, true, 2) == pytest.approx((0 / 2 + 1 / 2) / 2)
    clustered.build(tmp_path / "index", "compact")
    events, half = RecordedEvents(), best[:, :10].copy()
    half[:, 5:] = -1
    measure(ViewIndex.load(tmp_path / "index"), clustered.queries, half, events)
    assert events.metrics == [("index_recall_at_10", 0.5, None)], "of a depth of 10 there is no recall at 100"


def test_lists_follow_the_root_of_the_views():
    assert [default_lists(views) for views in (1, 39, 78, 20_000, 1_000_000, 147_000_000)] == [
        *(1, 1, 2, 512, 4000, 48497)
    ]


OTHERS = "it is one of exact, compact, tiny, hnsw, or a faiss factory string"


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("compcat", f"index.kind=compcat: faiss: could not parse index string compcat; {OTHERS}"),
        ("IVF4,Flut", "could not parse code description Flut in IVF4,Flut"),
        ("IVF5000,SQ8", "index.kind=IVF5000,SQ8: it cannot be trained with {views:,} views: faiss: "),
        ("NSG16,IDMap", "index.kind=NSG16,IDMap: faiss"),
    ],
)
def test_what_cannot_be_built_is_one_line_with_the_way_out(clustered, tmp_path, kind, says):
    with pytest.raises(InputError) as error:
        write_index(tmp_path / "index", clustered.whole, kind=kind)
    assert says.format(views=sum(map(len, clustered.views))) in str(error.value)
    assert "\n" not in str(error.value)


def test_no_views_have_no_approximate_index(tmp_path):
    shard = write_embeddings(tmp_path / "e", ["p"], [np.empty((0, 3))])
    with pytest.raises(InputError, match="there are no views to index; take index.kind=exact"):
        write_index(tmp_path / "index", shard, kind="compact")


@pytest.mark.documented("python -m benchmarks.index_kinds ")
def test_the_benchmark_prints_a_row_a_kind(documented, monkeypatch, capsys):
    small = "--passages 300 --views 4 --dim 16 --questions 20 --kinds 'compact tiny IVF4,Flat'"
    monkeypatch.setattr(sys, "argv", shlex.split(f"{documented} {small}")[2:])
    with pytest.raises(SystemExit, match="^0$"):
        runpy.run_module("benchmarks.index_kinds", run_name="__main__")
    header, _, *rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == ["| exact", "| compact", "| tiny", "| IVF4,Flat"]
    assert header[2:4] == ["recall@10", "recall@100"]
    assert all(float(row[2]) > 0.8 for row in rows) and rows[0][2:4] == ["1.000", "1.000"]
