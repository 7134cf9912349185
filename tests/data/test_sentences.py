"""Sentence ends; tests/images has where the splitter's data come from."""

from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize import sent_tokenize
from nltk.tokenize.punkt import PunktTokenizer

from multiview.data.sentences import (
    ENDS,
    begin_sentence_ends,
    iterate_sentence_ends,
    sentence_ends,
)
from multiview.errors import InputError

pieces = st.sampled_from(
    ["Mr. ", "Smith", " went", ". ", ".", "\n\n", "  ", "(Why?) ", '"No!" ', "U.S. ", "e.g. ", "3.5 ", "He", "?!", ") ", "é", "…", " "]
)  # fmt: skip
texts = st.one_of(st.lists(pieces, max_size=30).map("".join), st.text(max_size=60))


def test_white_space_up_to_the_next_sentence_belongs_to_the_one_before():
    text = "  Dr. No came.  He left.\nWhy? "
    assert sentence_ends(text) == (16, 25, 30)
    assert [text[i:j] for i, j in ((0, 16), (16, 25), (25, 30))] == [
        "  Dr. No came.  ",
        "He left.\n",
        "Why? ",
    ]


@given(texts)
@settings(max_examples=150, deadline=None)
def test_ends_partition_the_text_into_the_sentences_of_sent_tokenize(text):
    ends = sentence_ends(text)
    assert list(ends) == sorted(set(ends)) and ends[-1:] == ((len(text),) if text else ()) and 0 not in ends
    ours = [text[i:j].strip() for i, j in pairwise([0, *ends])]
    assert [s for s in ours if s] == [s.strip() for s in sent_tokenize(text) if s.strip()]


def test_a_text_that_is_split_piece_by_piece_has_the_sentences_of_the_whole(monkeypatch):
    monkeypatch.setattr("multiview.data.sentences.PIECE_CHARACTERS", 1000)
    text = " ".join(f"Mr. Smith no. {number} went to the U.S. (Why?) He left..." for number in range(200))
    spans = PunktTokenizer("english").span_tokenize(text)
    assert sentence_ends(text) == (*[start for start, _ in spans][1:], len(text))
    assert sentence_ends("a" * 2000 + " ")[-1] == 2001


def test_many_texts_are_each_as_alone():
    several = ["One. Two.", "", "Three. "]
    assert (
        list(iterate_sentence_ends(several))
        == [sentence_ends(text) for text in several]
        == [(5, 9), (), (7,)]
    )


def test_other_processes_split_the_same():
    texts = [f"One {i}. Dr. No came. (Why?)" * (i % 3) for i in range(50)]
    alone = begin_sentence_ends(texts, "english")()
    with ProcessPoolExecutor(2) as pool:
        begun = [begin_sentence_ends(part, "english", pool) for part in (texts[:20], texts[20:], [])]
        assert pa.concat_arrays([wait() for wait in begun]).equals(alone)
    assert alone.to_pylist() == [list(sentence_ends(text)) for text in texts] and alone.type == ENDS


def test_a_language_without_any_data_is_no_dead_end():
    with pytest.raises(
        InputError, match="corpus.language=thai: there is no sentence splitter for it; choose one of "
    ) as error:
        sentence_ends("Text.", "thai")
    assert {"chinese", "english", "japanese", "korean"} <= set(str(error.value).replace(",", "").split())
