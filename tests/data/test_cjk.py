"""Sentences, words and terms of Chinese, Japanese and Korean."""

import re
import time
import unicodedata
from itertools import pairwise

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Corpus, Questions
from multiview.data import cjk
from multiview.data.reading.articles import by_sentences, by_words
from multiview.data.sentences import sentence_ends
from tests.fixtures.cjk_files import ARTICLES, squad_file
from tests.fixtures.split_run import Done, write

TEXTS = st.text(alphabet=st.sampled_from("東京はガｶﾞ서가A1. 。！?」「“”,、\n\u3000é\u3099"), max_size=60)


def sentences(text: str, language: str = "japanese") -> list[str]:
    ends = sentence_ends(text, language)
    return [text[start:stop] for start, stop in zip((0, *ends), ends, strict=False)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京は首都である。人口は約1400万人。", ["東京は首都である。", "人口は約1400万人。"]),
        ("「行く。」と彼は言った。次の日。", ["「行く。」と彼は言った。", "次の日。"]),
        ("他说：“好。”然后走了！“真的？”，他问。", ["他说：“好。”", "然后走了！", "“真的？”，他问。"]),
        ("何ですか?彼は\u3000来た！ ?", ["何ですか?", "彼は\u3000来た！ ", "?"]),
        ("서울은 수도이다. 인구는 3.5백만. 끝", ["서울은 수도이다. ", "인구는 3.5백만. ", "끝"]),
        ("URLはhttp://a?b=c です。", ["URLはhttp://a?b=c です。"]),
        ("", []),
    ],
)
def test_sentences_end_where_their_punctuation_says(text, expected):
    assert sentences(text) == expected


@given(TEXTS, st.sampled_from(sorted(cjk.LANGUAGES)))
def test_each_character_that_is_no_space_belongs_to_one_word(text, language):
    spans = cjk.word_spans(text, language)
    assert len(spans) == cjk.count_words(text, language)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))
    assert "".join(text[start:stop] for start, stop in spans) == re.sub(r"\s+", "", text)


@pytest.mark.parametrize("marks", ["!", "。", "（", "!)", "?!.", "」と"])
def test_long_runs_of_punctuation_take_no_more_than_their_share_of_time(marks):
    """A run of 40,000 marks took half a minute and more, and one of a million hours."""
    text = "東京" + 40_000 * marks + "」と"
    begun = time.process_time()
    assert "".join(sentences(text)) == text
    assert cjk.count_words(text, "japanese") >= 2
    assert time.process_time() - begun < 3


@settings(deadline=None)
@given(TEXTS, st.integers(1, 6), st.sampled_from(["words", "sentences"]))
def test_an_article_is_cut_after_so_many_letters(text, length, how):
    ends = sentence_ends(text, "japanese")
    cut = (
        by_words(text, length, "japanese") if how == "words" else by_sentences(text, ends, length, "japanese")
    )
    passages = [text[start:stop] for start, stop in cut]
    assert re.sub(r"\s+", "", "".join(passages)) == re.sub(r"\s+", "", text)
    assert sum(cjk.count_words(passage, "japanese") for passage in passages) == cjk.count_words(
        text, "japanese"
    )
    assert all(1 <= cjk.count_words(passage, "japanese") <= length for passage in passages)


def test_an_article_of_4800_letters_is_48_passages():
    text = "東京は日本の首都で、" * 533 + "終。"
    assert len(by_words(text, 100, "japanese")) == 48
    assert len(by_words(text, 100)) == 1, "words between spaces, in another language"


def test_terms_are_pairs_of_letters_and_words():
    word = regex.compile(r"\w\w+|[^\W_]")
    assert cjk.terms("ＡＢＣと東京タワー2020年 Vitamin C", word) == [
        *("abc", "と東", "東京", "京タ", "タワ", "ワー", "2020", "年", "vitamin", "c")
    ]
    assert cjk.terms("ｶﾞﾗｽ", word) == cjk.terms("ガラス", word) == ["ガラ", "ラス"]
    decomposed = unicodedata.normalize("NFD", "서울")
    assert cjk.terms(decomposed, word) == ["서울"]


@pytest.mark.parametrize("language", sorted(ARTICLES))
def test_a_file_of_squads_form_has_sentences_and_its_answers_stand_in_their_passages(tmp_path, language):
    file = squad_file(tmp_path / "dev.json", language)
    done = Done(
        tmp_path / "out", Corpus(language=language, shards=1), Questions(source=(file,), dev_source=(file,))
    )
    assert [passage.text for passage in done.passages] == [text for _, text, _ in ARTICLES[language]]
    for passage in done.passages:
        assert len(passage.sentence_ends) >= 2
    texts = {passage.id: passage.text for passage in done.passages}
    for question in done.dev:
        answer, start = question.answers[0], (question.answer_starts or (0,))[0]
        assert texts[question.positive_ids[0]][start:].startswith(answer)
    assert not [line for line in done.events.warnings if "corpus.language" in line]


def test_the_passages_of_an_article_that_hold_the_answer_are_its_positives(tmp_path):
    """Without offsets they are found by matching, here across a cut article of a language without spaces."""
    text = "".join(text for _, text, _ in ARTICLES["japanese"])
    source = write(tmp_path / "articles.jsonl", [{"id": "a", "title": "", "text": text}])
    asked = [
        {"qid": f"q{row}", "question": "?", "answers": [answer], "positive_ids": ["a"]}
        for row, answer in enumerate(["内藤多仲", "滋賀県"])
    ]
    questions = write(tmp_path / "questions.jsonl", asked)
    corpus = Corpus(source=(source,), language="japanese", cut="sentences", cut_length=30, shards=1)
    done = Done(tmp_path / "out", corpus, Questions(source=(questions,), dev_source=(questions,)))
    assert len(done.passages) > 3
    texts = {passage.id: passage.text for passage in done.passages}
    for question in done.train:
        assert question.positive_ids
        assert all(question.answers[0] in texts[id_] for id_ in question.positive_ids)
