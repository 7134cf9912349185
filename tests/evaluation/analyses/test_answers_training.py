"""How the training questions' answers are found."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.evaluation.analyses.answers import KINDS, found_by, training_answers
from multiview.model.layouts.base import Part
from tests.fixtures.analysed_model import hand_subject
from tests.fixtures.artifacts import questions_folder
from tests.fixtures.snippet_views import PASSAGE, VIEWS, ask


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        (ask("Bert", starts=(17,)), "offset"),
        (ask("Anna", "Bert"), "several"),
        (ask("bert"), "one"),
        (ask("Oslo"), "title"),
        (ask("wept. Then"), "none"),
        (ask("wept.  Then", starts=(5,)), "none"),
        (ask("Cato"), "none"),
    ],
)
def test_how_a_training_question_s_answer_is_found(question, kind):
    spans = [view.span for view in VIEWS]
    assert found_by(question.answers, question.answer_starts, PASSAGE, spans, "string") == kind


def test_training_answers_of_data(padded):
    metrics = training_answers(padded.subject()).metrics
    assert sum(metrics[f"training_answers_{kind}"] for kind in KINDS) == pytest.approx(1)
    with_offset = [q for q in padded.questions if q.answer_starts]
    assert metrics["training_answers_offset"] == len(with_offset) / len(padded.questions)
    assert metrics["training_answers_one"] > 0 < metrics["training_answers_several"]
    asked = {q.positive_ids[0] for q in padded.questions}
    assert metrics["avq"] == len(padded.questions) / len(asked)


def test_without_spans_there_is_avq_alone(padded):
    subject = padded.subject()
    subject.layout = SimpleNamespace(has_spans=False)
    assert list(training_answers(subject).metrics) == ["avq"]


class Sentences:
    """A view per sentence, or per two, and one for the title."""

    has_spans = True

    def __init__(self, together: int = 1):
        self.together = together

    def parts(self, passage):
        ends = (*passage.sentence_ends[: -1 : self.together], passage.sentence_ends[-1])
        return [Part(), *map(Part, zip([0, *ends], ends, strict=False))]


@pytest.mark.parametrize("layout", [Sentences(), Sentences(2)])
@pytest.mark.parametrize("offsets", ["all", "some", "none"])
def test_kinds_are_those_of_the_questions_one_by_one(tmp_path, offsets, layout):
    """With letters of several bytes, several answers, answers across sentences, and passages that the corpus lacks."""
    rng = np.random.default_rng(0)
    words = ["Zoë", "naïve", "東京", "king", "𝄞", "tower"]
    passages, questions = [], []
    for number in range(11):
        sentences = [" ".join(rng.choice(words, 3)) + ". " for _ in range(1 + number % 4)]
        ends = tuple(np.cumsum([len(sentence) for sentence in sentences]).tolist())
        passages.append(Passage(f"p{number}", str(rng.choice(words)), "".join(sentences), ends))
    for number in range(120):
        passage, answers, starts = passages[rng.integers(11)], [], []
        for _ in range(rng.integers(0, 3)):
            start = int(rng.integers(len(passage.text)))
            answers.append(passage.text[start : start + int(rng.integers(1, 12))])
            starts.append(start)
        with_offsets = offsets == "all" or (offsets == "some" and number % 2)
        gold = passage.id if number % 7 else f"elsewhere{number % 3}"
        questions.append(
            Question(f"q{number}", "?", tuple(answers), tuple(starts) if with_offsets else None, (gold, "x"))
        )
    train = questions_folder(tmp_path / "train", questions)
    subject = hand_subject(tmp_path, passages, [], layout=layout, train_questions=train)
    by_id = {passage.id: passage for passage in passages}
    spans = {passage.id: [part.span for part in layout.parts(passage)] for passage in passages}
    plain = Counter(
        found_by(question.answers, question.answer_starts, passage, spans[passage.id], "string")
        for question in questions
        if (passage := by_id.get(question.positive_ids[0]))
    )
    table = training_answers(subject).tables["training_answers"].rows.to_pydict()
    assert dict(zip(table["found"], table["questions"], strict=True)) == {kind: plain[kind] for kind in KINDS}
    assert len(+plain) > 1
