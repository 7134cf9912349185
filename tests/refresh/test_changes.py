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
    kept = [id_ for id_, text in after.items() if before.get(id_) == text]
    assert old == [known.index(id_) if id_ in kept else -1 for id_ in after]
    written = shards(vectors, record)
    assert len(written) == 3 and written[0].schema == data.SCHEMA
    assert {table.num_rows for table in written} <= {
        size := (len(after) - len(kept)) // 3,
        size + 1,
    }, "as even as can be"
    rows = [row for table in written for row in table.to_pylist()]
    wanted = [row for row in data_rows(vectors, passages) if row["id"] not in kept]
    assert rows == wanted
    assert record.facts == {
        "full": "",
        "passages": len(after),
        "kept": len(kept),
        "added": len(set(after) - set(before)),
        "changed": len([id_ for id_ in after if id_ in before and before[id_] != after[id_]]),
        "removed": len(set(before) - set(after)),
        "to_encode": len(after) - len(kept),
    }
    assert vectors.metrics == {
        **{name: value for name, value in record.facts.items() if name != "full"},
        "share_encoded": (len(after) - len(kept)) / len(after),
    }


def data_rows(vectors: ChangingVectors, passages) -> list[dict]:
    files = sorted(vectors.files(passages).glob("shard-*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


@pytest.mark.parametrize(
    ("why", "settings"),
    [
        ("nothing to build on", {}),
        ("refresh.full", {"refresh": {"full": True}}),
        ("another model", {}),
        ("an index of another version of multiview", {}),
        ("embeddings of another version of multiview", {}),
        ("other settings of encode", {"encode": {"compute": "autocast"}}),
        ("sentences of another corpus.language or splitter", {}),
        ("", {}),
    ],
)
def test_everything_is_encoded_by_the_very_files_of_the_passages(vectors, monkeypatch, why, settings):
    """So that embeddings which another run made of them are found: the key of `encode` has the files' digests."""
    model, corpus = vectors.model(), numbered(*range(20))
    passages = vectors.passages(corpus, language="german" if "language" in why else "")
    before = vectors.passages(corpus if why else numbered(*range(5), version="other"))
    index = vectors.empty_index(model) if why == "nothing to build on" else vectors.index(model, before)
    model = vectors.model("another") if why == "another model" else model
    if "version" in why:
        name = "encode" if "embeddings" in why else "index"
        monkeypatch.setitem(STEPS, name, replace(STEPS[name], version=STEPS[name].version + 1))
    record = vectors.changes(index, model, passages, **settings)
    assert record.facts["full"] == why and record.facts["kept"] == 0
    assert record.facts["to_encode"] == 20 and vectors.metrics["share_encoded"] == 1
    encode, corpus_record = STEPS["encode"], load_record(passages.address)[1]
    config = encode.configure(Config())
    for shard in ("shard-00.parquet", "shard-01.parquet"):
        assert record.file(shard).sha256 == corpus_record.file(shard).sha256
        keys = {
            Work.resolve(
                encode,
                config,
                {"model": model, "passages": of.model_copy(update={"file": shard})},
                vectors.store,
            ).key
            for of in (passages, reference(vectors.store, record))
        }
        assert len(keys) == 1


def test_another_number_of_shards_is_cut_as_split_cuts(vectors):
    model, passages = vectors.model(), vectors.passages(numbered(*range(2500)), 1)
    record = vectors.changes(vectors.empty_index(model), model, passages, corpus={"shards": 2})
    files = [vectors.store.root / record.data / f"shard-0{number}.parquet" for number in (0, 1)]
    sizes = [
        [
            pq.read_metadata(file).row_group(group).num_rows
            for group in range(pq.read_metadata(file).num_row_groups)
        ]
        for file in files
    ]
    assert sizes == [[1000, 250], [1000, 250]]


def test_only_ids_and_hashes_of_the_index_are_read(vectors):
    """The vectors of the old index may be missing."""
    model, passages = vectors.model(), vectors.passages(numbered(*range(20)))
    index = vectors.index(model, passages)
    for file in vectors.files(index).iterdir():
        if file.name != PASSAGES_FILE:
            file.unlink()
    record = vectors.changes(index, model, passages)
    assert record.facts["kept"] == 20 and [table.num_rows for table in shards(vectors, record)] == [0, 0]
    assert vectors.metrics["share_encoded"] == 0
    (vectors.files(index) / PASSAGES_FILE).unlink()
    with pytest.raises(InputError, match=r"passages\.parquet is missing: remove the folder"):
        vectors.changes(index, model, passages, corpus={"shards": 1})


def test_the_record_names_what_was_not_staged(vectors):
    model, passages = vectors.model(), vectors.passages(numbered(*range(20)))
    index = vectors.index(model, passages)
    assert load_record(index.address)[1].inputs.keys() == {"model", "passages", "embeddings"}
    shutil.rmtree(vectors.store.root / "embeddings")
    corpus = corpus_of(trace([index]))
    assert corpus is not None and corpus.digest == passages.digest, "though embeddings are gone"
    record = vectors.changes(index, model, passages)
    assert record.inputs == {"index": [index], "model": [model], "passages": [passages]}


@pytest.mark.parametrize("step", ["encode", "index", "refresh-index"])
def test_changes_that_an_earlier_version_found_are_not_taken_by_a_later_one(vectors, monkeypatch, step):
    model, passages = vectors.model(), vectors.passages(numbered(*range(20)))
    index = vectors.index(model, passages)
    before = vectors.changes(index, model, passages)
    monkeypatch.setitem(STEPS, step, replace(STEPS[step], version=STEPS[step].version + 1))
    after = vectors.changes(index, model, passages)
    assert before.key != after.key
    assert [each.facts["kept"] for each in (before, after)] == [20, 20 if step == "refresh-index" else 0]


def test_sentences_that_another_nltk_split_are_encoded_anew(vectors):
    model, corpus = vectors.model(), numbered(*range(20))
    index = vectors.index(model, vectors.passages(corpus, nltk="3.8"))
    record = vectors.changes(index, model, vectors.passages(corpus, nltk="3.9"))
    assert record.facts["kept"] == 0 and "splitter" in record.facts["full"]
