"""The questions of an estimate: labelled ones, and those that are made from the corpus in their place."""

from typing import Any

import pytest

from multiview.artifacts.store import open_store
from multiview.config.overrides import merge
from multiview.estimates.counting import count, of_sources
from multiview.estimates.estimate import base_config
from multiview.estimates.rates import default_rates
from multiview.plans.request import Request

DEMO = {
    "corpus": {"source": ["demo://train.json", "demo://dev.json"]},
    "questions": {"origin": "crop"},
}
"""310 passages."""


@pytest.mark.parametrize(
    ("changes", "train", "dev"),
    [
        ({}, 558, 62),
        ({"make_questions": {"per_passage": 3, "per_snippet": 2, "share": 0.5}}, 837, 93),
        ({"make_questions": {"per_passage": 30, "snippets": 4}}, 1116, 124),
        ({"questions": {"limit": 100, "dev_limit": 10}}, 100, 10),
        ({"questions": {"one_per_passage": True}}, 310, 62),
    ],
)
def test_made_questions_are_counted_by_what_is_drafted(changes: dict[str, Any], train: int, dev: int) -> None:
    found = of_sources(base_config(merge(DEMO, changes)))
    assert (found.passages, found.questions, found.dev_questions) == (310, train, dev)


def test_labelled_dev_questions_are_counted_beside_made_training_questions() -> None:
    labelled = {"questions": {"source": "demo://train.json", "dev_source": "demo://dev.json"}}
    made = of_sources(base_config(merge(DEMO, labelled)))
    asked = of_sources(base_config(merge(DEMO, labelled, {"questions": {"origin": "labelled"}})))
    assert made.dev_questions == asked.dev_questions > 200 and made.questions == 558


def test_one_question_per_passage_and_gold_passages_alone_are_counted() -> None:
    labelled = {
        "questions": {"origin": "labelled", "source": "demo://train.json", "dev_source": "demo://dev.json"}
    }
    whole = of_sources(base_config(merge(DEMO, labelled)))
    one = of_sources(base_config(merge(DEMO, labelled, {"questions": {"one_per_passage": True}})))
    assert one.questions < whole.questions / 3 and one.passages == whole.passages
    few = {"questions": {"limit": 50}, "corpus": {"keep": "gold"}}
    gold = of_sources(base_config(merge(DEMO, labelled, few)))
    assert gold.questions == 50
    # The gold passages of 50 questions at most, and those of all dev questions.
    assert 50 < gold.passages < 50 + whole.passages - one.questions + 1


def test_a_comparison_is_counted_with_the_views_of_the_system_that_has_most(tmp_path) -> None:
    systems = {"one": {"model": {"architecture": "dpr"}}, "many": {"model": {"views": 4}}}
    request = Request.make(
        "comparison", merge(DEMO, {"comparison": {"systems": systems}, "make_questions": {"snippets": 4}})
    )
    assert count(request, open_store(str(tmp_path)), default_rates()).views == 4
