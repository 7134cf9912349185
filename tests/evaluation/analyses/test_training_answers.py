"""How the training questions' answers are found."""

from types import SimpleNamespace

import pytest

from multiview.evaluation.analyses.subject import NotApplicable
from multiview.evaluation.analyses.training_answers import KINDS, found_by, training_answers
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
    assert found_by(question, PASSAGE, [view.span for view in VIEWS], "string") == kind


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
    subject.train_questions = None
    with pytest.raises(NotApplicable, match="training questions"):
        training_answers(subject)
