"""Pairs of questions and passages, matched once however often they occur."""

import numpy as np
import pyarrow as pa
import pytest

from multiview.data.answers import QuestionAnswers, has_answer
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


def test_hits_are_what_the_texts_say(asked):
    texts, questions, ids, corpus = asked
    hits, rows = (
        AnswerHits(questions, ids, corpus, "string"),
        np.random.default_rng(1).integers(-1, 30, (6, 9)),
    )
    expected = [
        [bool(row >= 0) and has_answer(texts[row], question.answers) for row in line]
        for question, line in zip(questions, rows.tolist(), strict=True)
    ]
    assert hits.holds(rows).tolist() == expected
    assert hits.holds(np.full((6, 0), -1)).shape == (6, 0)
    assert not hits.holds(np.full((6, 2), -1)).any()


def test_a_pair_is_matched_once(asked, monkeypatch):
    _, questions, ids, corpus = asked
    hits, pairs = AnswerHits(questions, ids, corpus, "string"), []
    answered = QuestionAnswers.answered

    def counted(self, texts, rows, asking):
        pairs.extend(zip(texts.take(pa.array(rows)).to_pylist(), asking.tolist(), strict=True))
        return answered(self, texts, rows, asking)

    monkeypatch.setattr(QuestionAnswers, "answered", counted)
    hits.holds(np.array([[0, 1, 1, 2, -1]] * 6))
    assert len(pairs) == 3 * 6


def test_a_passage_that_the_corpus_lacks_is_named(asked):
    _, questions, ids, corpus = asked
    hits = AnswerHits(questions, pa.concat_arrays([ids, pa.array(["gone"])]), corpus, "string")
    with pytest.raises(InputError, match="gone"):
        hits.holds(np.full((6, 1), 30))
