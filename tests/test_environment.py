"""Every environment variable that the library and the pipelines read is named in `multiview.environment`, and once."""

import ast
from pathlib import Path

import pytest

from multiview import environment
from tests.fixtures.project import ROOT

NAMES = {name: value for name, value in vars(environment).items() if name.isupper()}
SOURCES = [
    path
    for folder in ("src/multiview", "pipelines", "components")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.name != "environment.py"
]
PLAIN = {value for value in NAMES.values() if value.startswith(("MULTIVIEW_", "MLFLOW_", "PET_", "HF_"))}


def test_each_variable_is_named_once():
    assert len(set(NAMES.values())) == len(NAMES)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_module_spells_a_variable(path: Path):
    """Names in texts for persons may stay; a string that is nothing but the name is a second declaration."""
    strings = {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not strings & PLAIN
    assert not {
        text for text in strings if text.startswith("MULTIVIEW_") and " " not in text and text.isupper()
    }
