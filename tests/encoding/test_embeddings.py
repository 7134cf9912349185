"""`EmbeddingsWriter` writes the format to the byte, and `Embeddings` reads it."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from multiview.encoding import embeddings
from multiview.encoding.embeddings import Embeddings, EmbeddingsWriter
from multiview.errors import InputError

COUNTS = [2, 0, 3, 1]
"""Views per passage."""


def vectors() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(count, 3)).astype(np.float32) for count in COUNTS]


def write(folder: Path, queries: bool = False) -> Path:
    """Passages p0 to p3 in order, their views from the last to the first."""
    with EmbeddingsWriter(folder, 3, "digest", queries) as writer:
        rows = [
            writer.add_passage(f"p{i}", f"hash {i}", count, [f"{i}?"] * count)
            for i, count in enumerate(COUNTS)
        ]
        for i, views in reversed(list(enumerate(vectors()))):
            writer.write_views(f"p{i}", rows[i], views)
    return folder


def test_the_files_hold_what_was_written(tmp_path: Path) -> None:
    folder = write(tmp_path)
    expected = np.concatenate(vectors()).astype("<f2").tobytes()
    assert (folder / "views.f16").read_bytes() == expected
    assert pq.read_table(folder / "rows.parquet").to_pylist() == [
        {"id": f"p{i}", "content_hash": f"hash {i}", "offset": sum(COUNTS[:i]), "views": count}
        for i, count in enumerate(COUNTS)
    ]
    header = {"dim": 3, "rows": 6, "passages": 4, "model": "digest"}
    assert json.loads((folder / "embeddings.json").read_text()) == header


@pytest.mark.parametrize("block", [1, 2, 3, 4])
def test_the_rows_of_many_passages_are_those_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Which are written a block at a time."""
    monkeypatch.setattr(embeddings, "ROWS_PER_BLOCK", block)
    rows = pq.read_table(write(tmp_path) / "rows.parquet")
    assert (rows["id"].to_pylist(), rows["views"].to_pylist()) == (["p0", "p1", "p2", "p3"], COUNTS)


@pytest.mark.parametrize("queries", [False, True])
def test_the_reader_gives_back_what_was_written(tmp_path: Path, queries: bool) -> None:
    """Queries are one more column."""
    read = Embeddings(write(tmp_path, queries))
    assert (read.dim, read.rows, read.passages, read.model) == (3, 6, 4, "digest")
    np.testing.assert_array_equal(read.views, np.concatenate(vectors()).astype(np.float16))
    assert read.table["views"].to_pylist() == COUNTS and read.has_queries == queries
    asked = [[f"{i}?"] * count for i, count in enumerate(COUNTS)]
    assert not queries or read.table["queries"].to_pylist() == asked


@pytest.mark.parametrize("compute", ["float32", "float16"])
@pytest.mark.parametrize(
    ("value", "says", "way_out"),
    [
        (70000.0, "does not fit into float16", "train with model.normalise"),
        (np.nan, "contains NaN", "the model has diverged"),
    ],
)
def test_what_float16_cannot_hold_names_its_passage_and_leaves_no_header(
    tmp_path: Path, value: float, says: str, way_out: str, compute: str
) -> None:
    """Arithmetic in float16 is suspected first."""
    first = "set encode.compute=bfloat16; else " if compute == "float16" else ""
    with (
        pytest.raises(InputError, match=f"passage 'p': its vector {says}; {first}{way_out}"),
        EmbeddingsWriter(tmp_path, 1, "digest", compute=compute) as writer,
    ):
        writer.write_views("p", writer.add_passage("p", "hash", 1), np.array([[value]]))
    assert not (tmp_path / "embeddings.json").exists()
