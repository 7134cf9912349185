"""What holds for every line of the source, whatever it does."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ("src/multiview", "pipelines", "components", "images", "benchmarks")
FILES = sorted(file for folder in CODE for file in (ROOT / folder).rglob("*.py"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@cache
def trees() -> dict[str, ast.Module]:
    """By the paths of the files."""
    return {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in FILES}


def defined(tree: ast.Module) -> Iterator[str]:
    """Names of a module's functions, classes and constants; a decorator puts what it decorates to use."""
    for statement in tree.body:
        match statement:
            case ast.FunctionDef(name=name, decorator_list=[]) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                names = (node for target in targets for node in ast.walk(target))
                yield from (node.id for node in names if isinstance(node, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def used(tree: ast.Module) -> Iterator[str]:
    """Names that a module reads, of others too; functions are also named as `module:function`."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Constant(value=str(text)) if re.fullmatch(r"[a-z_.]+:\w+", text):
                yield text.partition(":")[2]


def test_nothing_is_defined_that_nothing_uses() -> None:
    tests = (ast.parse(file.read_text(encoding="utf-8")) for file in (ROOT / "tests").rglob("*.py"))
    read = {name for tree in (*trees().values(), *tests) for name in used(tree)}
    read |= set(re.findall(r"[a-z_.]+:(\w+)\"", (ROOT / "pyproject.toml").read_text()))
    unused = {
        file: sorted(set(defined(tree)) - read - {"__all__", "__version__"}) for file, tree in trees().items()
    }
    assert {file: names for file, names in unused.items() if names} == {}


def test_a_text_stands_below_what_it_is_about() -> None:
    """A module, class or function, or a name that is given a value: one text each."""
    loose = []
    for file, tree in trees().items():
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            for before, statement in zip([None, *body], body, strict=False) if isinstance(body, list) else ():
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    about = isinstance(before, ast.Assign | ast.AnnAssign | None)
                    if not about and statement.value.value is not ...:
                        loose.append(f"{file}:{statement.lineno}")
    assert loose == []


def test_temporary_files_lie_in_the_scratch_folder() -> None:
    """A pod has its volume there. Small ones may lie elsewhere: reports of training processes, and what is submitted."""
    found = {
        (file, ast.unparse(node.func))
        for file, tree in trees().items()
        if file.startswith("src/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and re.fullmatch(r"tempfile\.(\w*Temp\w*File|TemporaryDirectory|mk\w+)", ast.unparse(node.func))
        and not any(keyword.arg == "dir" for keyword in node.keywords)
    }
    assert found == {
        ("src/multiview/training/processes.py", "tempfile.TemporaryDirectory"),
        ("src/multiview/tracking/finding.py", "tempfile.TemporaryDirectory"),
    }


def test_metrics_are_named_metric_first() -> None:
    """As `metric_names.of_group` has it: `accuracy_at_5/camvr`, METRIC/SYSTEM."""
    wrong = r"`[^`\s]+/(?:(?:accuracy|recall|mrr|ndcg)_at_\w+|NAME|METRIC)`"
    found = {file.name: re.findall(wrong, file.read_text(encoding="utf-8")) for file in [*FILES, *DOCUMENTS]}
    assert {file: names for file, names in found.items() if names} == {}


def test_the_sides_of_a_refresh_are_champion_and_challenger() -> None:
    """`ours` and `theirs` were now the one and now the other."""
    for file, tree in trees().items():
        if "/refresh" in file:
            words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            assert not words & {"ours", "theirs", "mine"}, file


def test_the_library_installs_nothing() -> None:
    """Set-up and images do: `images/sentence_data.py`."""
    for file, tree in trees().items():
        words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        # `pip download` fetches wheels for another machine.
        assert file.startswith(("images/", "benchmarks/carried.py")) or not words & {"pip"} | calls & {
            "nltk.download"
        }, file
