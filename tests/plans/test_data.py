"""Questions that a plan makes from the corpus: who reads them, and which settings do not suit them."""

from __future__ import annotations

from typing import Any

import pytest

from multiview import names
from multiview.config.overrides import merge
from multiview.errors import InputError
from multiview.plans.comparison import comparison
from multiview.plans.plan import Output, Plan
from multiview.plans.refresh import refresh
from multiview.plans.system import training
from multiview.steps.path import StepPath

CORPUS = {"corpus": {"source": "passages.jsonl"}}
CROP = merge(CORPUS, {"questions": {"origin": "crop"}})
LABELLED = {"questions": {"source": "train.json"}}
GENERATOR = merge(CORPUS, {"questions": {"origin": "generator"}})


def readers(plan: Plan, step: str, kind: str) -> set[str]:
    """The steps that read an output of this kind from a step."""
    output = Output(StepPath(step), kind)
    return {
        str(path) for path, node in plan.nodes.items() for _, source in node.sources() if source == output
    }


TRAINING = {
    "bm25-negatives",
    "camvr/round-1/train",
    "camvr/round-2/train",
    "camvr/round-2/mine",
    "camvr/round-2/evaluate",
}


@pytest.mark.parametrize(
    ("labelled", "dev"),
    [({}, "make-questions"), (LABELLED, "split"), ({"questions": {"dev_source": "dev.json"}}, "split")],
)
def test_made_questions_are_trained_on_and_evaluated_on_only_where_none_are_labelled(
    labelled: dict[str, Any], dev: str
) -> None:
    plan = training(merge(CROP, labelled))
    assert readers(plan, "make-questions", names.TRAIN_QUESTIONS) == TRAINING
    assert readers(plan, "split", names.TRAIN_QUESTIONS) == set()
    other = {"split": "make-questions", "make-questions": "split"}[dev]
    assert readers(plan, dev, names.DEV_QUESTIONS) == {"camvr/round-2/evaluate"}
    assert readers(plan, other, names.DEV_QUESTIONS) == set()


def test_drafts_are_made_by_shard_without_a_model_or_with_the_generator() -> None:
    crops, generated = training(merge(CROP, {"corpus": {"shards": 3}})), training(GENERATOR)
    drafts = ["split", "crop-questions", "make-questions", "bm25-negatives"]
    assert [str(path) for path in crops.nodes][:4] == drafts
    assert len(crops.nodes[StepPath("crop-questions")].shards) == 3
    drafts = ["split", "initial-generator", "generate-questions", "make-questions"]
    assert [str(path) for path in generated.nodes][:4] == drafts


def test_one_generator_writes_questions_and_queries() -> None:
    queries = {"model": {"architecture": "dual-cross"}, "train": {"warm_up": {"epochs": 1}}}
    plan = training(merge(GENERATOR, queries))
    assert readers(plan, "initial-generator", names.GENERATOR) == {"generate-questions", "generate-queries"}


def test_labelled_questions_and_made_ones_share_the_split() -> None:
    """So that a study of both cuts the corpus once, and evaluates on equal dev questions."""
    labelled, made = training(merge(CORPUS, LABELLED)), training(merge(CROP, LABELLED))
    steps = [plan.nodes[StepPath("split")] for plan in (labelled, made)]
    first, second = (node.step.key(node.step.parse(node.config), {}, {}) for node in steps)
    assert first == second


def test_a_comparison_trains_all_systems_on_made_questions() -> None:
    systems = {"mvr": {"model": {"architecture": "mvr"}}, "camvr": {}}
    plan = comparison(merge(CROP, {"comparison": {"systems": systems}, "train": {"rounds": 1}}))
    assert {"mvr/round-1/train", "camvr/round-1/train"} < readers(
        plan, "make-questions", names.TRAIN_QUESTIONS
    )
    assert readers(plan, "make-questions", names.DEV_QUESTIONS) == {
        "mvr/round-1/evaluate",
        "camvr/round-1/evaluate",
        "bm25/evaluate",
    }


@pytest.mark.parametrize("train", [{}, {"positive": "max", "round_two": {"positive": "both"}}])
@pytest.mark.parametrize(
    ("views", "snippets"), [({"camvr": 4, "mvr": 12}, 8), ({"camvr": 12, "camvr-few": 4}, 12)]
)
def test_questions_are_made_from_snippets_as_fine_as_those_of_any_system(
    views: dict[str, int], snippets: int, train: dict[str, Any]
) -> None:
    systems = {
        name: {
            "model": {"architecture": name.removesuffix("-few"), "views": n},
            "train": {} if name == "mvr" else train,
        }
        for name, n in views.items()
    }
    node = comparison(merge(CROP, {"comparison": {"systems": systems}})).nodes[StepPath("crop-questions")]
    assert node.step.parse(node.config).make_questions.snippets == snippets


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"questions": {"origin": "llm"}}, "questions.origin=llm: set make_questions.llm.model"),
        ({"questions": {"hard_negatives": "both"}}, "questions.hard_negatives=both: .* without negatives"),
        ({"model": {"merge_title": False}}, "model.merge_title=false: .* set model.merge_title=true"),
        (
            {
                "model": {"merge_title": False},
                "train": {"positive": "max", "round_two": {"positive": "answer"}},
            },
            "model.merge_title=false: .* set model.merge_title=true",
        ),
    ],
)
def test_settings_that_do_not_suit_are_one_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        training(merge(CROP, changes))
    training(merge(CROP, changes, {"questions": {"origin": "labelled"}}))


def test_a_round_that_does_not_run_asks_nothing() -> None:
    rounds = {"rounds": 1, "positive": "max", "round_two": {"positive": "answer"}}
    training(merge(CROP, {"model": {"merge_title": False}, "train": rounds}))


def test_a_generator_that_makes_the_training_questions_cannot_be_trained_on_them() -> None:
    with pytest.raises(InputError, match=r"generation.fine_tune: the generator makes the training questions"):
        training(merge(GENERATOR, {"generation": {"fine_tune": True}}))
    training(merge(CROP, {"generation": {"fine_tune": True}}))


def test_a_refresh_makes_no_questions_for_its_gate() -> None:
    with pytest.raises(InputError, match=r"questions.origin=crop: a refresh makes no questions"):
        refresh(CROP)
    refresh(merge(CROP, LABELLED))
