"""What a step does not declare cannot be read: its key would not cover it."""

import json
from pathlib import Path

import pytest

from multiview.artifacts.record import Reference
from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config
from multiview.errors import UndeclaredAccess
from multiview.steps.context import StepContext
from multiview.steps.step import Step, key_settings

STEP = Step(
    name="example",
    about="Nothing.",
    version=1,
    function_path="nowhere:nothing",
    settings=("questions.answer_matching", "bm25"),
    inputs=("passages",),
    outputs=("negatives",),
)


def test_a_declared_setting_is_read_and_any_other_raises():
    given = Config.model_validate({"questions": {"answer_matching": "regex", "seed": 7}, "bm25": {"k1": 1.5}})
    settings = STEP.parse(STEP.configure(given))
    assert settings.questions.answer_matching == "regex" and settings.bm25.k1 == 1.5
    with pytest.raises(UndeclaredAccess, match=r"questions\.seed.*steps/table"):
        _ = settings.questions.seed  # a default here would be another seed than the run's
    with pytest.raises(UndeclaredAccess, match=r"config\.train"):
        _ = settings.train


def test_a_partial_section_s_key_settings_are_those_that_it_declares():
    given = Config.model_validate({"questions": {"answer_matching": "regex", "seed": 7}})
    settings = STEP.parse(STEP.configure(given))
    assert key_settings(settings) == {"bm25": {}, "questions": {"answer_matching": "regex"}}
    assert set(json.loads(STEP.configure(given))["questions"]) == {"answer_matching"}


def test_a_misspelt_setting_is_no_undeclared_one():
    with pytest.raises(AttributeError):
        _ = STEP.parse(STEP.configure(Config())).bm25.nonsense  # pyright: ignore[reportAttributeAccessIssue]


def test_inputs_outputs_and_the_store_are_those_that_are_declared(tmp_path: Path):
    passages, index = LocalArtifact(tmp_path, "digest"), Reference(address="store/index/key", digest="digest")
    context = StepContext(
        Config(), {"passages": passages, "index": index, "parts": [passages]}, {"negatives": tmp_path}
    )
    assert context.input("passages") is passages and context.output("negatives") == tmp_path
    assert context.list_input("parts") == [passages] and context.recorded_input("index") is index
    assert context.optional_input("known") is None
    for read in (
        lambda: context.input("model"),
        lambda: context.output("model"),
        lambda: context.list_input("passages"),
        lambda: context.recorded_input("passages"),
        lambda: context.store,
    ):
        with pytest.raises(UndeclaredAccess):
            read()
