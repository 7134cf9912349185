"""Sentence ends; tests/images has where the splitter's data come from."""

import subprocess
import sys
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
    PIECE_CHARACTERS,
    begin_sentence_ends,
    iterate_sentence_ends,
    sentence_ends,
)
from multiview.errors import InputError

pieces = st.sampled_from(
    [
        "Mr. ",
        "Smith",
        " went",
        ". ",
        ".",
        "\n\n",
        "  ",
        "(Why?) ",
        '"No!" ',
        "U.S. ",
        "e.g. ",
        "3.5 ",
        "He",
        "?!",
        ") ",
        "é",
        "…",
        " ",
    ]
)
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
def test_ends_partition_the_text(text):
    ends = sentence_ends(text)
    assert list(ends) == sorted(set(ends))
    assert ends == () if not text else ends[-1] == len(text)
    assert 0 not in ends


@given(texts)
@settings(max_examples=150, deadline=None)
def test_sentences_are_those_of_sent_tokenize(text):
    starts = [0, *sentence_ends(text)]
    ours = [text[i:j].strip() for i, j in pairwise(starts)]
    assert [s for s in ours if s] == [s.strip() for s in sent_tokenize(text) if s.strip()]


def test_a_text_that_is_split_piece_by_piece_has_the_sentences_of_the_whole():
    text = " ".join(f"Mr. Smith no. {number} went to the U.S. (Why?) He left..." for number in range(6000))
    assert len(text) > 3 * PIECE_CHARACTERS
    spans = PunktTokenizer("english").span_tokenize(text)
    assert sentence_ends(text) == (*[start for start, _ in spans][1:], len(text))
    assert sentence_ends("a" * 2 * PIECE_CHARACTERS + " ")[-1] == 2 * PIECE_CHARACTERS + 1


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


def test_missing_data_say_what_to_run():
    """One line, both in a checkout and in an installation of the library alone."""
    with pytest.raises(InputError) as error:
        sentence_ends("Text.", "malayalam")
    assert str(error.value) == (
        "corpus.language=malayalam: NLTK's sentence data for it are not installed; run: "
        "python -m nltk.downloader punkt_tab (in a checkout: python images/sentence_data.py malayalam)"
    )


def test_a_language_without_any_data_is_no_dead_end():
    with pytest.raises(
        InputError, match="corpus.language=thai: there is no sentence splitter for it; choose one of "
    ) as error:
        sentence_ends("Text.", "thai")
    assert {"chinese", "english", "japanese", "korean"} <= set(str(error.value).replace(",", "").split())


def test_the_step_is_imported_without_what_it_does_not_need():
    code = (
        "import sys, multiview.data.split, multiview.data.answers, multiview.model.layouts.snippets;"
        "print([m for m in ('torch', 'transformers', 'mlflow', 'nltk', 'faiss') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
