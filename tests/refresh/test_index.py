"""The step `refresh-index`: when it builds anew and why, how far an index drifted, and what it refuses."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from multiview.artifacts.record import Reference, load_record
from multiview.config import Index
from multiview.errors import InputError
from multiview.index.approximate.kinds import make_index, train_index
from multiview.refresh import index as drift
from multiview.refresh.index import Drift, why_retrain
from tests.fixtures.changing_vectors import ChangingVectors, numbered, reference, stored, views_of

CORPUS = numbered(*range(200))


def facts(made: Reference) -> dict:
    return load_record(made.address)[1].facts


def header(vectors: ChangingVectors, made: Reference) -> dict:
    return json.loads((vectors.files(made) / "index.json").read_text())


@pytest.fixture
def vectors(tmp_path) -> ChangingVectors:
    return ChangingVectors(tmp_path / "store", index={"kind": "IVF4,SQ8"})


@pytest.mark.parametrize(
    ("why", "before", "now"),
    [
        ("another model", {}, {}),
        ("nothing to build on", {}, {}),
        ("refresh.full", {}, {"refresh": {"full": True}}),
        ("other settings of encode", {}, {"encode": {"compute": "autocast"}}),
        ("another index.merge_views", {"index": {"merge_views": 0.1}}, {}),
        ("another index.merge_views", {}, {"index": {"merge_views": 0.1}}),
        ("other settings of index", {"index": {"kind": "exact"}}, {}),
        ("other settings of index", {}, {"index": {"kind": "exact"}}),
        ("other settings of index", {"index": {"seed": 1}}, {}),
        ("an index of kind HNSW8,SQ8 cannot be edited", *[{"index": {"kind": "HNSW8,SQ8"}}] * 2),
        ("5.0% of the views were added since the index was trained, more than 1%", *[{}] * 2),
        ("no passage of the old index is kept", {}, {}),
    ],
)
def test_it_builds_anew_from_stored_views_and_says_why(vectors, why, before, now, monkeypatch):
    """The faiss index is then the one that the step `index` makes."""
    model = vectors.model()
    old = (
        vectors.empty_index(model)
        if why.startswith("nothing")
        else vectors.index(model, vectors.passages(CORPUS), **before)
    )
    corpus = CORPUS | numbered(200, 201, 202, 203, 204, 205, 206, 207, 208, 209)
    if why.startswith("no passage"):
        corpus = numbered(*range(200), version="rewritten")
    if "were added" in why:
        share = len(stored(numbered(*range(200, 210)))) / len(stored(corpus))
        why = why.replace("5.0%", f"{share:.1%}")
        monkeypatch.setattr(drift, "RETRAIN_ADDED", 0.01)
    model = vectors.model("another") if why == "another model" else model
    passages = vectors.passages(corpus)
    new = vectors.refresh(old, model, passages, **now)
    assert facts(new)["rebuilt"] == why
    rebuilt = vectors.index(model, passages, **now)
    grown = "HNSW" in why  # a graph is another one where it grew by other blocks
    names = {file.name for file in vectors.files(rebuilt).iterdir()}
    for name in names - ({"index.faiss", "index.json"} if grown else set()):
        assert (vectors.files(new) / name).read_bytes() == (vectors.files(rebuilt) / name).read_bytes(), name
    assert not (vectors.files(new) / "added.parquet").exists()


@pytest.mark.parametrize("refined", ["", ",RFlat", ",Refine(SQfp16)"])
def test_drift_is_the_error_of_what_came_since_over_that_of_the_rest(tmp_path, monkeypatch, refined):
    """By the plain formula, in float64, over all views, which are fewer than are drawn: where an index is refined, of
    the codes by which it finds."""
    vectors = ChangingVectors(tmp_path / "store", index={"kind": f"IVF4,SQ8{refined}"})
    model = vectors.model()
    old = vectors.index(model, vectors.passages(CORPUS))
    assert (header(vectors, old)["drift_added"], header(vectors, old)["drift_error"]) == (0, None)
    assert vectors.metrics["drift_added"] == 0 and "drift_error" not in vectors.metrics
    monkeypatch.setattr(drift, "RETRAIN_ERROR", 1e9)
    far = {f"q{number}": f"far {number} *3" for number in range(20)}
    corpus = dict(list(CORPUS.items())[50:]) | far
    new = vectors.refresh(old, model, vectors.passages(corpus))
    assert facts(new)["rebuilt"] == ""

    views = {
        name: stored(of)
        for name, of in (("all", CORPUS), ("kept", dict(list(CORPUS.items())[50:])), ("far", far))
    }
    chosen = Index(kind="IVF4,SQ8")
    index = make_index(chosen, chosen.kind, 8)
    train_index(index, views["all"], chosen)
    errors = {}
    for name in ("kept", "far"):
        decoded = index.sa_decode(index.sa_encode(views[name])).astype(np.float64)
        errors[name] = ((decoded - views[name]) ** 2).sum(axis=1).mean()
    about = header(vectors, new)
    assert about["drift_added"] == pytest.approx(len(views["far"]) / len(stored(corpus)))
    assert about["drift_error"] == pytest.approx(errors["far"] / errors["kept"]) and about["drift_error"] > 2
    assert (vectors.metrics["drift_added"], vectors.metrics["drift_error"]) == (
        about["drift_added"],
        about["drift_error"],
    )

    # What came since stays what came since, until the index is trained again.
    corpus |= {"q0": "far 0, but written anew"}
    again = vectors.refresh(new, model, vectors.passages(corpus))
    added = pq.read_table(vectors.files(again) / "added.parquet")["added"].to_pylist()
    assert [id_ for id_, since in zip(corpus, added, strict=True) if since] == list(far)
    monkeypatch.setattr(drift, "RETRAIN_ERROR", 2.0)
    anew = vectors.refresh(again, model, vectors.passages(dict(reversed(corpus.items()))))
    assert "times the squared error of the others, more than 2" in facts(anew)["rebuilt"]
    assert (header(vectors, anew)["drift_added"], header(vectors, anew)["drift_error"]) == (0, None)


@pytest.mark.parametrize("kind", ["compact", "IVF{lists},PQ4np", "IVF8,Flat"])
def test_a_corpus_that_shrank_gets_fewer_lists(tmp_path, kind):
    """As many as a new index has, at the latest where it would have half; a number that is given stays, and so do all
    where too few views are left to train a product quantizer with."""
    vectors = ChangingVectors(tmp_path / "store", index={"kind": kind})
    model, corpus = vectors.model(), numbered(*range(2000))
    made = vectors.index(model, vectors.passages(corpus))
    first, fewest = header(vectors, made)["lists"], 8 if kind == "IVF8,Flat" else 1
    for number in (1500, 700, 300):
        corpus = dict([*corpus.items()][:number])
        made = vectors.refresh(made, model, vectors.passages(corpus))
        now = header(vectors, made)["lists"]
        new = header(vectors, vectors.index(model, vectors.passages(corpus)))["lists"]
        assert new <= now < max(2 * new, fewest + 1)
        assert ("inverted lists are too many" in facts(made)["rebuilt"]) == (now < first)
        first = now
    made = vectors.refresh(made, model, vectors.passages(numbered(*range(20))))
    kept = "PQ" in kind or fewest == 8
    assert header(vectors, made)["lists"] == (first if kept else 1) and (facts(made)["rebuilt"] == "") == kept
    made = vectors.refresh(made, model, vectors.passages(numbered(*range(60))))
    assert (
        (header(vectors, made)["drift_added"] > drift.RETRAIN_ADDED)
        == (facts(made)["rebuilt"] == "")
        == ("PQ" in kind)
    )


@pytest.mark.parametrize("kind", ["PCA4,IVF{lists},SQ8", "ITQ4,IVF{lists},Flat", "IVF8,Flat"])
def test_a_corpus_too_small_to_train_an_index_with_is_no_reason_to_fail(tmp_path, kind):
    vectors = ChangingVectors(tmp_path / "store", index={"kind": kind})
    model = vectors.model()
    made = vectors.index(model, vectors.passages(numbered(*range(400))))
    made = vectors.refresh(made, model, vectors.passages(numbered(0, 1000)))
    assert header(vectors, made)["drift_added"] > drift.RETRAIN_ADDED and not facts(made)["rebuilt"]


@pytest.mark.parametrize("kind", ["exact", "compact", "SQfp16", "IVF4,SQ8,RFlat"])
def test_the_index_of_an_unchanged_corpus_is_the_old_one(tmp_path, kind):
    """The same digest, so that the gate keeps the champion."""
    vectors = ChangingVectors(tmp_path / "store", index={"kind": kind})
    model, passages = vectors.model(), vectors.passages(CORPUS)
    old = vectors.index(model, passages)
    assert vectors.refresh(old, model, passages).digest == old.digest


def test_the_error_of_few_views_does_not_train_an_index_again(monkeypatch):
    """A limit is passed by more than twice the standard error."""
    monkeypatch.setattr(drift, "RETRAIN_ERROR", 1.2)
    assert why_retrain(Drift(0.01, 1.5, 0.2)) == ""
    assert why_retrain(Drift(0.01, 1.5, float("inf"))) == ""
    assert "1.50 times the squared error of the others" in why_retrain(Drift(0.01, 1.5, 0.1))


def test_an_index_that_needs_no_training_does_not_drift(tmp_path, monkeypatch):
    monkeypatch.setattr(drift, "RETRAIN_ADDED", 0.0)
    vectors = ChangingVectors(tmp_path / "store", index={"kind": "SQfp16"})
    model = vectors.model()
    old = vectors.index(model, vectors.passages(CORPUS))
    new = vectors.refresh(old, model, vectors.passages(CORPUS | numbered(300, 301)))
    assert facts(new)["rebuilt"] == "" and "drift_added" not in header(vectors, new)


def test_passages_may_all_go_but_for_those_of_few_views(vectors):
    """Down to one that has views, and one that has none."""
    single = next(id_ for id_, text in CORPUS.items() if len(views_of(text)) == 1)
    none = next(id_ for id_, text in CORPUS.items() if not len(views_of(text)))
    model = vectors.model()
    old = vectors.index(model, vectors.passages(CORPUS))
    new = vectors.refresh(old, model, vectors.passages({id_: CORPUS[id_] for id_ in (none, single)}))
    assert facts(new)["views"] == 1 and facts(new)["passages"] == 2
    with pytest.raises(InputError, match="there are no views to index; take index.kind=exact"):
        vectors.refresh(new, model, vectors.passages({none: CORPUS[none]}, 1))


def test_what_does_not_belong_together_is_one_line(vectors):
    model, other = vectors.model(), vectors.model("another")
    first = vectors.passages(CORPUS)
    old, passages = vectors.index(model, first), vectors.passages(CORPUS | numbered(*range(300, 320)))
    changes = reference(vectors.store, vectors.changes(old, model, passages))
    made = vectors.embeddings(model, changes)

    def said(**given) -> str:
        inputs = {
            "old": old,
            "changes": changes,
            "model": model,
            "passages": passages,
            "embeddings": made,
            **given,
        }
        with pytest.raises(InputError) as error:
            vectors.run("refresh-index", inputs)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "but the index is to be of model" in said(embeddings=vectors.embeddings(other, changes))
    assert "encoded with {'compute': 'autocast'} of encode, but the index is to say the defaults" in said(
        embeddings=vectors.embeddings(model, changes, encode={"compute": "autocast"})
    )
    assert "the embeddings hold 10 passages, which are not the 20 of" in said(embeddings=made[:1])
    assert "the embeddings hold 20 passages, which are not the 20 of" in said(embeddings=made[::-1])
    with pytest.raises(InputError, match="were read with queries, and those of .* without: encode them"):
        asked = vectors.index(model, first, queries=True, index={"kind": "exact"})
        vectors.refresh(asked, model, passages, index={"kind": "exact"})
    file = vectors.files(old) / "views.f16"
    file.write_bytes(file.read_bytes()[:-1])
    assert "views.f16 has" in said() and "remove the folder" in said()
    file.unlink()
    assert "views.f16 is missing: remove the folder" in said()
