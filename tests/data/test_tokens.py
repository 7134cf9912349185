"""Tokens of texts, the parts of a text that they came from, and decomposition with its origins."""

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.data.tokens import TokenizedText, decompose, joined_tokens, normalized
from tests.fixtures.answer_texts import answers, dpr_tokens, texts


@given(texts, st.sampled_from(["string", "characters"]))
@settings(max_examples=200, deadline=None)
def test_a_normalized_text_has_every_token(text, mode):
    """So that a text whose normal form lacks a word of an answer does not hold the answer."""
    for token in joined_tokens(text, mode).split():
        assert normalized(token) in normalized(text)


@given(texts, answers)
@settings(max_examples=150, deadline=None)
def test_every_match_is_found_and_reads_as_the_answer(text, answer):
    words, wanted = dpr_tokens(text), dpr_tokens(answer)
    number = sum(words[i : i + len(wanted)] == wanted for i in range(len(words))) if wanted else 0
    spans = TokenizedText(text).find(answer)
    assert len(spans) == number
    assert spans == sorted(spans)
    for start, stop in spans:
        found = dpr_tokens(text[start:stop])
        # A code point that decomposes into several tokens brings the others along.
        assert any(found[i : i + len(wanted)] == wanted for i in range(len(found)))


@given(texts)
@settings(max_examples=150, deadline=None)
def test_decomposed_text_is_nfd_and_knows_its_origin(text):
    decomposed, origin = decompose(text)
    assert decomposed == unicodedata.normalize("NFD", text)
    assert len(origin) == len(decomposed)
    assert all(
        point in unicodedata.normalize("NFD", text[i]) for point, i in zip(decomposed, origin, strict=True)
    )
