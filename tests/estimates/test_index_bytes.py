"""The formulas for the bytes of an index, against the files of real ones."""

from pathlib import Path

import numpy as np
import pytest

from multiview.encoding.embeddings import VIEWS_FILE
from multiview.estimates.index_bytes import KINDS, ROW_BYTES, faiss_bytes, index_bytes, view_bytes
from multiview.index.view_index import INDEX_FILE, PASSAGES_FILE
from tests.fixtures.artifacts import write_embeddings, write_index

PASSAGES, VIEWS, DIM = 2_000, 5, 64


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    views = np.random.default_rng(0).normal(size=(PASSAGES, VIEWS, DIM)).astype(np.float32)
    ids = [f"passage-{number}" for number in range(PASSAGES)]
    return write_embeddings(tmp_path_factory.mktemp("embeddings") / "shard", ids, list(views))


@pytest.mark.parametrize("kind", [*KINDS, "Flat"])
def test_files_have_the_bytes_of_the_formula(shard: Path, tmp_path: Path, kind: str) -> None:
    write_index(tmp_path / "index", shard, kind=kind, measured=0)
    count, files = (
        PASSAGES * VIEWS,
        {file.name: file.stat().st_size for file in (tmp_path / "index").iterdir()},
    )
    assert files[VIEWS_FILE] == view_bytes(count, DIM)
    assert files.get(INDEX_FILE, 0) == pytest.approx(faiss_bytes(kind, count, DIM), rel=0.01)
    # Ids may have any length.
    assert files[PASSAGES_FILE] == pytest.approx(ROW_BYTES * PASSAGES, rel=0.2)
    assert sum(files.values()) == pytest.approx(index_bytes(kind, PASSAGES, count, DIM), rel=0.03)
