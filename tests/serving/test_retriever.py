"""`multiview.load(address).search(…)` against the plain formula."""

import shutil
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import multiview
from multiview.config import Encode
from multiview.data.passages import Passage, read_passages
from multiview.encoding.embeddings import Embeddings, EmbeddingsWriter
from multiview.encoding.encode import encode_passages, encode_questions
from multiview.errors import InputError
from multiview.export.views import IndexViews
from multiview.model.layouts.base import TokenSequence, View, kept_views, row_numbers
from multiview.model.layouts.snippets import split_snippets
from multiview.serving import retriever as retrieving
from tests.fixtures import system_indexes
from tests.fixtures.events import RecordedEvents
from tests.fixtures.system_indexes import SYSTEMS, SystemIndexes, write_corpus


@pytest.fixture(scope="module", params=list(SYSTEMS))
def system(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def retriever(indexes, system):
    return multiview.load(indexes.index(system))


def stored_views(indexes: SystemIndexes, system: str) -> dict[str, np.ndarray]:
    """Each passage's rows in the embeddings, float64 [rows, dim]."""
    found = {}
    for number in (0, 1):
        record = indexes.record(f"{system}/round-0/encode/shard-{number:02d}", "embeddings")
        embeddings = Embeddings(indexes.files(record))
        for row in embeddings.table.to_pylist():
            found[row["id"]] = embeddings.views[row["offset"] : row["offset"] + row["views"]].astype(float)
    return found


def passages_of(indexes: SystemIndexes) -> dict[str, Passage]:
    folder = indexes.files(indexes.record("split", "passages"))
    return {passage.id: passage for passage in read_passages(folder)}


def test_hits_are_the_passages_with_the_highest_max_over_views(indexes, system, retriever):
    """f(q, d) = max over the stored views, in float64, over the whole corpus."""
    model = indexes.files(indexes.record(f"{system}/initial-model", "model"))
    settings = Encode.model_validate({"batch_tokens": 512, **SYSTEMS[system].get("encode", {})})
    queries = encode_questions(model, indexes.questions, settings, RecordedEvents()).astype(float)
    # The search encodes each question alone, here they share a batch: in bfloat16 that is seen.
    near = 1e-5 if settings.compute == "float32" else 1e-2
    views = stored_views(indexes, system)
    assert len(retriever) == len(views) > 10
    found = retriever.search(indexes.questions, k=7, explain=True)
    for query, hits in zip(queries, found, strict=True):
        scores = {ident: rows @ query for ident, rows in views.items()}
        best = sorted((row.max() for row in scores.values()), reverse=True)[:7]
        np.testing.assert_allclose([hit.score for hit in hits], best, rtol=near)
        for hit in hits:
            np.testing.assert_allclose(hit.score, scores[hit.id].max(), rtol=near)
            np.testing.assert_allclose([view.score for view in hit.views], scores[hit.id], rtol=10 * near)
            assert hit.best.number in [view.number for view in hit.views]
            winner = next(view for view in hit.views if view.number == hit.best.number)
            np.testing.assert_allclose(winner.score, scores[hit.id].max(), rtol=10 * near)
            assert (winner.span, winner.snippet) == (hit.span, hit.snippet)


def test_a_view_s_snippet_is_its_layout_s(indexes, system, retriever):
    """Of passages with titles apart and merged, with padding, and with as many snippets as there may be."""
    passages = passages_of(indexes)
    for hit in retriever.search(indexes.questions[:1], k=100, explain=True)[0]:
        passage = passages[hit.id]
        assert (hit.title, hit.text) == (passage.title, passage.text)
        got = [(view.number, view.span, view.snippet) for view in hit.views]
        if system == "mvr":
            assert got == [(number, None, None) for number in range(1, 5)]
        elif system == "dpr":
            assert got == [(1, (0, len(passage.text)), passage.text)]
        else:
            expected = []
            for number, one in enumerate(
                split_snippets(passage.title, passage.text, passage.sentence_ends, 4), 1
            ):
                if one.padding:
                    if system == "all-views":
                        expected.append((number, None, ""))
                elif one.span is None:
                    expected.append((number, None, passage.title))
                else:
                    expected.append((number, one.span, passage.text[slice(*one.span)]))
            assert got == expected


@given(st.lists(st.lists(st.booleans(), max_size=4), max_size=4), st.booleans())
def test_rows_are_numbered_as_they_were_placed(tmp_path_factory, shape, padding):
    """Wherever padding views stand, and in whichever of a passage's sequences."""
    sequences = [TokenSequence([0], tuple(View(((0, 1),), None, p) for p in part)) for part in shape]
    every = [view for sequence in sequences for view in sequence.views]
    placed: dict[int, View] = {}

    def encoded(members):
        for sequence, placement in members:
            assert placement.kept == kept_views(sequence.views, padding)
            placed.update({placement.row + i: sequence.views[view] for i, view in enumerate(placement.kept)})
            yield sequence, placement, np.zeros((len(sequence.views), 1), np.float32)

    layout = SimpleNamespace(passage=lambda passage, queries: sequences)
    settings, cpu = Encode(index_padding_views=padding), torch.device("cpu")
    encoder: Any = SimpleNamespace(layout=layout, settings=settings, device=cpu, passages=encoded)
    with EmbeddingsWriter(tmp_path_factory.mktemp("embeddings"), 1, "model") as writer:
        left_out = encode_passages(encoder, [(Passage("p", "", "", ()), ())], writer)
    assert left_out == len(every) - writer.rows
    numbered = [every[number] for number in row_numbers(every, writer.rows)]
    assert [id(view) for view in numbered] == [id(placed[row]) for row in range(writer.rows)]
    with pytest.raises(InputError, match="encode and index the corpus again"):
        row_numbers(every, len(every) + 1)


def test_only_an_approximate_index_needs_faiss(indexes, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match=r"needs faiss: pip install 'multiview-retrieval\[cpu\]'"):
        multiview.load(indexes.index("pooled"))
    assert len(multiview.load(indexes.index("camvr")))


IMPORTED = """
import sys, multiview
print(sorted({"torch", "faiss", "pyarrow", "numpy", "mlflow"} & set(sys.modules)))
assert multiview.load(sys.argv[1]).search(["Tesla?"])[0]
print(sorted({"faiss", "mlflow", "pandas", "pyarrow.dataset", "onnx", "multiview.export"} & set(sys.modules)))
"""


def test_an_import_is_light_and_one_question_needs_what_reads_the_index_and_the_model_alone(indexes):
    """Imports are most of the time of one question on the command line."""
    words = [sys.executable, "-c", IMPORTED, indexes.index("camvr")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n[]\n"


def test_the_corpus_s_own_columns_come_along(indexes, loaded):
    table = pq.read_table(indexes.store.root.parent / "passages.parquet")
    rows = {row["id"]: row for row in table.to_pylist()}
    for hit in loaded.search(indexes.questions[:1], k=100)[0]:
        assert hit.columns == {name: rows[hit.id][name] for name in ("url", "day")}
        assert hit.views == ()


def test_a_question_s_answer_does_not_depend_on_its_company(indexes, system, retriever, monkeypatch):
    """To the bit: hits hold their scores."""
    together = retriever.search(indexes.questions, k=5)
    assert retriever.search(indexes.questions[::-1], k=5)[::-1] == together
    assert [retriever.search([question], k=5)[0] for question in indexes.questions] == together
    monkeypatch.setattr(retrieving, "QUESTIONS_AT_ONCE", 3)
    assert retriever.search(indexes.questions, k=5) == together


def test_white_space_around_a_question_is_no_part_of_it(loaded, indexes, monkeypatch):
    """As it is trained and evaluated: a byte-level tokenizer has tokens for it."""
    question, encoded = indexes.questions[0], []
    vector = loaded._encoder.question_vector
    monkeypatch.setattr(loaded._encoder, "question_vector", lambda text: encoded.append(text) or vector(text))
    padded = f" {question}\u00a0\n"
    assert loaded.search([padded], k=5) == loaded.search([question], k=5)
    assert (loaded.question_vector(padded) == loaded.question_vector(question)).all()
    assert set(encoded) == {question}


def test_there_may_be_no_question_and_fewer_passages_than_wanted(loaded):
    assert loaded.search([], k=5) == []
    (most,) = loaded.search(["Tesla?"], k=1000)
    assert len({hit.id for hit in most}) == len(most) == len(loaded)
    assert loaded.search(["Tesla?"], k=10**15) == [most], "room is made for the passages that there are"
    with pytest.raises(TypeError, match="a list of questions"):
        loaded.search("Tesla?")
    with pytest.raises(ValueError, match="k must be 1 or more, not -1"):
        loaded.search(["who?"], k=-1)


def test_threads_get_what_one_thread_gets(indexes, loaded):
    """From the first call on, which is when a tokenizer is set up."""
    parts = [indexes.questions[i::8] * 3 for i in range(8)]
    alone = [loaded.search(part, k=5, explain=True) for part in parts]
    for _ in range(3):
        new, start = multiview.load(indexes.index("camvr")), threading.Barrier(8)

        def search(part, new=new, start=start):
            start.wait()
            return new.search(part, k=5, explain=True)

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(search, parts)) == alone


def test_questions_are_encoded_with_their_encoder_alone_and_the_settings_of_the_views(indexes):
    camvr, dpr = (multiview.load(indexes.index(each), device="cpu")._encoder for each in ("camvr", "dpr"))
    assert (camvr.settings.compute, dpr.settings.compute, camvr.settings.device) == (
        "float32",
        "autocast",
        "cpu",
    )
    assert (list(camvr.model.encoders), list(dpr.model.encoders)) == (["question"], ["passage"]), (
        "dpr is tied"
    )


def test_embeddings_need_not_be_kept(indexes, loaded, tmp_path):
    whole = loaded.search(indexes.questions, k=5)
    copied = indexes.copy(tmp_path / "store")
    shutil.rmtree(copied.store.root / "embeddings")
    assert multiview.load(copied.index("camvr")).search(indexes.questions, k=5) == whole


def test_times_beyond_int96s_default_and_uuids_are_right_in_hits_conditions_and_exports(
    tmp_path, monkeypatch
):
    """As Spark and DuckDB write them."""

    def with_columns(folder, hostile):
        passages, questions = write_corpus(folder, hostile)
        table = pq.read_table(passages).select(["id", "title", "text"])
        until = [datetime(9999, 12, 31), *[datetime(2001, 2, 3)] * (len(table) - 1)]
        uids = [uuid.UUID(int=number).bytes for number in range(len(table))]
        table = table.append_column("until", pa.array(until, pa.timestamp("us")))
        table = table.append_column("uid", pa.array(uids, pa.uuid()))
        pq.write_table(table, passages, use_deprecated_int96_timestamps=True)
        return passages, questions

    monkeypatch.setattr(system_indexes, "write_corpus", with_columns)
    address = system_indexes.make(tmp_path, {"dpr": SYSTEMS["dpr"]}).index("dpr")
    retriever = multiview.load(address)
    columns = {"until": datetime(9999, 12, 31), "uid": str(uuid.UUID(int=0))}
    for where in ('until >= "2026-01-01"', f'uid == "{columns["uid"]}"'):
        ((hit,),) = retriever.search(["Who?"], where=where)
        assert (hit.id, {name: hit.columns[name] for name in columns}) == ("p0", columns)
    rows = pa.Table.from_batches(IndexViews.open(address).batches()).to_pylist()
    assert [row["columns"] for row in rows if row["passage_id"] == "p0"] == [columns]
