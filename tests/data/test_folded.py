"""Many texts folded at once are as each folded alone, and folding keeps what tokens are made of."""

import sys
import unicodedata

import pyarrow as pa
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.data.folded import SHORT, FoldedTexts, alone
from multiview.data.tokens import fold, stands_alone
from tests.fixtures.answer_texts import dpr_tokens, texts

hard = st.lists(texts | st.text("a ée\u0301", min_size=SHORT, max_size=2 * SHORT), max_size=6)


@given(hard, st.integers(0, 3), st.sampled_from([pa.string(), pa.large_string()]))
@settings(max_examples=300, deadline=None)
def test_many_texts_are_folded_as_each_alone(some, first, type_):
    folded = FoldedTexts.of(pa.array(some, type_).slice(first))
    assert len(folded.bounds) == len(some[first:]) + 1 and folded.bounds[-1] == len(folded.data)
    for number, text in enumerate(some[first:]):
        assert folded.text(number).strip(" ") == fold(text).strip(" ")


@given(texts)
@settings(max_examples=300, deadline=None)
def test_a_folded_text_has_the_tokens_of_the_text(text):
    def without_final_sigma(tokens):
        return [token.replace("ς", "σ") for token in tokens]

    assert without_final_sigma(dpr_tokens(fold(text))) == without_final_sigma(dpr_tokens(text))


@given(
    st.lists(texts | st.text("a é,_\u0301", max_size=8), min_size=1, max_size=4),
    texts | st.text("a é,", min_size=1, max_size=3),
)
@settings(max_examples=500, deadline=None)
def test_a_phrase_stands_alone_in_bytes_where_it_does_in_the_string(some, phrase):
    """Or bytes do not say it, which they do where all is ASCII."""
    phrase = fold(phrase).strip()
    if not phrase:
        return
    folded = FoldedTexts.of(pa.array(some, pa.string()))
    for number, text in enumerate(some):
        bounds = folded.bounds[number : number + 2].tolist()
        found = alone(phrase.encode(), folded.data, *bounds)
        if found is None:
            assert not (text + phrase).isascii()
        else:
            assert found == stands_alone(phrase, fold(text))


def test_folding_keeps_what_belongs_to_words():
    """Of all characters: a letter, digit or mark stays one, a blank becomes a space, and any other stays what it is."""
    kinds = [
        regex.compile(kind)
        for kind in (r"[\p{L}\p{N}\p{M}]", r"[\p{Z}\p{C}]", r"[^\p{L}\p{N}\p{M}\p{Z}\p{C}]")
    ]

    def kind(character):
        return [bool(pattern.match(character)) for pattern in kinds].index(True)

    for point in range(sys.maxunicode + 1):
        decomposed = unicodedata.normalize("NFD", chr(point))
        folded = fold(chr(point))
        if kind(decomposed[0]) == 1:
            assert folded == " "
        else:
            assert [kind(each) for each in folded] == [kind(each) for each in decomposed], hex(point)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("A\tTower\n\n of  STONE", "a tower of stone"),
        ("ΟΔΟΣ Σ", "οδοσ σ"),
        ("a\u00a0\u2003b", "a b"),
        ("", ""),
    ],
)
def test_a_folded_text(text, folded):
    assert fold(text) == folded == FoldedTexts.of(pa.array([text])).text(0)
