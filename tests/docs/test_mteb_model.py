"""docs/examples/mteb_model.py: the adapter by itself, and under the real library where that is installed."""

import json
import runpy

import numpy as np
import pytest

from multiview.data.passages import Passage, read_passages
from multiview.encoding.embeddings import Embeddings
from multiview.errors import InputError
from tests.fixtures.project import ROOT
from tests.fixtures.system_indexes import SYSTEMS, SystemIndexes

MtebModel = runpy.run_path(str(ROOT / "docs" / "examples" / "mteb_model.py"))["MtebModel"]


def model_address(indexes: SystemIndexes, system: str) -> str:
    return f"{indexes.store.url}/{indexes.record(f'{system}/initial-model', 'model').folder}"


def passages_of(indexes: SystemIndexes) -> list[Passage]:
    return list(read_passages(indexes.files(indexes.record("split", "passages"))))


def corpus_of(indexes: SystemIndexes) -> list[dict[str, str]]:
    return [{"id": each.id, "title": each.title, "text": each.text} for each in passages_of(indexes)]


def queries_of(indexes: SystemIndexes) -> list[dict[str, str]]:
    return [{"id": f"q{number}", "text": text} for number, text in enumerate(indexes.questions)]


@pytest.mark.parametrize("system", SYSTEMS)
def test_it_ranks_by_the_max_over_the_views_that_the_pipeline_encodes(indexes, system):
    model = MtebModel(indexes.index(system), device="cpu")
    model.index(corpus_of(indexes))
    found = model.search(queries_of(indexes), top_k=5)
    views: dict[str, np.ndarray] = {}
    for number in (0, 1):
        shard = indexes.record(f"{system}/round-0/encode/shard-{number:02d}", "embeddings")
        embeddings = Embeddings(indexes.files(shard))
        for row in embeddings.table.to_pylist():
            rows = embeddings.views[row["offset"] : row["offset"] + row["views"]]
            views[row["id"]] = rows.astype(np.float64)
    vectors = model._encoder.question_vectors(indexes.questions).astype(np.float64)
    for query, hits in zip(vectors, found.values(), strict=True):
        scores = {ident: (rows @ query).max() for ident, rows in views.items()}
        best = sorted(scores, key=lambda ident: -scores[ident])[:5]
        assert list(hits) == best
        np.testing.assert_allclose(list(hits.values()), [scores[ident] for ident in best], rtol=1e-5)


def test_a_reranking_ranks_what_it_is_given(indexes):
    model = MtebModel(indexes.index("camvr"), device="cpu")
    model.index(corpus_of(indexes))
    queries = queries_of(indexes)[:2]
    whole = model.search(queries, top_k=1000)
    given = {"q0": ["p7", "none", "p3", "p1"], "q1": []}
    found = model.search(queries, top_k=2, top_ranked=given)
    best = sorted(["p7", "p3", "p1"], key=lambda ident: -whole["q0"][ident])[:2]
    assert list(found["q0"]) == best and found["q1"] == {}
    np.testing.assert_allclose(list(found["q0"].values()), [whole["q0"][i] for i in best], rtol=1e-6)


def test_a_passage_without_text_is_its_title_and_one_without_either_is_not_found(indexes):
    model = MtebModel(indexes.index("camvr"), device="cpu")
    rows = [
        {"id": "a", "title": "Tower", "text": ""},
        {"id": "b", "title": None, "text": "Tower"},
        {"id": "c", "title": " ", "text": None},
    ]
    model.index(rows)
    (found,) = model.search([{"id": "q", "text": "tower"}], top_k=9).values()
    assert set(found) == {"a", "b"} and found["a"] == found["b"]


def test_an_instruction_is_read_with_its_question(indexes):
    model = MtebModel(indexes.index("camvr"), device="cpu")
    model.index(corpus_of(indexes))
    apart = model.search([{"id": "q", "text": "who", "instruction": "was it:"}], top_k=3)
    assert apart == model.search([{"id": "q", "text": "was it: who"}], top_k=3)
    assert apart != model.search([{"id": "q", "text": "who", "instruction": None}], top_k=3)
    with pytest.raises(InputError, match="question q is no text"):
        model.search([{"id": "q", "text": [{"role": "user", "content": "who"}]}], top_k=3)


def test_a_model_is_named_by_address_or_folder(indexes):
    record = indexes.record("camvr/initial-model", "model")
    index = indexes.index("camvr")
    names = [index, model_address(indexes, "camvr"), str(indexes.files(record))]
    assert {MtebModel(name, device="cpu").digest for name in names} == {record.digest}
    with pytest.raises(
        InputError, match="is the address of an artifact of kind passages: give a model's or an"
    ):
        MtebModel(f"{indexes.store.url}/{indexes.record('split', 'passages').folder}")
    with pytest.raises(InputError, match="encode.compute"):
        MtebModel(index, encode={"compute": "int8"})


def test_settings_are_the_index_s_unless_they_are_given(indexes):
    assert MtebModel(indexes.index("all-views"))._encoder.settings.index_padding_views
    assert not MtebModel(model_address(indexes, "all-views"))._encoder.settings.index_padding_views
    given = MtebModel(indexes.index("all-views"), encode={"index_padding_views": False})
    assert not given._encoder.settings.index_padding_views


@pytest.mark.acceptance
def test_mteb_runs_it_on_a_task(indexes, tmp_path):
    """The real library: its protocol, its ranking's figures, and its results under the model's name and digest."""
    mteb = pytest.importorskip("mteb", reason="the extra mteb is not installed")
    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from mteb.abstasks.retrieval import AbsTaskRetrieval  # pyright: ignore[reportMissingImports]
    from mteb.abstasks.task_metadata import TaskMetadata  # pyright: ignore[reportMissingImports]
    from mteb.models import SearchProtocol  # pyright: ignore[reportMissingImports]

    corpus, queries = corpus_of(indexes), queries_of(indexes)
    gold = {query["id"]: {f"p{number % 16}": 1} for number, query in enumerate(queries)}

    class Local(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name="LocalRetrieval",
            description="Passages of this test.",
            reference=None,
            dataset={"path": "local", "revision": "1"},
            type="Retrieval",
            category="t2t",
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )

        def load_data(self, *args: object, **kwargs: object) -> None:
            self.dataset = {
                "default": {
                    "test": {
                        "corpus": Dataset.from_list(corpus),
                        "queries": Dataset.from_list(queries),
                        "relevant_docs": gold,
                        "top_ranked": None,
                    }
                }
            }
            self.data_loaded = True

    model = MtebModel(indexes.index("camvr"), device="cpu")
    assert isinstance(model, SearchProtocol)
    cache = mteb.ResultCache(tmp_path / "results")
    (result,) = mteb.evaluate(model, Local(), cache=cache, prediction_folder=tmp_path).task_results
    (scores,) = result.scores["test"]

    model.index(corpus)
    found = model.search(queries, top_k=1000)
    ranks = [list(hits).index(next(iter(gold[qid]))) + 1 for qid, hits in found.items()]
    assert len(set(ranks)) > 3
    assert scores["ndcg_at_10"] == pytest.approx(
        np.mean([(r <= 10) / np.log2(r + 1) for r in ranks]), abs=1e-5
    )
    assert scores["recall_at_5"] == pytest.approx(np.mean([r <= 5 for r in ranks]), abs=1e-5)
    (meta,) = (tmp_path / "results").rglob("model_meta.json")
    described = json.loads(meta.read_text())
    assert (described["name"], described["revision"]) == ("multiview/camvr", model.digest)
    assert model.digest in meta.parts, "results of another model are other files"
