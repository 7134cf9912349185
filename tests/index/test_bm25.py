"""BM25: its formula, its ties, and the order of its best passages."""

import unicodedata
from types import SimpleNamespace
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Bm25
from multiview.index.bm25 import WORD, Bm25Index, best_rows, index_of, load_index, tokenizer, words
from multiview.index.ranking import TieOrder
from tests.fixtures.artifacts import passage

PASSAGES = [
    passage("d", "The capital of France is Paris.", "France"),
    passage("b", "Lyon was a capital once.", "Lyon"),
    passage("c", "Lyon was a capital once.", "Lyon"),
    passage("a", "Nothing of interest here.", "Else"),
    passage("e", "", ""),
]


def ids_of(index, top, row=0):
    return [index.ids[n].as_py() for n in top.passages[row] if n >= 0]


def test_bm25_is_lucene_s_formula():
    """Robertson's IDF of Lucene, ln(1 + (N - n + 0.5) / (n + 0.5)), k1 = 0.9, b = 0.4, in float64."""
    docs = [
        ["franc", "capit", "franc", "pari"],
        ["lyon", "lyon", "capit", "onc"],
        ["els", "noth", "interest", "here"],
    ]
    index = Bm25Index.of([PASSAGES[0], PASSAGES[1], PASSAGES[3]], Bm25(), "english")
    top = index.search(["capital France"], 3)
    mean = np.mean([len(doc) for doc in docs])
    expected = []
    for doc in docs:
        score = 0.0
        for word in ("capit", "franc"):
            n = sum(word in other for other in docs)
            tf = doc.count(word)
            score += np.log(1 + (3 - n + 0.5) / (n + 0.5)) * tf / (tf + 0.9 * (0.6 + 0.4 * len(doc) / mean))
        expected.append(score)
    assert ids_of(index, top) == ["d", "b"]
    np.testing.assert_allclose(top.scores[0, :2], expected[:2], rtol=1e-6)
    assert top.winning_views[0].tolist() == [0, 0, -1]


def test_bm25_ties_go_to_the_smaller_id_and_only_shared_words_count():
    index = Bm25Index.of(PASSAGES, Bm25(), "english")
    top = index.search(["capitals", "of the", "", "zzz unseen"], 4)
    assert ids_of(index, top, 0) == ["b", "c", "d"]  # of equal length; stemmed; the others share no word
    for row in (1, 2, 3):  # stop words alone, nothing, unknown words
        assert ids_of(index, top, row) == []
        assert np.isneginf(top.scores[row]).all()
    reverse = Bm25Index.of(PASSAGES[::-1], Bm25(), "english")
    assert ids_of(reverse, reverse.search(["capitals"], 4)) == ids_of(index, top, 0)


def test_a_result_of_bm25_is_no_wider_than_the_collection():
    index = Bm25Index.of(PASSAGES, Bm25())
    whole, deep = (index.search(["capital Lyon", ""], k) for k in (len(PASSAGES), 10**6))
    assert deep.passages.shape == (2, len(PASSAGES))
    np.testing.assert_array_equal(deep.passages, whole.passages)
    np.testing.assert_array_equal(deep.scores, whole.scores)
    assert Bm25Index.of([], Bm25()).search(["capital"], 10**6).passages.tolist() == [[-1]]


def test_bm25_searches_some_passages_alone_and_their_scores_stay():
    index = Bm25Index.of(PASSAGES, Bm25())
    whole, part = (index.search(["capital Lyon"], 5, among=among) for among in (None, np.arange(5) % 2 == 0))
    assert ids_of(index, whole) == ["b", "c", "d"] and ids_of(index, part) == ["c", "d"]
    assert part.scores[0, :2].tolist() == whole.scores[0, 1:3].tolist()
    assert ids_of(index, index.search(["capital Lyon"], 5, among=np.zeros(5, bool))) == []


def test_words_of_one_letter_or_digit_count():
    vitamins = [
        passage("b12", "Vitamin B and vitamin K were found later; 2 of them."),
        passage("c", "A lack of vitamin C causes scurvy; vitamin C is in fruit."),
        passage("d", "Vitamin D: 3 forms were found, later than the others."),
    ]
    index = Bm25Index.of(vitamins, Bm25(), "english")
    top = index.search(["vitamin C", "Vitamin K", "vitamin D's 3 forms", "the letter 'b'", "C?"], 3)
    assert [ids_of(index, top, row)[0] for row in range(5)] == ["c", "b12", "d", "b12", "c"]
    assert ids_of(index, top, 4) == ["c"]
    assert ids_of(index, index.search(["a"], 3)) == [], "a stop word"


def test_letters_that_an_apostrophe_joins_to_a_word_are_no_words():
    def words(text: str) -> list[str]:
        split = tokenizer("klingon")
        return split.decode(split.tokenize([text], show_progress=False))[0]  # pyright: ignore[reportArgumentType]

    assert words("Newton's law isn't d'Artagnan’s; l’eau, O'Neal") == [
        "newton", "law", "isn", "artagnan", "eau", "neal"
    ]  # fmt: skip
    assert words("C's 'c' x_1 _ 5° É") == ["c", "c", "x_1", "5", "é"]


def test_bm25_of_a_language_without_stemmer_or_stop_words_takes_words_as_they_stand():
    index = Bm25Index.of(PASSAGES, Bm25(), "klingon")
    assert ids_of(index, index.search(["capitals"], 4)) == []
    assert ids_of(index, index.search(["of"], 4)) == ["a", "d"]  # the shorter first


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 40), st.randoms())
def test_best_rows_are_a_plain_sort(values, k, shuffler):
    scores = np.array(values, np.float32)
    rank = list(range(len(values)))
    shuffler.shuffle(rank)
    plain = sorted((i for i in range(len(values)) if values[i] > 0), key=lambda i: (-values[i], rank[i]))[:k]
    assert best_rows(scores, np.array(rank), k).tolist() == plain


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize(
    ("language", "text", "question"),
    [
        ("german", "Mönchengladbach liegt am Rhein", "mönchengladbach"),
        ("russian", "Новый йод", "йод"),
        ("malayalam", "കേരളം ഇന്ത്യ", "കേരളം"),
        ("turkish", "İstanbul büyük", "istanbul"),
        ("english", "ﬁve thousand m²", "five"),
    ],
)
def test_a_word_is_found_however_unicode_writes_it(form, language, text, question):
    written = [passage("a", unicodedata.normalize(form, text)), passage("b", "others, കരള")]
    for asked in (question, unicodedata.normalize(form, question)):
        index = Bm25Index.of(written, Bm25(), language)
        assert ids_of(index, index.search([asked], 2)) == ["a"]


def test_marks_and_joiners_end_no_word():
    assert words("കേരളം sa\u0303o leader\u200d c\u0327a") == ["കേരളം", "são", "leader", "ça"]


@given(st.text(st.characters(codec="ascii")))
def test_words_of_plain_texts_are_those_of_all_texts(text):
    lowered = text.lower()
    assert words(lowered) == WORD.findall(lowered)


@pytest.mark.parametrize("passages", [PASSAGES, PASSAGES[-1:], []])
def test_a_loaded_index_finds_what_the_saved_one_finds(passages, tmp_path):
    index = Bm25Index.of(passages, Bm25(b=0.7))
    if made := index_of(passages, Bm25(b=0.7), "english"):
        made.save(tmp_path / "bm25")
    loaded = Bm25Index(load_index(tmp_path / "bm25"), index.ids, "english", TieOrder(index.ids))
    for asked in (["capital Lyon", "interests", ""], ["unseen words, capitals"]):
        one, other = index.search(asked, 5), loaded.search(asked, 5)
        np.testing.assert_array_equal(one.passages, other.passages)
        np.testing.assert_array_equal(one.scores, other.scores)


def test_an_index_of_an_earlier_version_is_searched(tmp_path):
    """Its words were sorted, and it had two more files, from which a refresh took the words of passages that stayed."""
    cutter, texts = tokenizer("english"), [f"{each.title} {each.text}" for each in PASSAGES]
    found: list[list[int]] = list(cutter.streaming_tokenize(texts, update_vocab=True, allow_empty=False))
    words_found = sorted(cutter.stem_to_sid, key=str)
    places = {cutter.stem_to_sid[word]: place for place, word in enumerate(words_found)}
    terms = [[places[number] for number in each] for each in found]
    vocabulary = {word: place for place, word in enumerate(words_found)}
    older = bm25s.BM25(k1=Bm25().k1, b=Bm25().b, method="lucene", backend="numpy")
    corpus: Any = SimpleNamespace(ids=terms, vocab=vocabulary)
    older.index(corpus, create_empty_token=False, show_progress=False)
    older.save(tmp_path)
    np.save(tmp_path / "terms.npy", np.concatenate(terms).astype(np.uint32))
    np.save(tmp_path / "counts.npy", np.array([len(each) for each in terms]))
    index = Bm25Index.of(PASSAGES, Bm25())
    loaded = Bm25Index(load_index(tmp_path), index.ids, "english", TieOrder(index.ids))
    one, other = (each.search(["capital Lyon", "interests of the capital"], 5) for each in (index, loaded))
    np.testing.assert_array_equal(one.passages, other.passages)
    np.testing.assert_array_equal(one.scores, other.scores)
