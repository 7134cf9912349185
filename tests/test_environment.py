"""Every environment variable that the library and the pipelines read is named in `multiview.environment`, and once."""

import ast

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


def test_no_other_module_spells_a_variable():
    """Names in texts for persons may stay; a string that is nothing but the name is a second declaration."""
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        strings = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        assert not strings & set(NAMES.values()), path
        ours = {text for text in strings if text.startswith("MULTIVIEW_") and " " not in text}
        assert not [text for text in ours if text.isupper()], path
        assert not spelled_for_environment(tree), path


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
