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


def test_each_variable_is_named_once():
    assert len(set(NAMES.values())) == len(NAMES)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_module_spells_a_variable(path: Path):
    """Names in texts for persons may stay; a string that is nothing but the name is a second declaration."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    strings = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not strings & set(NAMES.values())
    assert not {
        text for text in strings if text.startswith("MULTIVIEW_") and " " not in text and text.isupper()
    }
    assert not spelled_for_environment(tree)


def spelled_for_environment(tree: ast.Module) -> list[str]:
    """The expressions that ask the environment for a variable by a string of their own."""
    asked = []
    for node in ast.walk(tree):
        match node:
            case (
                ast.Subscript(value=where, slice=ast.Constant())
                | ast.Call(func=ast.Attribute(value=where), args=[ast.Constant(), *_])
                | ast.Compare(left=ast.Constant(), ops=[ast.In() | ast.NotIn()], comparators=[where])
            ) if ast.unparse(where) in ("environ", "os.environ"):
                asked.append(ast.unparse(node))
    return asked


@pytest.mark.parametrize(
    "code", ['os.environ["A"]', 'environ.get("A", 1)', 'os.environ.pop("A")', '"A" not in os.environ']
)
def test_a_variable_that_is_asked_for_by_a_string_is_found(code: str):
    assert spelled_for_environment(ast.parse(code)) == [code.replace('"', "'")]
    assert spelled_for_environment(ast.parse(code.replace('"A"', "environment.A"))) == []
