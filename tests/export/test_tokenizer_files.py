import json

import pytest

from multiview.errors import InputError
from multiview.export.tokenizer_files import (
    add_copies,
    id_of,
    question_tokenizer,
    read_tokenizer,
    special_tokens,
    write_tokenizer,
)
from multiview.model.encoder import BiEncoder
from tests.fixtures.exported_models import QUESTIONS, saved_model


@pytest.fixture(scope="module")
def model(base, tmp_path_factory):
    return saved_model(
        tmp_path_factory.mktemp("tokenizers") / "model", base, architecture="mvr", question_length=128
    )


def test_questions_have_the_tokens_of_the_layout(model):
    tokenizer = question_tokenizer(model / "question", "[VIE]", as_text=True)
    layout = BiEncoder.load(model, questions_only=True).layout
    for question in QUESTIONS[:4]:
        assert tokenizer.encode(question).ids == layout.question(question).input_ids


def test_what_spells_a_special_token_is_one_unless_read_as_text(model):
    plain, as_text = (
        question_tokenizer(model / "question", "[VIE]", as_text=choice) for choice in (False, True)
    )
    sep = id_of(plain, "[SEP]")
    assert plain.encode("a [SEP] b").ids.count(sep) == 2
    assert as_text.encode("a [SEP] b").ids.count(sep) == 1


def test_a_written_tokenizer_is_what_transformers_loads(model, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = question_tokenizer(model / "question", "[VIE]")
    write_tokenizer(tokenizer, special_tokens(model / "question"), tmp_path, 12)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded("the king’s")["input_ids"] == tokenizer.encode("the king’s").ids
    assert (loaded.model_max_length, loaded.pad_token, loaded.sep_token) == (12, "[PAD]", "[SEP]")


def test_copies_are_new_tokens(model):
    tokenizer = read_tokenizer(model / "passage")
    size = tokenizer.get_vocab_size()
    assert add_copies(tokenizer, ["[A]", "[B]"]) == [size, size + 1]
    with pytest.raises(InputError, match=r"does not know \[C\]"):
        id_of(tokenizer, "[C]")


def test_special_tokens_may_be_written_as_objects(tmp_path):
    config = {
        "cls_token": {"content": "<s>", "lstrip": False},
        "sep_token": "</s>",
        "pad_token": None,
        "other": 1,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert special_tokens(tmp_path) == {"cls_token": "<s>", "sep_token": "</s>"}


def test_a_slow_tokenizer_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no tokenizer.json"):
        read_tokenizer(tmp_path)
