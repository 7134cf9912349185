"""The step `changes`: what must be encoded, by ids and contents alone."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multiview.artifacts.record import load_record
from multiview.config import Config
from multiview.data import passages as data
from multiview.errors import InputError
from multiview.index.view_index import PASSAGES_FILE
from multiview.lineage.trace import corpus_of, trace
from multiview.steps.table import STEPS
from multiview.steps.work import Work
from tests.fixtures.changing_vectors import ChangingVectors, edits, numbered, reference


@pytest.fixture
def vectors(tmp_path) -> ChangingVectors:
    return ChangingVectors(tmp_path / "store")


def shards(vectors: ChangingVectors, changes) -> list[pa.Table]:
    return [
        pq.read_table(file) for file in sorted((vectors.store.root / changes.data).glob("shard-*.parquet"))
    ]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_what_is_new_or_changed_is_encoded_and_the_rest_is_kept(tmp_path_factory, seed, number):
    vectors, rng = ChangingVectors(tmp_path_factory.mktemp("store")), np.random.default_rng(seed)
    before = edits(rng, numbered(*range(20)), 10)
    after = edits(rng, before, 10)
    model = vectors.model()
    index, passages = vectors.index(model, vectors.passages(before)), vectors.passages(after, number)
    record = vectors.changes(index, model, passages, corpus={"shards": 3})

    old = pq.read_table(vectors.store.root / record.data / "changes.parquet")["old"].to_pylist()
    known = list(before)
    record = vectors.changes(index, model, vectors.passages(corpus, nltk="3.9"))
    assert record.facts["kept"] == 0 and "splitter" in record.facts["full"]
