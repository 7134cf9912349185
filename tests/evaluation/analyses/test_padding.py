"""What padding views change, beside plain rankings in float64."""

import numpy as np
import pytest

from multiview.data.answers import has_answer
from multiview.evaluation.analyses import padding as module
from multiview.evaluation.analyses.analysis_input import NotApplicable
from multiview.evaluation.analyses.padding import best_scores, overlap, padding, ranking
from tests.fixtures.analysed_model import fresh_views


def plainly(analysed, subject) -> tuple[list[list[str]], list[list[str]], list[bool]]:
    """Each question's passages of the whole corpus by all views and by real views, and whether a padding view won."""
    views, ids = fresh_views(analysed), subject.index.ids.to_pylist()
    every, real, wins = [], [], []
    for query in subject.queries.astype(np.float64):
        scores = {}
        for number in range(len(ids)):
            vectors, padded = views[ids[number]]
            f = vectors.astype(np.float16).astype(np.float64) @ query  # as an index holds them
            scores[ids[number]] = f.max(), f[~np.array(padded)].max()
        every.append(sorted(scores, key=lambda id_: (-scores[id_][0], id_)))
        real.append(sorted(scores, key=lambda id_: (-scores[id_][1], id_)))
        best = scores[every[-1][0]]
        wins.append(best[0] > best[1])
    return every, real, wins


def drawn_to_padding(analysed):
    """Every third question looks like the padding views of some passage, else none would win."""
    subject, views = analysed.subject(), fresh_views(analysed)
    padding_views = [vectors[padded].sum(axis=0) for vectors, padded in views.values() if any(padded)]
    for row, vector in zip(range(0, len(subject.queries), 3), padding_views, strict=False):
        subject.queries[row] = 20 * vector / np.linalg.norm(vector)
    subject.top = subject.index.search(subject.queries, subject.settings.depth)
    return subject


@pytest.mark.parametrize("indexed", [True, False])
def test_padding_views_of_a_model(request, indexed):
    """The rankings are the same with padding views from the index and with newly encoded ones."""
    analysed = request.getfixturevalue("padded" if indexed else "without_padding")
    subject = drawn_to_padding(analysed)
    every, real, wins = plainly(analysed, subject)
    texts = {passage.id: passage.text for passage in analysed.passages}
    answered = [row for row, question in enumerate(analysed.questions) if question.answers]
    findings = padding(subject)
    assert findings.metrics["padding_wins_top_1"] == pytest.approx(np.mean(wins))
    assert any(wins) and not all(wins)
    for row in findings.tables["padding"].rows.to_pylist():
        k = row["k"]
        same = [len(set(a[:k]) & set(b[:k])) / k for a, b in zip(every, real, strict=True)]
        assert row["overlap"] == findings.metrics[f"padding_overlap_at_{k}"] == pytest.approx(np.mean(same))
        for name, rankings in (("with_padding", every), ("without_padding", real)):
            found = [
                any(has_answer(texts[id_], analysed.questions[q].answers) for id_ in rankings[q][:k])
                for q in answered
            ]
            assert row[name] == findings.metrics[f"accuracy_at_{k}/{name}"] == pytest.approx(np.mean(found))
    assert findings.metrics["padding_overlap_at_1"] < 1


def test_without_padding_views_the_ranking_is_the_index_s(without_padding):
    subject = without_padding.subject()
    _, real = best_scores(subject, subject.top.passages, subject.queries)
    np.testing.assert_allclose(real, subject.top.scores, rtol=1e-5)


def test_only_so_many_questions_are_drawn(padded, monkeypatch):
    whole = padding(padded.subject()).metrics
    monkeypatch.setattr(module, "QUESTIONS", 5)
    assert padding(padded.subject()).metrics == padding(padded.subject()).metrics != whole


def test_ranking_by_hand():
    numbers = np.array([[3, 0, 2, -1]])
    rank = np.array([0, 1, 2, 3])
    scores = np.array([[5.0, 5.0, 7.0, -np.inf]])
    assert ranking(numbers, scores, rank).tolist() == [[2, 1, 0, 3]], "ties go to the smaller id"
    scores[0, 2] = -np.inf
    assert ranking(numbers, scores, rank).tolist() == [[1, 0, 2, 3]], "places without a passage come last"


def test_overlap_by_hand():
    assert overlap(np.array([[0, 1], [2, 3]]), np.array([[1, 0], [3, 4]])) == 0.75


def test_layouts_without_padding_views_have_no_such_analysis(camvr, dpr):
    for analysed in (camvr, dpr):
        with pytest.raises(NotApplicable, match="padding"):
            padding(analysed.subject())
