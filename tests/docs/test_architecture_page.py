"""docs/architecture.md: its layers are the tested ones, its paths exist, and its examples run.

The first line of a block says where its code goes: into a new file, at the end of a file that exists, into a table
of it (`in STEPS`), or into a function before a line (`in add_data before ...`). Each is done here for the time of a
test, to the real modules, and the tests among the blocks are called.
"""

import importlib
import importlib.util
import inspect
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from multiview.steps.table import STEPS
from tests.fixtures.imports import LAYERS
from tests.fixtures.project import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| `(.*?)` \|", PAGE, re.M)
WHERE = re.compile(r"# (?P<path>[\w/]+\.py)(?:, in (?P<name>\w+)(?: before `(?P<line>.*)`)?)?\n")


def package_of(path: str) -> str:
    """The package that a path of the page stands for, as LAYERS names it."""
    return ".".join(Path(path.removeprefix("src/").removesuffix("__init__.py")).with_suffix("").parts)


def test_the_layers_are_those_that_are_held():
    held = [(layer, package) for layer, packages in enumerate(LAYERS, 1) for package in packages.split()]
    assert sorted((int(layer), package_of(path)) for layer, path in ROWS) == sorted(held)
    assert [int(layer) for layer, _ in ROWS] == sorted((layer for layer, _ in held), reverse=True)


def test_the_drawing_has_every_package_in_the_order_of_the_layers():
    drawing = PAGE.split("```mermaid\n")[1].split("```")[0]
    drawn = [
        package
        for packages in re.findall(r'^  \w+\[".*?<br>(.*)"\]$', drawing, re.M)
        for package in re.split(r" · |, ", packages)
    ]
    names = [package_of(path).removeprefix("multiview.").replace("multiview", "load") for _, path in ROWS]
    assert drawn == names


def test_every_path_of_the_page_is_there():
    examples = {where["path"] for where in WHERE.finditer(PAGE)}
    roots = r"(?:src|components|pipelines|tests|docs|images|manifests|benchmarks)"
    for path in re.findall(rf"`({roots}/[\w/.-]*)`", PAGE):
        assert path in examples or (ROOT / path).exists(), path


def test_every_folder_is_named():
    """Those of manifests/ are in its README."""
    named = {Path(path).name for path in re.findall(r"`([\w/.-]+)/`", PAGE)}
    for root in ("src/multiview", "components", "pipelines", "images", "docs", "tests", "benchmarks"):
        found = {path.name for path in (ROOT / root).iterdir() if path.is_dir() and path.name[0] not in "._"}
        assert found <= named, root


@dataclass(frozen=True)
class Block:
    """A block of code with the place that its first line names."""

    path: str
    name: str | None
    line: str | None
    code: str

    @property
    def module(self) -> str:
        return ".".join(Path(self.path.removeprefix("src/")).with_suffix("").parts)


def examples() -> dict[str, list[Block]]:
    """The blocks of Python under each heading."""
    found = {}
    for section in PAGE.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        if blocks := re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
            places = [(WHERE.match(block), block) for block in blocks]
            found[title] = [
                Block(where["path"], where["name"], where["line"], block[where.end() :])
                for where, block in places
                if where
            ]
            assert len(found[title]) == len(blocks), "each block says where it goes"
    return found


def add_file(block: Block, folder: Path, patch: pytest.MonkeyPatch) -> ModuleType:
    """A new module; `import` finds it, and so does whoever looks for its source."""
    file = folder / block.path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.code)
    spec = importlib.util.spec_from_file_location(block.module, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, block.module, module)
    spec.loader.exec_module(module)
    return module


def add_code(block: Block, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Definitions at the end of a module."""
    module, file = importlib.import_module(block.module), folder / block.path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.code)
    names = dict(vars(module))
    exec(compile(block.code, str(file), "exec"), names)
    for name, value in names.items():
        if name not in vars(module):
            patch.setattr(module, name, value, raising=False)


def add_items(block: Block, patch: pytest.MonkeyPatch) -> None:
    """Items of a dict, or steps of a package, which are in the table of all steps by their names."""
    module = importlib.import_module(block.module)
    table: Any = getattr(module, str(block.name))
    if isinstance(table, tuple):
        table, items = STEPS, {step.name: step for step in eval(f"({block.code})", vars(module))}
    else:
        items = eval(f"{{{block.code}}}", vars(module))
    for name, value in items.items():
        patch.setitem(table, name, value)


def add_lines(block: Block, patch: pytest.MonkeyPatch) -> None:
    """Lines of a function before the one that begins with `line`, for all modules that have imported it."""
    module, name = importlib.import_module(block.module), str(block.name)
    original = getattr(module, name)
    source = inspect.getsource(original)
    (match,) = re.finditer(rf"^( *){re.escape(str(block.line))}", source, re.M)
    changed = source[: match.start()] + textwrap.indent(block.code, match[1]) + source[match.start() :]
    names: dict[str, Any] = {}
    exec(f"from __future__ import annotations\n{changed}", vars(module), names)
    for other in list(sys.modules.values()):
        if vars(other).get(name) is original:
            patch.setattr(other, name, names[name])


@pytest.mark.parametrize("title", examples())
def test_examples_run(title, tmp_path, monkeypatch):
    called = 0
    for block in examples()[title]:
        if block.line:
            add_lines(block, monkeypatch)
        elif block.name:
            add_items(block, monkeypatch)
        elif (ROOT / block.path).exists():
            add_code(block, tmp_path / "code", monkeypatch)
        else:
            module = add_file(block, tmp_path / "code", monkeypatch)
            for name, function in inspect.getmembers(module, inspect.isfunction):
                if name.startswith("test_"):
                    folder = tmp_path / name
                    folder.mkdir()
                    wanted = inspect.signature(function).parameters
                    function(**dict.fromkeys(wanted, folder))
                    called += 1
    assert called


def test_every_kind_of_addition_has_its_example():
    titles = re.findall(r"^## (.*)$", PAGE.partition("# How to add …")[2], re.M)
    assert titles == ["An architecture", "A step", "A setting", "A data format", "A metric"]
    assert list(examples()) == titles[1:]
