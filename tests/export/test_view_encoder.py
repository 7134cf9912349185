import pytest
from sentence_transformers import MultiVectorEncoder

from multiview.errors import InputError
from multiview.export.model_card import Description
from multiview.export.sentence_transformers import write_sentence_transformers
from tests.fixtures.exported_models import QUESTIONS, saved_model, some_passages


@pytest.fixture(scope="module")
def folder(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    model = saved_model(
        folder / "model", base, architecture="camvr", pooling="snippet", normalise=True, scale=20.0
    )
    write_sentence_transformers(model, folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def model(folder):
    return MultiVectorEncoder(str(folder), device="cpu", trust_remote_code=True)


def test_texts_are_split_into_sentences_and_a_question_has_one_vector(model):
    assert model.encode_query(QUESTIONS[0]).shape == (1, 64)
    assert [each.shape for each in model.encode_query(QUESTIONS)] == [(1, 64)] * len(QUESTIONS)
    text = "It was built by the king. He died."
    (views,) = model.encode_document([text])
    (same,) = model.encode_document([{"title": "", "text": text, "sentence_ends": [26, 34]}])
    assert views.shape == (2, 64)
    assert (views == same).all()
    (titled,) = model.encode_document([{"title": "Tower", "text": text}])
    assert titled.shape == (3, 64)


def test_texts_are_split_into_sentences_of_the_corpus_s_language(base, tmp_path):
    """Also as sentence-transformers saves the model."""
    model = saved_model(tmp_path / "model", base, architecture="camvr")
    write_sentence_transformers(model, tmp_path / "out", Description(language="chinese"))
    loaded = MultiVectorEncoder(str(tmp_path / "out"), device="cpu", trust_remote_code=True)
    loaded.save_pretrained(str(tmp_path / "again"))
    again = MultiVectorEncoder(str(tmp_path / "again"), device="cpu", trust_remote_code=True)
    for each in (loaded, again):
        assert each.encode_document(["国王建了它。他死了。"])[0].shape == (2, 64)


def test_what_is_no_text_is_refused(model):
    with pytest.raises(InputError, match="3 is no text"):
        model.encode_query([3])
    with pytest.raises(InputError, match="None is no text"):
        model.encode_document([{"title": "Tower"}])


def test_a_model_that_sentence_transformers_saved_gives_the_same_scores(model, tmp_path):
    model.save_pretrained(str(tmp_path / "again"))
    again = MultiVectorEncoder(str(tmp_path / "again"), device="cpu", trust_remote_code=True)
    texts = [passage.text for passage in some_passages()]
    first, second = (
        each.similarity(each.encode_query(QUESTIONS), each.encode_document(texts)) for each in (model, again)
    )
    assert (first == second).all()


@pytest.mark.parametrize("architecture", ["camvr", "equal-splits"])
def test_only_views_that_depend_on_sentences_need_data_of_a_language(base, tmp_path, architecture):
    model = saved_model(tmp_path / "model", base, architecture=architecture)
    write_sentence_transformers(model, tmp_path / "out", Description(language="finnish"))
    needed = "finnish sentences by NLTK's data" in (tmp_path / "out/README.md").read_text()
    assert needed == (architecture == "camvr")
    if not needed:
        loaded = MultiVectorEncoder(str(tmp_path / "out"), device="cpu", trust_remote_code=True)
        assert len(loaded.encode_document(["Kuningas rakensi sen. Hän kuoli."])) == 1
