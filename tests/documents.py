"""Commands that README.md and docs/ show, and the tests that run them.

A test says with `@pytest.mark.documented("multiview gc")` that it runs the commands that begin so (of one document
alone with `document="kubeflow.md"`), and is given them as they are written there: one at a time as `documented`, or all
as `documented_lines`.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ARGUMENTS = {"documented", "documented_lines"}


def commands(document: str = "") -> list[str]:
    """The lines of code blocks that run a program, without prompt and comment; of all documents or one."""
    found = []
    for file in DOCUMENTS:
        if document not in ("", file.name):
            continue
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", file.read_text("utf-8"), re.M | re.S):
            for line in block.splitlines() if language in ("", "bash") else ():
                line = re.sub(r"\s+#.*", "", line.removeprefix("$ "))
                if re.match(r"(make|multiview|mlflow|python -m) ", line) and not line.endswith("…"):
                    found.append(line)
    return list(dict.fromkeys(found))


def beginning_with(*beginnings: str, document: str = "") -> list[str]:
    """The commands that begin with one of some words. ValueError for words that none begins with."""
    found = [line for line in commands(document) if line.startswith(beginnings)]
    for beginning in beginnings:
        if not any(line.startswith(beginning) for line in found):
            raise ValueError(
                f"{document or 'no document'} shows no command {beginning!r}: the test runs nothing"
            )
    return found


def words(line: str) -> list[str]:
    """What is given to `multiview` or `python -m pipelines` in a line."""
    return shlex.split(re.sub(r"^(python -m )?\w+ ", "", line))


@dataclass(frozen=True)
class Declared:
    """A test that says which commands it runs."""

    test: str
    lines: list[str]
    reads: bool
    """Whether its body reads the commands that it is given."""


def declared() -> Iterator[Declared]:
    """Every test with the mark."""
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            body = {inner.id for line in node.body for inner in ast.walk(line) if isinstance(inner, ast.Name)}
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.documented":
                    given = [ast.literal_eval(argument) for argument in mark.args]
                    named = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in mark.keywords}
                    where = f"{file.relative_to(ROOT)}::{node.name}"
                    yield Declared(where, beginning_with(*given, **named), bool(body & ARGUMENTS))
