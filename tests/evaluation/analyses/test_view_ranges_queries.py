"""Quality and diversity of generated queries, by hand and by the plain formulas."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.tokenizers import DefaultTokenizer

from multiview.evaluation.analyses.view_ranges import (
    WordTokenizer,
    diversity_levels,
    rouge_l_by_number,
    self_bleu,
)
from tests.fixtures.plain_queries import plain_bleu_4, plain_rouge_l

SENTENCES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=7).map(" ".join)


@given(SENTENCES, st.lists(SENTENCES, max_size=5))
@settings(max_examples=60, deadline=None)
def test_rouge_l_is_the_best_of_the_first_k(question: str, queries: list[str]) -> None:
    scores = [plain_rouge_l(question, query) for query in queries]
    expected = [max(scores[:k], default=0) for k in range(1, 5)]
    assert rouge_l_by_number(question, queries, 4) == pytest.approx(expected)


@given(st.lists(SENTENCES, min_size=2, max_size=5))
@settings(max_examples=60, deadline=None)
def test_self_bleu_is_the_mean_bleu_of_each_against_the_others(queries: list[str]) -> None:
    each = [plain_bleu_4(queries[:i] + queries[i + 1 :], query) for i, query in enumerate(queries)]
    assert self_bleu(queries) == pytest.approx(sum(each) / len(each))


def test_known_values() -> None:
    # Of "the large old bridge" and the question, "the … bridge" is common: 2 · 2 / (4 + 6).
    question = "Who built the bridge of Warsaw?"
    found = rouge_l_by_number(question, ["the large old bridge", "", "who BUILT the bridge of warsaw"], 4)
    assert found == pytest.approx([0.4, 0.4, 1.0, 1.0])
    assert self_bleu(["a b c d e", "a b c d f"]) == pytest.approx((4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert self_bleu(["one same long query"] * 3) == pytest.approx(1)
    assert self_bleu(["a b c", "d e f"]) == 0
    assert self_bleu(["only one"]) is None and self_bleu([]) is None


@given(st.text(st.characters(max_codepoint=126)))
def test_words_are_rouge_score_s_own_in_ascii(text: str) -> None:
    assert WordTokenizer().tokenize(text) == DefaultTokenizer(use_stemmer=False).tokenize(text)


def test_words_of_other_alphabets_count() -> None:
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, "Où était Варшава?")
        assert WordTokenizer().tokenize(text) == ["où", "était", "варшава"]
    assert rouge_l_by_number("где Варшава", ["где Варшава"], 1) == pytest.approx([1])


def test_each_letter_is_a_word_where_there_are_no_spaces() -> None:
    """A letter with its marks; by words, 0 would be common, and near copies as diverse as anything."""
    assert WordTokenizer().tokenize("東京タワーは1958年。") == [*"東京タワーは", "1958", "年"]
    assert WordTokenizer().tokenize("ที่นี่ and 한국 사람") == ["ที่", "นี่", "and", "한국", "사람"]
    # Of "谁建了塔" and "谁修了塔", 谁, 了 and 塔 are common: 2 · 3 / (4 + 4).
    assert rouge_l_by_number("谁建了塔", ["谁修了塔？"], 1) == pytest.approx([0.75])
    assert self_bleu(["华沙的桥是谁建的"] * 3) == pytest.approx(1)


def test_levels_have_equal_width_and_both_ends() -> None:
    levels = diversity_levels([0, 0.1999, 0.2, 0.99, 1], {"rouge_l": [0.1, 0.3, 0.5, 0.6, 0.8]})
    edges = [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert [(level["start"], level["stop"]) for level in levels] == [*pairwise(edges)]
    assert [level["passages"] for level in levels] == [2, 1, 0, 0, 2]
    assert [level["self_bleu_4"] for level in levels] == [pytest.approx(0.09995), 0.2, None, None, 0.995]
    assert [level["rouge_l"] for level in levels] == pytest.approx([0.2, 0.5, None, None, 0.7])
