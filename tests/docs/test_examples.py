"""The examples in docstrings run, in every module that has one."""

import doctest
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from multiview.artifacts.staging import stage
from multiview.config import Model
from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.export.model_card import read_subject
from multiview.model.layouts import LAYOUTS
from tests.fixtures.artifacts import questions_folder, write_passages
from tests.fixtures.imports import module_paths
from tests.fixtures.sentence_transformers_base import frame_texts
from tests.fixtures.tiny import tiny_tokenizer

PASSAGE = Passage("p0", "Tower", "It was built by the king. He died.", (26, 34))
QUESTION = Question("q0", "Who built it?", ("the king",), None, ("p0",))

PUBLIC = {
    "multiview.load",
    "multiview.serving.retriever.Retriever",
    "multiview.serving.retriever.Retriever.search",
    "multiview.data.passages.read_passages",
    "multiview.data.questions.read_questions",
    "multiview.negatives.negatives_file.read_negatives",
    "multiview.artifacts.record.load_record",
    "multiview.steps.context.StepContext",
    "multiview.steps.path.StepPath",
    "multiview.model.layouts.base.Layout",
    *(f"{kind.__module__}.{kind.__name__}" for kind in LAYOUTS.values()),
}
"""What users of Python call."""


def examples() -> dict[str, doctest.DocTest]:
    """The examples of all modules, by the name of the class or function."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return {
        test.name: test
        for name, path in module_paths().items()
        if ">>> " in path.read_text(encoding="utf-8")
        for test in finder.find(import_module(name))
        if test.examples
    }


EXAMPLES = examples()


def test_what_users_call_has_an_example():
    assert not PUBLIC - EXAMPLES.keys()


@pytest.fixture
def address(indexes) -> str:
    """The index of an untrained CAMVR over the 32 passages of a corpus with the column `url`."""
    return indexes.index("camvr")


@pytest.fixture
def model(address) -> Path:
    """The folder of the index's model."""
    return stage(*read_subject(address)[0]).path


@pytest.fixture
def given(tmp_path) -> dict[str, Any]:
    """The names that the examples use without defining them."""
    tokenizer: Any = tiny_tokenizer()
    viewers = LAYOUTS["camvr"].viewers(Model(views=3))
    tokenizer.add_special_tokens({"additional_special_tokens": viewers})
    frame_texts(tokenizer)
    return {
        "folder": tmp_path,
        "passages": write_passages(tmp_path / "passages", [PASSAGE]),
        "questions": questions_folder(tmp_path / "questions", [QUESTION]),
        "passage": PASSAGE,
        "tokenizer": tokenizer,
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_right(name, given, request):
    test = EXAMPLES[name]
    test.globs |= given
    for fixture in ("address", "model"):
        if re.search(rf"\({fixture}\b", str(test.docstring)):
            test.globs[fixture] = request.getfixturevalue(fixture)
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
    assert not said, "".join(said)
