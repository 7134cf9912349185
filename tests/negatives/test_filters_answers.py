"""Pairs of questions and passages, matched once however often they are asked for."""

import numpy as np
import pyarrow as pa
import pytest

from multiview.data.answers import has_answer
from multiview.data.passages import Passage, PassageLookup
from multiview.data.questions import Question
from multiview.errors import InputError
from multiview.negatives.filters import AnswerHits
from tests.fixtures.artifacts import write_passages

WORDS = ("king", "tower", "sea", "année", "1 900")


@pytest.fixture
def asked(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 3)) for _ in range(30)]
    passages = [Passage(f"p{n}", "", text, (len(text),)) for n, text in enumerate(texts)]
    write_passages(tmp_path / "passages", passages)
    questions = [Question(f"q{n}", "?", (word,), None, ()) for n, word in enumerate((*WORDS, "queen"))]
    rows = rng.permutation(30)
    ids = pa.array([f"p{row}" for row in rows])
    return [texts[row] for row in rows], questions, ids, PassageLookup(tmp_path / "passages")


def test_every_call_says_what_the_texts_say(asked):
    texts, questions, ids, corpus = asked
    hits, rng = AnswerHits(questions, ids, corpus, "string"), np.random.default_rng(1)
    for chosen in (np.arange(6), np.array([4, 1]), np.arange(6)):
        rows = rng.integers(-1, 30, (len(chosen), 9))
        expected = [
            [bool(row >= 0) and has_answer(texts[row], questions[question].answers) for row in line]
            for question, line in zip(chosen, rows.tolist(), strict=True)
        ]
        assert hits.holds(rows, chosen).tolist() == expected
        if len(chosen) == len(questions):
            assert hits.holds(rows).tolist() == expected
    assert hits.holds(np.full((6, 0), -1)).shape == (6, 0)


def test_a_known_pair_is_not_read_again(asked, monkeypatch):
    _, questions, ids, corpus = asked
    hits, read, tables = AnswerHits(questions, ids, corpus, "string"), [], corpus.tables

    def counted(ids, columns):
        read.extend(ids.to_pylist())
        return tables(ids, columns)

    monkeypatch.setattr(corpus, "tables", counted)
    hits.holds(np.array([[0, 1, 1, 2]] * 6))
    hits.holds(np.array([[2, 3, 0, -1]] * 6))
    assert read == ids.take([0, 1, 2, 3]).to_pylist()


def test_a_passage_that_the_corpus_lacks_is_named(asked):
    _, questions, ids, corpus = asked
    hits = AnswerHits(questions, pa.concat_arrays([ids, pa.array(["gone"])]), corpus, "string")
    with pytest.raises(InputError, match="gone"):
        hits.holds(np.full((6, 1), 30))
